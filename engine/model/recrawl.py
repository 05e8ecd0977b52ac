"""How long a stored page replaces a fetch where that follows how often the page changes."""

from msgspec import Struct


class Recrawl(Struct, frozen=True, kw_only=True):
    """How many seconds a stored document replaces a fetch: as often as the page changes, within bounds."""

    min: float = 3_600.0
    max: float = 30 * 86_400.0
    adapt: bool = True
    """Whether the time follows the page; else it is always `min`."""

    def clamp(self, seconds: float | None) -> float:
        """The time for a document with that one, which may be of other defs; None: the document has none."""
        return self.min if seconds is None or not self.adapt else min(max(seconds, self.min), self.max)

    def following(self, seconds: float | None, *, changed: bool) -> float:
        """The next time, after a fetch that found the page changed or not."""
        return self.clamp(self.clamp(seconds) * (0.5 if changed else 2.0))
