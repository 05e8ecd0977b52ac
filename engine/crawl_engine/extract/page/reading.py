"""Limits the text and time that one dataDef may use on one page, and notes missing fields."""

from collections.abc import Mapping
from typing import Any

from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page, PageTooCostly
from crawl_engine.extract.page.patterns import OutOfTime, TimeBudget
from crawl_engine.model.record import PageWarning

MAX_CHARACTERS = 100_000_000
"""For all values of a page together: nested blocks repeat their text."""
_QUICK_CHARACTERS = 4_000_000
"""Replaces `MAX_CHARACTERS` if the caller has limited patience: encoding takes time, too."""

_CHARACTERS_OF_A_PART = 100
"""Characters charged for each part of a text, even a short one: about its memory."""


class PageReading:
    """The page under extraction, its context, and the text and time that are left."""

    __slots__ = (
        "_characters_left", "context", "data_def", "link_counts", "missing", "page", "row", "time_budget",
    )  # fmt: skip

    def __init__(self, page: Page, context: Context, patience: float | None = None, data_def: str = "") -> None:
        """`patience`: seconds after which `OutOfTime` is raised; None: never."""
        self.data_def = data_def
        self.page = page
        self.context = context
        self.time_budget = TimeBudget(patience)
        self._characters_left = MAX_CHARACTERS if patience is None else _QUICK_CHARACTERS
        self.row: Mapping[str, Any] = {}
        """The values of the current record so far."""
        self.link_counts: dict[int, int] = {}
        """By number of a link of the dataDef that applies to the page: how many links it gave."""
        self.missing: list[str] = []
        """Fields that the current record lacks."""

    def charge(self, text: str) -> None:
        """Counts the text. Raises `PageTooCostly` when the page's values are too long in total, and `OutOfTime`."""
        self._characters_left -= len(text)
        if self._characters_left < 0:
            if self.time_budget.patience_left is not None:
                raise OutOfTime
            raise PageTooCostly(self.page.url, f"has values of more than {MAX_CHARACTERS:,} characters")

    def charge_parts(self, count: int, text: str = "") -> None:
        """Counts the parts of a text, or the places where `text` stands. Raises as `charge`."""
        self._characters_left -= count * (len(text) + _CHARACTERS_OF_A_PART)
        self.charge("")

    def note_sign(self, part: str, code: str, text: str) -> None:
        """Note for the end of the run what a part of the dataDef gave."""
        self.page.signs.setdefault((self.data_def, part, code), PageWarning(self.data_def, part, code, text))

    def warn(self, field: str, code: str, text: str) -> None:
        """Note a doubt about a value of the dataDef."""
        self.page.warn(self.data_def, field, code, text)
