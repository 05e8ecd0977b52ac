"""The runs stand side by side, and two of them are compared."""

from tests.console.builders import run, run_report, snapshot
from tests.console.fakes import FakeSource, open_console


def ended(*reports):
    source = FakeSource()
    source.current = snapshot(run=run(state="DONE", stage="SHUTDOWN_COMPLETE"))
    source.supervisor = None
    source.reports = list(reports) or source.reports
    return source


def columns(console, label):
    [line] = [line for line in console.text() if line.strip().startswith(label)]
    return line.strip().removeprefix(label).split()


async def test_a_run_is_compared_with_the_one_before(tmp_path):
    async with open_console(tmp_path, source=ended(), screen="runs", size=(100, 30)) as console:
        await console.until(lambda: "run 3f2a compared with 1c9e" in console.screen())
        assert columns(console, "rows detail") == ["0", "11,870", "-100.0%"]
        assert columns(console, "rows book") == ["31,412", "31,300", "+0.4%"]
        assert columns(console, "filled book.stock") == ["99.1%", "98.0%", "+1.1", "points"]
        assert columns(console, "failed HTTP 500") == ["7", "-"]
        assert columns(console, "latency p95") == ["180ms", "200ms"]
        assert "! detail.isbn was never filled" in console.screen()
        await console.press("down")
        await console.until(lambda: "run 1c9e, the first run here" in console.screen())
        assert columns(console, "rows book") == ["31,300"]
        assert "before" not in console.screen()
        await console.press("enter")
        await console.until(lambda: any("runs show 1c9e" in toast for toast in console.toasts()))
        await console.press("up", "enter")
        await console.until(lambda: "run 3f2a DONE" in console.screen() and "pages/s" in console.screen())


async def test_any_two_runs_are_compared(tmp_path):
    reports = [run_report(seq, f"r{seq}", {"book": seq * 100}) for seq in (4, 3, 2, 1)]
    async with open_console(tmp_path, source=ended(*reports), screen="runs", size=(100, 30)) as console:
        await console.until(lambda: "run r4 compared with r3" in console.screen())
        await console.press("space")
        await console.until(lambda: "run r4 compared with r3" in console.screen())
        await console.press("down")
        await console.until(lambda: "run r4 compared with r2" in console.screen())
        await console.press("down", "space")
        await console.until(lambda: "run r4 compared with r1" in console.screen())
        assert columns(console, "rows book") == ["400", "100", "+300.0%"]
        await console.press("escape")
        await console.until(lambda: "run r1, the first run here" in console.screen())


async def test_a_dataDef_that_another_run_lacks_has_no_number_there(tmp_path):  # noqa: N802
    reports = [run_report(2, "r2", {"new": 5}), run_report(1, "r1", {"old": 7})]
    async with open_console(tmp_path, source=ended(*reports), screen="runs", size=(100, 30)) as console:
        await console.until(lambda: "run r2 compared with r1" in console.screen())
        assert columns(console, "rows new") == ["5", "-"]
        assert columns(console, "rows old") == ["-", "7", "-100.0%"]
