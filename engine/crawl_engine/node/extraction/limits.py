"""What an extraction process may use."""

import sys

from msgspec import Struct

from crawl_engine.extract.links.links import MAX_PAGE_URL_CHARACTERS
from crawl_engine.settings import Settings

WALL_FACTOR = 3
"""The wall time of a document may be so many times its CPU seconds: it may wait for a disk, or a lock."""
_ANSWER_FACTOR = 1.5
"""An answer may be so many times as large as the largest body."""
_LEAST_ROWS_BYTES = 8_000_000
_BYTES_PER_LINK, _OTHER_ANSWER_BYTES = 80, 4_000_000
"""Bytes of an answer besides the URLs: the key of a link and its header entry; rejections and some rows."""

_LATER_RESIDENT = 8_000_000
"""Bytes of libraries that are mapped at first, and resident when they are used."""


class ExtractionLimits(Struct, frozen=True, kw_only=True):
    """Limits of an extraction process."""

    seconds: float
    """CPU seconds for one document."""
    memory: int
    """Bytes of resident memory of the process."""
    answer: int
    """Bytes of one answer."""
    rows: int = sys.maxsize
    """Bytes of its rows, which stay in the node until they are committed; its links become jobs piece by piece."""
    links: int
    """Links of one page."""

    @classmethod
    def from_settings(cls, settings: Settings) -> "ExtractionLimits":
        links = MAX_PAGE_URL_CHARACTERS + settings.max_links * _BYTES_PER_LINK  # links alone fail no page
        return cls(
            seconds=settings.parse_limit,
            memory=settings.parse_memory,
            answer=max(links + _OTHER_ANSWER_BYTES, int(_ANSWER_FACTOR * settings.max_body)),
            rows=max(_LEAST_ROWS_BYTES, int(_ANSWER_FACTOR * settings.max_body)),
            links=settings.max_links,
        )

    def growth(self, base: int) -> int:
        """Bytes that a process with `base` resident bytes may map."""
        return max(0, self.memory - base - _LATER_RESIDENT)

    @property
    def wall_seconds(self) -> float:
        """Seconds after which a process that works on one document is killed from outside."""
        return self.seconds * WALL_FACTOR
