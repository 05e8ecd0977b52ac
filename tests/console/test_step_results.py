"""What plugin steps reported, on the Defs screen and on the screen of a job."""

from msgspec.structs import replace

from crawl_engine.store.read.step_results import ListedResult, ResultCount
from tests.console.builders import snapshot
from tests.console.fakes import FakeSource, open_console

COUNTS = {
    "books/list": {
        "mark": {"ok": 31, "warning": 4, "error": 2, "not_applicable": 5},
        "score": {"ok": 40, "warning": 0, "error": 0, "not_applicable": 0},
    }
}


class SourceWithResults(FakeSource):
    """A run whose steps reported something; job 2 has results."""

    def __init__(self):
        super().__init__()
        self.current = snapshot(results=COUNTS)

    def job(self, id_):
        detail = super().job(id_)
        if id_ != 2:
            return detail
        listed = ListedResult(1, 2, detail.line.url, "books", "list", "mark", "error", "seven", 1.25, "seven is bad")
        return replace(
            detail, results=(listed,), unlisted_results=(ResultCount("books", "list", "far", "not_applicable", 3),)
        )


def roles(console, text):
    """The roles of the cells of the results table with this text."""
    rows = console.app.navigation.top.results.rows
    return [role for row in rows for cell, role in row.cells if cell == text]


async def test_the_defs_screen_counts_results_by_step(tmp_path):
    async with open_console(tmp_path, source=SourceWithResults(), screen="defs") as console:
        await console.until(lambda: "NOT APPL." in console.screen())
        (line,) = [line for line in console.text() if "mark" in line]
        assert line.split() == [">", "books/list", "mark", "31", "4", "2", "5"]
        assert (roles(console, "2"), roles(console, "4")) == (["bad"], ["warn"])
        assert roles(console, "40") == ["text"]
        assert set(roles(console, "0")) == {"dim"}
        await console.press("tab", "tab", "z")
        await console.until(lambda: "DATADEF" not in console.screen())
        assert "score" in console.screen()
        await console.press("z", "enter")
        await console.until(lambda: "outcome:error" in console.text()[3])
        job_filter = console.app.navigation.top.window.job_filter
        assert (job_filter.groups.include, job_filter.outcomes.include) == (("books",), ("error",))


async def test_without_results_the_defs_screen_has_no_table_of_them(tmp_path):
    async with open_console(tmp_path, screen="defs") as console:
        await console.until(lambda: "DATADEF" in console.screen())
        for _ in range(2):
            await console.press("z")
            assert "NOT APPL." not in console.screen()
        assert len(console.app.navigation.top.panes()) == 3


async def test_a_job_with_results_has_a_tab_for_them(tmp_path):
    async with open_console(tmp_path, source=SourceWithResults(), screen="failed") as console:
        console.app.navigation.push_job(2, "Rows")
        await console.until(lambda: "Results" in console.screen())
        await console.press("tab")
        await console.until(lambda: "[Results]" in console.screen())
        text = console.screen()
        assert "list/mark  error seven  1.25 ms  seven is bad" in text
        assert "list/far  not_applicable  3 counted" in text
        await console.press("tab")
        await console.until(lambda: "[Try]" in console.screen())


async def test_a_job_without_results_has_no_tab_for_them(tmp_path):
    async with open_console(tmp_path, source=SourceWithResults()) as console:
        console.app.navigation.push_job(1, "Rows")
        await console.until(lambda: "[Rows]" in console.screen() and "Tea" in console.screen())
        assert "Results" not in console.screen()
        await console.press("tab")
        await console.until(lambda: "[Try]" in console.screen())
