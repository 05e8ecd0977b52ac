"""The rows of a table on a page, or the error if the page lacks the table."""

from typing import Any, NamedTuple

from crawl_engine.model.record import ExtractedLink
from crawl_engine.model.stored_form import SourcePosition


class TableInvalid(Exception):
    """The page does not have the table that the defs describe. `place`: of the description in the defs."""

    def __init__(self, text: str, place: SourcePosition | None = None) -> None:
        super().__init__(text)
        self.place = place


class TableRows(NamedTuple):
    """The results of a table on a page. `missing`: by column, the number of rows without a value on the page."""

    rows: list[dict[str, Any]]
    links: list[ExtractedLink]
    filtered: int
    missing: tuple[tuple[str, int], ...]
