"""What an operator sees first: work above what has ended, nothing said of what is not read, keys that do something."""

import threading

from msgspec.structs import replace

from crawl_console.format import shorten_subject
from crawl_console.tui import spawn
from crawl_console.tui.app import Console
from crawl_console.tui.attach import AttachOptions, attach
from crawl_console.tui.config import Config
from crawl_console.tui.options import ConsoleOptions
from crawl_engine.model.host import HostState
from tests.console.builders import host, node, output, run, sequence, snapshot
from tests.console.fakes import FakeControlClient, FakeSource, open_console
from tests.console.pictures import drawn_strips


def ended(number):
    return sequence(number, "old", f"h{number}:80", ready=0, delayed=0, taken=0, done=9, failed=0)


async def test_sequences_at_work_stay_above_those_that_have_ended(tmp_path):
    """The cursor of a pane without focus kept it at a sequence that ended."""
    source = FakeSource()
    source.current = snapshot(sequences=[sequence(n, "busy", f"h{n}:80") for n in range(1, 41)], sequence_count=40)
    async with open_console(tmp_path, source=source, size=(160, 48)) as console:
        await console.until(lambda: "busy · h1:80" in console.screen())
        busy = [sequence(39, "busy", "h39:80", taken=0), sequence(40, "busy", "h40:80")]
        lost = sequence(41, "lost", "h41:80", ready=0, delayed=0, taken=0, done=0, failed=3)
        source.current = snapshot(sequences=[*map(ended, range(1, 39)), *busy, lost], sequence_count=41)
        await console.until(lambda: "old · h1:80" in console.screen())
        lines = [line for line in console.text() if " · h" in line]
        assert ["h40:80" in lines[0], "h39:80" in lines[1], "h1:80" in lines[2]] == [True] * 3
        table = console.app.navigation.views["nodes"].sequences
        await console.press("tab", "tab", "G")
        await console.until(lambda: "✗ lost · h41:80" in console.screen())
        assert table.row.cells[0] == ("✗ lost · h41:80", "bad")
        source.current = snapshot(sequences=[*map(ended, range(1, 38)), *busy, lost], sequence_count=40)
        await console.settle()
        await console.settle()
        assert table.row.key == 41, "the operator's cursor stays with its row"


async def test_hosts_with_trouble_and_work_stand_above_idle_ones(tmp_path):
    source = FakeSource()
    idle = [host(f"idle{n}:80", running=0, waiting=0) for n in range(30)]
    work = [host("slow1:80", running=2, waiting=9), host("slow2:80", running=1, waiting=400)]
    source.current = snapshot(hosts=[*idle, *work, host("bad:80", backoff=9.0, state=HostState.RESTING)], host_count=33)
    async with open_console(tmp_path, source=source, screen="hosts", size=(160, 48)) as console:
        await console.until(lambda: "bad:80" in console.screen())
        names = [row.key for row in console.app.navigation.top.table.rows]
        assert names[:4] == ["bad:80", "slow2:80", "slow1:80", "idle0:80"]
        source.current = replace(source.current, hosts=[*idle, replace(work[0], running=1, waiting=10), *work[1:]])
        await console.settle()
        assert [row.key for row in console.app.navigation.top.table.rows][:2] == ["slow2:80", "slow1:80"]
        await console.press("1")
        pane = console.app.navigation.views["nodes"].hosts
        await console.until(lambda: pane.items is not None)
        assert [item.host for item in pane.items[:3]] == ["slow2:80", "slow1:80", "idle0:80"]


async def test_nothing_is_said_of_what_is_not_read_yet(tmp_path):
    """`no files`, `no hosts yet` and `nothing failed` stood on screens that were loading."""
    (tmp_path / "defs").mkdir()
    released = threading.Event()

    class SlowSource(FakeSource):
        def snapshot(self, limit):
            if self.polls > 1:
                released.wait(5)
            return super().snapshot(limit)

    source = SlowSource()
    async with open_console(tmp_path, source=FakeSource()) as console:
        console.app.poller._source = source
        source.polls = 5
        for key in "2348":
            await console.pilot.press(key)
            await console.pilot.pause(0.05)
            text = "\n".join(console.text()[4:])
            assert "reading …" in text, key
            assert not [word for word in ("no jobs", "no hosts", "nothing failed", "no run") if word in text]
        await console.pilot.press("5")
        await console.pilot.pause(0.05)
        assert "no files" not in console.screen()
        assert "no dataDefs" not in console.screen()
        released.set()
        await console.until(lambda: "no files" in console.screen())


