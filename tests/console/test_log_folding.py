"""The log shows trouble, counts the pages that went well by host, and folds what says the same again."""

from console.tui.state.log_buffer import FoldedLines
from engine.store.tables.run.events import Event
from tests.console.builders import AT
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


def success(number, host="a", seconds="84 ms"):
    text = f"200 {seconds:>7}   12 kB  24 rows  http://{host}/{number}"
    return number, Event(AT, "INFO", "n1", "page", text, number)


def test_pages_that_went_well_are_counted_by_host():
    folded = FoldedLines()
    lines = [success(1), success(2, "b:81", "1.5 s"), success(3, "b:81", "stored"), success(4, seconds="40 ms")]
    folded.extend([*lines, failure(5)], fold=True, fold_pages=True)
    assert [id_ for id_, _ in folded.lines] == [5]
    assert {host: (pages.count, list(pages.seconds)) for host, pages in folded.pages.items()} == {
        "b:81": (2, [1.5]), "a": (2, [0.084, 0.04]),
    }  # fmt: skip
    assert next(reversed(folded.pages)) == "a", "the newest page is one of a"
    folded.clear()
    folded.extend(lines, fold=True)
    assert len(folded.lines) == 4


def test_only_pages_that_went_well_are_counted():
    """A page with a problem is a warning; the routine of nodes has no line, what others say has one."""
    folded = FoldedLines()
    lines = [
        (1, Event(AT, "WARNING", "n1", "page", "200   84 ms   12 kB   0 rows  http://a/1; empty page", 1)),
        (2, Event(AT, "INFO", "supervisor", "node", "n1 is ready", None)),
        (3, Event(AT, "INFO", "n1", "page", "SKIPPED by robots.txt  http://a/3", 3)),
        (4, Event(AT, "INFO", "n1", "page", "301 → http://a/5  http://a/4", 4)),
        (5, Event(AT, "INFO", "n1", "node", "n1 DONE RUNNER", None)),
    ]
    folded.extend(lines, fold=True, fold_pages=True)
    assert [id_ for id_, _ in folded.lines] == [1, 2, 3]
    assert not folded.pages


async def test_the_log_shows_trouble_and_all_on_demand(tmp_path):
    source = FakeSource()
    source.lines = [success(1), success(2), failure(3), success(4, "b", "1.5 s")]
    async with open_console(tmp_path, source=source, screen="log") as console:
        await console.until(lambda: "b ×1 ok  p50 1.5s   ·   a ×2 ok  p50 84ms" in console.screen())
        assert "─▌trouble · follow ─ =: all" in console.screen()
        assert "http" not in console.screen()
        assert sum("200" in line for line in console.text()) == 0
        await console.press("slash")
        await console.type("a/1")
        await console.press("enter")
        await console.until(lambda: "200   84 ms   12 kB  24 rows  a/1" in console.screen())
        await console.press("escape", "equals_sign")
        await console.until(lambda: "log all" in console.screen() and "a/2" in console.screen())
        await console.press("equals_sign")
        await console.until(lambda: "a/2" not in console.screen() and "a ×2 ok" in console.screen())
        source.lines = source.lines[:2]
    async with open_console(tmp_path, source=source, screen="log") as console:
        await console.until(lambda: "✓ no trouble" in console.screen())


async def test_the_errors_of_a_host_fold_and_keep_their_urls(tmp_path):
    source = FakeSource()
    reason = "FAILED: the server closed the connection before it had sent the whole header of its answer"
    url = "https://shop.example/catalogue/some-long-category/page-{}.html"
    lines = [Event(AT, "ERROR", "n1", "page", f"{reason}  {url.format(number)}", number) for number in range(1, 18)]
    source.lines = [*enumerate(lines, 1), (18, Event(AT, "ERROR", "n1", "page", f"timeout  {url.format(18)}", 18))]
    async with open_console(tmp_path, source=source, screen="hosts") as console:
        await console.press("down", "l")
        await console.until(lambda: "×17" in console.screen())
        [line] = [line for line in console.text() if "×17" in line]
        assert "page-17.html" in line
        assert "page-18.html" in console.screen()


async def test_repeats_are_folded_and_unfolded(tmp_path):
    source = FakeSource()
    source.lines = [failure(number) for number in range(1, 9)]
    async with open_console(tmp_path, source=source, screen="log") as console:
        await console.until(lambda: "×8" in console.screen())
        assert sum("HTTP 500" in line for line in console.text()) == 1
        await console.press("equals_sign")
        await console.until(lambda: sum("HTTP 500" in line for line in console.text()) == 8)
