"""Searches for several words at once, of which most texts have few."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick


class RareWords:
    """Words that together cost less than a search for one of them, while a text has few."""

    def __init__(self, *words: bytes) -> None:
        self.words = words

    def find(self, text: bytes) -> Sequence[bytes]:
        """The words that occur, as often as they do, also inside one another; in no order."""
        found = self._leftmost.find_matches_as_indexes(text)
        if any(index in self._meeting for index, _, _ in found):  # a match may hide one that it meets
            found = self._each.find_matches_as_indexes(text, overlapping=True)
        return [self.words[index] for index, _, _ in found]

    @cached_property
    def _meeting(self) -> frozenset[int]:
        """The words that may share characters of a text with another one, or with another match of themselves."""
        return frozenset(
            at
            for at, word in enumerate(self.words)
            if any(_may_meet(word, other) or _may_meet(other, word) for other in self.words)
        )

    @cached_property
    def _leftmost(self) -> "BytesAhoCorasick":
        from ahocorasick_rs import BytesAhoCorasick, MatchKind  # a process that reads no pages does not need it

        # only leftmost matches are found with vector instructions: 20 kB in 2 µs, otherwise in 30
        return BytesAhoCorasick(self.words, matchkind=MatchKind.LeftmostFirst)

    @cached_property
    def _each(self) -> "BytesAhoCorasick":
        from ahocorasick_rs import BytesAhoCorasick

        return BytesAhoCorasick(self.words)


def _may_meet(word: bytes, other: bytes) -> bool:
    """Whether another word may begin inside a word, or it itself behind its first character."""
    return any(word.startswith(other, at) or other.startswith(word[at:]) for at in range(word is other, len(word)))
