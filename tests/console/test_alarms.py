"""Alarms end when their cause ends; the past and what an operator ordered are none."""

import msgspec
import pytest

from console.alarms import current_alarms
from console.tui.config import Config
from console.tui.state.source import PollResult
from tests.console.builders import host, node, output, run, snapshot
from tests.console.fakes import FakeSource, open_console

DEAD = {"state": "DEAD", "role": "DEAD_RUNNER", "pid": None, "reason": "died: signal 9"}


def node_alarms(*nodes):
    poll = PollResult(0.0, 0.0, snapshot(nodes=list(nodes), hosts=[], warnings=[], paused_sequences=0), 4121)
    return [(alarm.level, alarm.text) for alarm in current_alarms(poll.snapshot, poll.supervisor_pid)]


def test_a_death_is_an_alarm_until_its_replacement_is_at_work():
    assert node_alarms(node(1, **DEAD)) == [("bad", "n1 dead: died: signal 9; not replaced")]
    starting = node(2, "STARTING", replaces="n1")
    assert node_alarms(node(1, **DEAD), starting) == [("warn", "n1 dead: died: signal 9; n2 is starting")]
    assert node_alarms(node(1, **DEAD), node(2, replaces="n1")) == []


@pytest.mark.parametrize("changes", [{"past": True}, {"reason": "killed by an operator"}])
def test_the_past_and_an_order_are_no_alarm(changes):
    assert node_alarms(node(1, **{**DEAD, **changes})) == []


async def test_dead_nodes_take_one_line_below_the_living(tmp_path):
    source = FakeSource()
    dead = [node(number, **{**DEAD, "done": 10, "failed": 1}) for number in range(1, 31)]
    source.current = snapshot(nodes=[*dead, node(31), node(32)])
    async with open_console(tmp_path, source=source) as console:
        await console.until(lambda: " n31 " in console.screen())
        lines = [line for line in console.text() if " ✗ " in line]
        assert len(lines) == 1
        assert "30 nodes" in lines[0]
        assert "300" in lines[0]
        assert "n30 died: signal 9, n29" in lines[0]
        assert console.screen().index(" n32 ") < console.screen().index("30 nodes")


async def test_the_log_says_what_matters_first_at_80_columns(tmp_path):
    source = FakeSource()
    url = "https://shop.example/catalogue/a%20long/" + "way/" * 20 + "page-31"
    id_, event = source.lines[0]
    source.lines[0] = (id_, msgspec.structs.replace(event, text=f"200   84 ms   12 kB  24 rows  {url}"))
    async with open_console(tmp_path, source=source, screen="log") as console:
        await console.until(lambda: "page-31" in console.screen())
        [line] = [line for line in console.text() if "page-31" in line]
        assert len(line) <= 80
        assert "200   84 ms   12 kB  24 rows  shop.example/…" in line


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ([host("a:80", next_in=0.4), host("b:80", backoff=9.0)], "idle: delay of a:80, next in 0.4s"),
        ([host("b:80", backoff=9.0)], "idle: b:80 rests, next in 9.0s"),
        ([host("a:80", running=4, waiting=3)], "idle: a:80 is at its concurrency of 4"),
        ([host("a:80", waiting=0)], "idle: no job is ready"),
    ],
)
async def test_an_idle_node_says_why(tmp_path, hosts, words):
    source = FakeSource()
    source.current = snapshot(nodes=[node(1, "DONE", now="", in_flight=0)], hosts=hosts)
    async with open_console(tmp_path, source=source, size=(120, 40)) as console:
        await console.until(lambda: f"{words}" in console.screen())
        assert "● done" in console.screen()


async def test_an_acknowledged_alarm_is_quiet_until_its_cause_ends(tmp_path):
    source = FakeSource()
    backing_off = snapshot(hosts=[host("a:80", backoff=9.0)], nodes=[node(1)], warnings=[])
    source.current = backing_off
    async with open_console(tmp_path, source=source) as console:
        await console.until(lambda: "a:80 answers 429 or 503" in console.screen())
        await console.press("a")
        await console.until(lambda: not any("a:80 answers" in line for line in console.text()))
        source.current = snapshot(hosts=[host("a:80", backoff=4.0)], nodes=[node(1)], warnings=[])
        await console.settle()
        assert not any("a:80 answers" in line for line in console.text()), "the same cause with another number"
        source.current = snapshot(hosts=[host("a:80")], nodes=[node(1)], warnings=[])
        await console.settle()
        source.current = backing_off
        await console.until(lambda: "a:80 answers 429 or 503" in console.screen())


async def test_the_list_shows_alarms_of_now_and_of_before(tmp_path):
    async with open_console(tmp_path, screen="hosts") as console:
        await console.press("A")
        await console.until(lambda: "! now" in console.screen())
        assert "3 alarms" in console.screen()
        await console.until(lambda: "n5 died: SIGKILL" in console.screen())
        await console.press("a")
        await console.until(lambda: "✓ acknowledged" in console.screen())
        assert len(console.app.alarm_book.open) == 2
        await console.press("a")
        await console.until(lambda: "✓ acknowledged" not in console.screen())
        await console.press("escape")
        await console.until(lambda: "ROBOTS" in console.screen())


@pytest.mark.parametrize("asked", [True, False])
async def test_new_alarms_ring_and_notify_on_request(tmp_path, asked):
    config = Config(tmp_path / "config", bell=asked, notify=asked)
    source = FakeSource()
    source.current = snapshot(hosts=[], nodes=[node(1)], warnings=[])
    async with open_console(tmp_path, source=source, config=config) as console:
        rung, written = [], []
        console.app.bell = lambda: rung.append(True)
        console.app._driver.write = written.append
        source.current = snapshot(hosts=[host("a\x1b]:80", backoff=9.0)], nodes=[node(1)], warnings=[])
        await console.until(lambda: console.app.alarm_book.alarms)
        await console.settle()
        sent = [text for text in written if text.startswith("\x1b]9;")]
        assert rung == [True] * asked
        assert len(sent) == int(asked)
        assert all("a·]:80 answers" in text and text.count("\x1b") == 1 for text in sent)


def test_a_pause_is_an_order_and_no_alarm():
    paused = snapshot(run=run(paused="operator"), paused_sequences=2, paused_hosts=1, hosts=[], nodes=[], warnings=[])
    assert current_alarms(paused, 4121) == []


def test_an_output_that_cannot_be_written_is_an_alarm():
    view = snapshot(appenders=[output("crm/book", error="ValueError: no room", backlog=7), output("rows/book")])
    [alarm] = [alarm for alarm in current_alarms(view, 41) if "written" in alarm.text]
    assert (alarm.level, alarm.key) == ("bad", "output crm/book")
    assert alarm.text == "crm/book cannot be written, backlog 7: ValueError: no room"
    assert current_alarms(view, None) == [a for a in current_alarms(view, None) if "written" not in a.text]
