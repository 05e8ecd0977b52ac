"""How many runners a run has: a fixed number, or a range from the least to the most."""

import re

from msgspec import Struct

_TEXT = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


class NodeRange(Struct, frozen=True):
    """The least and the most runners, at least 1; equal where the number is fixed."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> "NodeRange":
        """The range of a text such as `4` or `1-4`. Raises ValueError."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise ValueError(text)
        least = int(match[1])
        most = int(match[2] or least)
        if not 1 <= least <= most:
            raise ValueError(text)
        return cls(least, most)

    def __str__(self) -> str:
        """The text that `parse` reads."""
        return f"{self.least}-{self.most}" if self.is_elastic else str(self.least)

    @property
    def is_elastic(self) -> bool:
        """Whether the number may vary."""
        return self.least < self.most

    def clamp(self, count: int) -> int:
        """The number within the range that is closest to `count`."""
        return max(self.least, min(self.most, count))
