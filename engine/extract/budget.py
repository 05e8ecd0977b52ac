"""What one dataDef may cost on one page, and what its fields need to know of it. Knows no selectors."""

from engine.extract.context import Context
from engine.extract.page import Page
from engine.extract.patterns import Patience

SECONDS = 5.0
"""For all records of a page. Hostile pages nest blocks so that every field of each costs milliseconds."""

CHARACTERS = 100_000_000
"""For all values of a page together. 10,000 nested blocks of 100 KB each have a GB of text."""


class TooMuch(Exception):
    """A page asks for more than extraction may cost."""


class Effort:
    """The page at hand, how it was reached, and what is left to spend on it."""

    __slots__ = ("_left", "context", "page", "patience")

    def __init__(self, page: Page, context: Context) -> None:
        self.page = page
        self.context = context
        self.patience = Patience(SECONDS)
        self._left = CHARACTERS

    def check_time(self) -> None:
        """Raises `TooMuch` when the time for the page's records is over."""
        if self.patience.over:
            raise TooMuch(f"the records of this page take more than {SECONDS:g} s; the rest was left out")

    def take(self, text: str) -> None:
        """Counts the text. Raises `TooMuch` when the page's values have become too long."""
        self._left -= len(text)
        if self._left < 0:
            raise TooMuch(f"the values of this page have more than {CHARACTERS:,} characters; the rest was left out")
