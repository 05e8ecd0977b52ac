"""A bounded set of jobs this node knows to exist, so that known links need no database query.

Filled only after COMMIT: a link counted as known before its job is stored would be lost with a dropped result.
"""

from collections.abc import Iterable
from itertools import islice

from crawl_engine.model.record import ExtractedLink

_EVICTED_PART = 10


class SeenSet:
    """Job identities; the oldest are evicted first. One thread may add while another filters."""

    def __init__(self, limit: int = 200_000) -> None:
        self._keys: dict[bytes, None] = {}
        self._limit = limit

    def filter_new(self, links: Iterable[ExtractedLink]) -> list[ExtractedLink]:
        """The links whose job is unknown here. One call a page: on most sites one link in a hundred is new."""
        keys = self._keys
        return [link for link in links if link.key not in keys]

    def is_new(self, key: bytes) -> bool:
        """Whether the job of this key is unknown here."""
        return key not in self._keys

    def add(self, keys: Iterable[bytes]) -> None:
        """Remember keys. An evicted key only costs a database query."""
        stored = self._keys
        for key in keys:
            stored[key] = None
        if (
            len(stored) > self._limit
        ):  # several at once: each search for the first key passes over the keys removed before
            for key in list(islice(stored, len(stored) - self._limit + self._limit // _EVICTED_PART)):
                del stored[key]
