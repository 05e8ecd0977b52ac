"""The page of the log."""

from collections.abc import Sequence

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from crawl_console.filter_syntax import parse_events
from crawl_console.web.pages.events import ShownLines, find_lines
from crawl_console.web.pages.grids import Grid, link
from crawl_console.web.pages.views import Listed, find_view, frame_of, number_of, page, query_of
from crawl_console.web.render import render
from crawl_engine.errors import UsageError
from crawl_engine.store.db.filter import ALL_EVENTS, GlobFilter

_LINES = 100
_HINT = "words, level:error, source:n1, kind:page, age<5m, !x"
_LEVELS = (("", "All levels", ()), ("warning", "Warnings", ("WARNING", "ERROR")), ("error", "Errors", ("ERROR",)))
"""The value of the parameter, the button, and the levels that it shows."""
_FOLDS = (("", "Folded"), ("all", "All lines"))


@page
async def log(request: Request) -> Response:
    watch, view = await find_view(request)
    text, before, problem = query_of(request, "filter"), number_of(request, "before"), ""
    level, lines = query_of(request, "level"), query_of(request, "lines")
    shown, older, run = ShownLines(()), None, view.poll.snapshot.run
    try:
        filter_ = parse_events(text) if text else ALL_EVENTS
        levels: Sequence[str] = next((included for name, _, included in _LEVELS if name == level), ())
        if levels:
            kept = [one for one in levels if one in (filter_.levels.include or levels)]
            filter_ = replace(filter_, levels=GlobFilter(tuple(kept) or ("none",), filter_.levels.exclude))
        if run is not None:
            found = await find_lines(watch, run.seq, filter_, before, _LINES, fold=lines != "all")
            shown, older = found.shown, found.older
    except UsageError as error:
        problem = f"{error.message}. {error.remedy}"

    def there(**changes: object) -> str:
        given = {"data": view.name, "filter": text, "level": level, "lines": lines}
        return link("/crawl/log", **{**given, **changes})

    listed = Listed(
        Grid("log", "Log", (), (), ""), text, "Log", _HINT, problem, "",
        there() if before else "", there(before=older) if older else "",
    )  # fmt: skip
    buttons = [(title, there(level=name), name == level) for name, title, _ in _LEVELS]
    folds = [(title, there(lines=name), name == lines) for name, title in _FOLDS]
    return render(
        request, "log.html", top=frame_of(request, view, "Log", "log"), listed=listed, shown=shown,
        buttons=[*buttons, *folds], given={"level": level, "lines": lines},
        empty="the search goes on behind the link" if older else "nothing here yet",
    )  # fmt: skip
