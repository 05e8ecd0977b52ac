"""How the time of a selector may grow with the size of a page."""

from enum import IntEnum
from typing import Protocol


class Cost(IntEnum):
    """A power of the number of elements, as far as the text of the selector tells."""

    LINEAR = 1
    SQUARE = 2
    """Or it depends on a pattern of the user."""
    CUBE = 3
    """Or more."""


class Searcher(Protocol):
    """Searches pages: a dataDef or a selector."""

    @property
    def cost(self) -> Cost:
        """How its time may grow with the size of a page."""

    @property
    def is_flat(self) -> bool:
        """Whether its time does not depend on the depth of an HTML page."""

    @property
    def reads_embedded_json(self) -> bool:
        """Whether it parses JSON inside an HTML page."""
