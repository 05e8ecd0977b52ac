"""The seen-set: jobs this node knows to exist, so that a page's links need not be asked of the database again.

Filled only after COMMIT: a link taken for known before its job is stored would be lost with a dropped result.
"""

from collections.abc import Iterable

from engine.model.record import ExtractedLink


class SeenSet:
    """A bounded set of job identities, the oldest forgotten first. Adding and asking may be two threads."""

    def __init__(self, limit: int = 200_000) -> None:
        self._keys: dict[bytes, None] = {}
        self._limit = limit

    def filter_new(self, links: Iterable[ExtractedLink]) -> list[ExtractedLink]:
        """Those of the links whose job it does not know: on most pages of a site one in a hundred, so asked at once."""
        known = self._keys
        return [link for link in links if link.key not in known]

    def add(self, keys: Iterable[bytes]) -> None:
        """Remember keys; forgetting never harms, it only costs a look at the database."""
        known = self._keys
        for key in keys:
            known[key] = None
        while len(known) > self._limit:
            del known[next(iter(known))]
