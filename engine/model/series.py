"""The pages of a locator with `until`: one after another, each made when the one before is done."""

from msgspec import Struct

from engine.model.stored_form import from_plain, to_plain

MAX_SERIES_PAGES = 100_000


class Series(Struct, frozen=True, kw_only=True):
    """A URL or a body around an open number. Pieces are literal text: a number stands between each two of them."""

    url: tuple[str, ...]
    """Of the normalized URL."""
    body: tuple[str, ...] = ()
    """Empty: there is no body."""
    first: int
    last: int | None = None
    """None: the range is open."""
    width: int = 0
    """Digits to which numbers are padded."""

    def request(self, number: int) -> tuple[str, str | None]:
        """URL and body of a page."""
        text = str(number).zfill(self.width)
        return text.join(self.url), text.join(self.body) if self.body else None

    def following(self, number: int) -> int | None:
        """The number of the next page; None: the range ends."""
        step = -1 if self.last is not None and self.last < self.first else 1
        if number == self.last or abs(number + step - self.first) >= MAX_SERIES_PAGES:
            return None
        return number + step

    def to_plain(self) -> object:
        """JSON values."""
        return to_plain(self)

    @classmethod
    def from_plain(cls, value: object) -> "Series":
        """The series of JSON values."""
        series: Series = from_plain(cls, value)
        return series
