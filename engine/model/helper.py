"""A helper: a program that a crawl needs beside it, such as a proxy or a browser."""

from msgspec import Struct

READY_WITHIN = 30.0
STOP_SECONDS = 5.0


class Helper(Struct, frozen=True, kw_only=True):
    """One table `[helpers.NAME]` of crawl.toml. Times are in seconds."""

    name: str
    run: tuple[str, ...]
    """The program and its arguments."""
    port: int | None = None
    """It is ready when this TCP port of 127.0.0.1 accepts a connection."""
    line: str | None = None
    """It is ready when its output contains this text. Without `port` and `line` it is ready as soon as it runs."""
    within: float = READY_WITHIN
    """The time it has to get ready."""
    stop: float = STOP_SECONDS
    """The time it has to end after SIGTERM."""
