"""The log folds what says the same again, and never hides a page that succeeded."""

from console.tui.state.log_buffer import FoldedLines
from engine.store.tables.run.events import Event
from tests.console.builders import AT, run, snapshot
from tests.console.fakes import FakeSource, open_console


def failure(number, text="HTTP 500"):
    return number, Event(AT, "WARNING", "n1", "page", f"{text}; attempt 2 in 0.{number} s  http://a/{number}", number)


def test_consecutive_lines_that_differ_in_url_and_numbers_are_one():
    folded = FoldedLines()
    folded.extend([failure(1), failure(2), failure(3, "timeout"), failure(4)], fold=True)
    assert [id_ for id_, _ in folded.lines] == [2, 3, 4]
    assert [folded.count(id_) for id_, _ in folded.lines] == [2, 1, 1]
    folded.extend([failure(5)], fold=True)
    assert [folded.count(id_) for id_, _ in folded.lines] == [2, 1, 2]
    folded.drop_first(1)
    assert [id_ for id_, _ in folded.lines] == [3, 5]


def test_pages_that_succeeded_are_not_folded():
    folded = FoldedLines()
    pages = [(n, Event(AT, "INFO", "n1", "page", f"200   8{n} ms   12 kB  24 rows  http://a/{n}", n)) for n in (1, 2)]
    folded.extend(pages, fold=True)
    assert len(folded.lines) == 2


async def test_repeats_are_folded_and_unfolded(tmp_path):
    source = FakeSource()
    source.lines = [failure(number) for number in range(1, 9)]
    async with open_console(tmp_path, source=source, screen="log") as console:
        await console.until(lambda: "×8" in console.screen())
        assert sum("HTTP 500" in line for line in console.text()) == 1
        await console.press("equals_sign")
        await console.until(lambda: sum("HTTP 500" in line for line in console.text()) == 8)


async def test_the_runs_stand_side_by_side(tmp_path):
    source = FakeSource()
    source.current = snapshot(run=run(state="DONE", stage="SHUTDOWN_COMPLETE"))
    source.supervisor = None
    async with open_console(tmp_path, source=source, screen="runs") as console:
        await console.until(lambda: "1c9e" in console.screen())
        assert "11,870 before (-100.0%)" in console.screen()
        assert "! detail.isbn was never filled" in console.screen()
        await console.press("down")
        await console.until(lambda: "not in the run before" in console.screen())
        await console.press("enter")
        await console.until(lambda: any("runs show 1c9e" in toast for toast in console.toasts()))
        await console.press("up", "enter")
        await console.until(lambda: "run 3f2a" in console.screen() and "pages/s" in console.screen())
