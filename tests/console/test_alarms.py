"""The console shows the alarms of the run, keeps quiet about acknowledged ones, and rings for new ones."""

import msgspec
import pytest

from crawl_console.tui.config import Config
from crawl_engine.model.run import Alarm
from tests.console.builders import host, node, snapshot
from tests.console.fakes import FakeSource, open_console

DEAD = {"state": "DEAD", "role": "DEAD_RUNNER", "pid": None, "reason": "died: signal 9"}


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
        await console.press("equals_sign")
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
    source.current = snapshot(nodes=[node(1, "DONE", now="", in_flight=0, jobs_per_s=0.0)], hosts=hosts)
    async with open_console(tmp_path, source=source, size=(120, 40)) as console:
        await console.until(lambda: f"{words}" in console.screen())
        assert "● done" in console.screen()


def resting(seconds, name="a:80"):
    return snapshot(alarms=[Alarm("host-resting", f"{name} rests {seconds:.0f} s after HTTP 429", host=name)])


async def test_an_acknowledged_alarm_is_quiet_until_its_cause_ends(tmp_path):
    source = FakeSource()
    source.current = resting(9.0)
    async with open_console(tmp_path, source=source) as console:
        await console.until(lambda: "a:80 rests 9 s" in console.screen())
        await console.press("a")
        await console.until(lambda: not any("a:80 rests" in line for line in console.text()))
        await console.until(lambda: source.current.acknowledged == {"reach a:80"})
        source.current = msgspec.structs.replace(resting(4.0), acknowledged=source.current.acknowledged)
        await console.settle()
        assert not any("a:80 rests" in line for line in console.text()), "the same cause with another number"
        source.current = snapshot(alarms=[])
        await console.settle()
        source.current = resting(9.0)
        await console.until(lambda: "a:80 rests 9 s" in console.screen())


async def test_an_alarm_that_was_acknowledged_elsewhere_is_quiet_on_every_screen(tmp_path):
    source = FakeSource()
    source.current = msgspec.structs.replace(resting(9.0), acknowledged=frozenset({"reach a:80"}))
    async with open_console(tmp_path, source=source) as console:
        for screen in "12345678":
            await console.press(screen)
            assert not any("a:80 rests" in line for line in console.text())
            assert [alarm.acknowledged for alarm in console.app.alarm_book.alarms] == [True]


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
    source.current = snapshot(alarms=[])
    async with open_console(tmp_path, source=source, config=config) as console:
        rung, written = [], []
        console.app.bell = lambda: rung.append(True)
        console.app._driver.write = written.append
        source.current = resting(9.0, "a\x1b]:80")
        await console.until(lambda: console.app.alarm_book.alarms)
        await console.settle()
        sent = [text for text in written if text.startswith("\x1b]9;")]
        assert rung == [True] * asked
        assert len(sent) == int(asked)
        assert all("a·]:80 rests" in text and text.count("\x1b") == 1 for text in sent)


@pytest.mark.parametrize(("again", "rings"), [(5.0, 1), (70.0, 2)])
async def test_an_alarm_that_comes_again_as_the_same_does_not_ring(tmp_path, again, rings):
    source = FakeSource()
    source.current = snapshot(alarms=[])
    async with open_console(tmp_path, source=source, config=Config(tmp_path / "config", bell=True)) as console:
        rung = []
        console.app.bell = lambda: rung.append(True)
        for since in (5.0, None, again):
            found = [] if since is None else [msgspec.structs.replace(resting(9.0).alarms[0], since=since)]
            source.current = snapshot(alarms=found)
            await console.until(lambda: len(console.app.alarm_book.alarms) == len(found))  # noqa: B023
        await console.settle()
        assert len(rung) == rings


async def test_failed_says_so_while_a_host_refuses_every_page(tmp_path):
    source = FakeSource()
    source.jobs_ = []
    refuses = Alarm("host-refused", "b:80 refuses the crawler: HTTP 403", "bad", host="b:80")
    source.current = snapshot(alarms=[refuses])
    async with open_console(tmp_path, source=source, screen="failed", size=(120, 40)) as console:
        await console.until(lambda: "but b:80 refuses the crawler: HTTP 403" in console.screen())
        assert "✓ nothing failed" not in console.screen()
