"""What one dataDef may cost on one page, and what its fields need to know of it. Knows no selectors."""

from engine.extract.context import Context
from engine.extract.page import Page
from engine.extract.patterns import TimeBudget

MAX_SECONDS = 5.0
"""For all records of a page. Hostile pages nest blocks so that every field of each costs milliseconds."""

MAX_CHARACTERS = 100_000_000
"""For all values of a page together. 10,000 nested blocks of 100 KB each have a GB of text."""


class BudgetExceeded(Exception):
    """A page asks for more than extraction may cost."""


class Budget:
    """The page at hand, how it was reached, and what is left to spend on it."""

    __slots__ = ("_characters_left", "context", "page", "time_budget")

    def __init__(self, page: Page, context: Context) -> None:
        self.page = page
        self.context = context
        self.time_budget = TimeBudget(MAX_SECONDS)
        self._characters_left = MAX_CHARACTERS

    def check_time(self) -> None:
        """Raises `TooMuch` when the time for the page's records is over."""
        if self.time_budget.expired:
            raise BudgetExceeded(f"the records of this page take more than {MAX_SECONDS:g} s; the rest was left out")

    def charge(self, text: str) -> None:
        """Counts the text. Raises `TooMuch` when the page's values have become too long."""
        self._characters_left -= len(text)
        if self._characters_left < 0:
            raise BudgetExceeded(
                f"the values of this page have more than {MAX_CHARACTERS:,} characters; the rest was left out"
            )
