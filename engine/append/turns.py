"""What a turn of the appender's loop came to. Knows nothing of how."""

from enum import Enum


class Turn(Enum):
    """What a turn of the loop came to."""

    MORE = "more is waiting"
    WROTE = "wrote all there was"
    IDLE = "everything is written"
    HELD = "nothing could be done about what is left"


class CutOff(Exception):
    """The supervisor is gone while a file was being rebuilt: the old one stays."""
