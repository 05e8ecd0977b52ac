"""What one dataDef may use on one page, time and text; and which fields of its record are missing."""

from engine.extract.context import Context
from engine.extract.page import Page
from engine.extract.patterns import TimeBudget

MAX_SECONDS = 5.0
"""For all records of a page. Hostile pages nest blocks so that each field costs milliseconds."""

MAX_CHARACTERS = 100_000_000
"""For all values of a page together: 10,000 nested blocks of 100 KB each hold a GB of text."""

_CHARACTERS_OF_A_PART = 100
"""What a part of a text counts, however short: it takes as much memory."""


class BudgetExceeded(Exception):
    """A page exceeds the time or text that extraction allows."""


class Budget:
    """The page under extraction, its context, and the remaining time and text."""

    __slots__ = ("_characters_left", "context", "missing", "page", "time_budget")

    def __init__(self, page: Page, context: Context, patience: float | None = None) -> None:
        """`patience`: seconds after which `OutOfTime` is raised; None: never."""
        self.page = page
        self.context = context
        self.time_budget = TimeBudget(MAX_SECONDS, patience)
        self._characters_left = MAX_CHARACTERS
        self.missing: list[str] = []
        """Fields that are missing in the record that is read."""

    def check_time(self) -> None:
        """Raises `BudgetExceeded` when the time for the page's records has run out, and `OutOfTime`."""
        if self.time_budget.check_expired():
            raise BudgetExceeded(f"the records of this page take more than {MAX_SECONDS:g} s; the rest was skipped")

    def charge(self, text: str) -> None:
        """Counts the text. Raises `BudgetExceeded` when the page's values are too long in total."""
        self._characters_left -= len(text)
        if self._characters_left < 0:
            raise BudgetExceeded(
                f"the values of this page have more than {MAX_CHARACTERS:,} characters; the rest was skipped"
            )

    def charge_parts(self, count: int) -> None:
        """Counts the parts of a text. Raises `BudgetExceeded`."""
        self._characters_left -= count * _CHARACTERS_OF_A_PART
        self.charge("")
