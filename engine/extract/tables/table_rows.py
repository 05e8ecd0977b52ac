"""What the table of a page gives, or why it gives nothing."""

from typing import Any, NamedTuple

from engine.model.record import ExtractedLink
from engine.model.stored_form import SourcePosition


class TableInvalid(Exception):
    """The page does not have the table that the defs describe. `place`: what says so in the defs."""

    def __init__(self, text: str, place: SourcePosition | None = None) -> None:
        super().__init__(text)
        self.place = place


class TableRows(NamedTuple):
    """What a table gives on a page. `missing`: by column, in how many rows the page had nothing for it."""

    rows: list[dict[str, Any]]
    links: list[ExtractedLink]
    filtered: int
    missing: tuple[tuple[str, int], ...]
