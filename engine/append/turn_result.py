"""The results of a turn of the appender's loop."""

from enum import Enum

from engine.errors import CrawlError


class TurnResult(Enum):
    """The result of one turn of the loop."""

    MORE = "more rows are waiting"
    WROTE = "all new rows are written"
    IDLE = "there was nothing to write"
    BLOCKED = "the remaining work has to wait"


class ClassFailed(CrawlError):
    """A users' class raised an error, took too long, or its process ended."""


class SupervisorGone(Exception):
    """The supervisor ended while a file was being rebuilt: the old file stays."""
