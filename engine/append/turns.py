"""What a turn of the appender's loop came to. Knows nothing of how."""

from enum import Enum


class TurnResult(Enum):
    """What a turn of the loop came to."""

    MORE = "more is waiting"
    WROTE = "wrote all there was"
    IDLE = "everything is written"
    BLOCKED = "nothing could be done about what is left"


class SupervisorGone(Exception):
    """The supervisor is gone while a file was being rebuilt: the old one stays."""
