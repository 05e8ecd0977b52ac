"""How the time of a selector may grow with the size of a page."""

from enum import IntEnum


class Cost(IntEnum):
    """A power of the number of elements, as far as the text of the selector tells."""

    LINEAR = 1
    SQUARE = 2
    """Or it depends on a pattern of the user."""
    CUBE = 3
    """Or more."""