async def test_the_first_screen_says_that_it_starts(tmp_path):
    released = threading.Event()

    class SlowSource(FakeSource):
        def snapshot(self, limit):
            released.wait(5)
            return super().snapshot(limit)

    source, data = SlowSource(), tmp_path / "data"
    options = ConsoleOptions(data=data, defs=data, hertz=2.0, config=Config(tmp_path / "config"))
    app = Console(options, source, FakeControlClient(source))
    async with app.run_test(size=(160, 48)) as pilot:
        await pilot.pause(0.1)
        text = "\n".join(strip.text for strip in drawn_strips(app))
        released.set()
        assert "starting …" in text
        assert text.count("reading …") == 7
        assert not [word for word in ("no lines", "✓", "no nodes", "none yet") if word in text]


async def test_an_ended_run_hints_no_key_that_needs_a_supervisor(tmp_path):
    source = FakeSource()
    async with open_console(tmp_path, source=source, start_supervisor=lambda: (True, ""), size=(120, 40)) as console:
        assert "X kill  c cancel  p pause" in console.text()[-1]
        source.current = snapshot(run=run(state="DONE", stage="SHUTDOWN_COMPLETE"))
        source.supervisor = None
        await console.until(lambda: "kill" not in console.text()[-1])
        assert "cancel" not in console.text()[-1]
        assert "drain" not in console.text()[-1]
        assert "R start" in console.text()[-1]
        source.supervisor = 4121
        await console.until(lambda: "X kill  c cancel" in console.text()[-1])


def test_a_name_keeps_its_ends_and_a_request_its_age():
    assert shorten_subject("127.0.0.6:42371/item/1234 · 25 s of 30 s", 34) == "127.0.0.6:42371/…34 · 25 s of 30 s"
    assert shorten_subject("a.example/item/1 · 25 s of 30 s", 31) == "a.example/item/1 · 25 s of 30 s"
    assert shorten_subject("a.example/item/12345 · 25 s of 30 s", 31) == "a.example/…12345 · 25 s of 30 s"
    assert shorten_subject("very-long-name.example:443", 12) == "very-l…e:443"
    assert shorten_subject("finishing 1 job", 4) == "finishing 1 job", "a sentence is cut at its end"


def test_a_start_says_so_before_anything_else(tmp_path, monkeypatch, capsys):
    def fail(*_):
        assert capsys.readouterr().err == "starting ...\r"
        raise spawn.StartFailed(2, "defs.yml:1:1 no")

    monkeypatch.setattr(spawn, "start_supervisor", fail)
    assert attach(AttachOptions(data=tmp_path, defs=tmp_path, arguments=())) == 2
    assert capsys.readouterr().err == "\x1b[Kdefs.yml:1:1 no\n"


async def test_the_end_card_says_what_stays_paused_and_no_rate_of_what_has_ended(tmp_path):
    source = FakeSource()
    async with open_console(tmp_path, source=source, size=(160, 48)) as console:
        source.current = snapshot(
            run=run(state="CANCELLED", stage="SHUTDOWN_COMPLETE"), nodes=[node(1, "TERMINATED", pid=None)],
            paused_hosts=1, appenders=[output(pid=None)], hosts=[host("a:80", paused=True)],
        )  # fmt: skip
        source.supervisor = None
        await console.until(lambda: "run 3f2a CANCELLED" in console.screen())
        assert "paused    1 sequence until resumed: detail on img.example:443" in console.screen()
        assert "paused    1 host until resumed: a:80" in console.screen()
        for name in ("  n1  ", "  rows/book  "):
            [line] = [line for line in console.text() if name in line]
            assert "ended" in line
            assert " 0.0" not in line
        await console.press("3")
        await console.until(lambda: any("a:80" in line and "‖ paused" in line for line in console.text()))


async def test_a_filter_says_how_many_of_all_match(tmp_path):
    source = FakeSource()
    source.current = snapshot(hosts=[host(f"h{n}.x:80") for n in range(30)], host_count=30)
    async with open_console(tmp_path, source=source, screen="hosts") as console:
        await console.press("slash")
        await console.type("h7")
        await console.press("enter")
        await console.until(lambda: "1 of 30 match /h7" in console.screen())
        await console.press("escape")
        await console.until(lambda: "match /h7" not in console.screen())
        await console.press("2", "slash")
        await console.type("item/2")
        await console.press("enter")
        await console.until(lambda: "1 of 45,653 match" in console.screen())
        await console.press("slash")
        await console.type("state:failed")
        await console.press("enter")
        await console.until(lambda: "7 of 45,653 match" in console.screen())
