"""Reads the lifeline of a node or appender: arguments and settings; its end is that of the supervisor."""

import contextlib
import io
import json

_CHUNK_BYTES = 4096
_MAX_LINE_BYTES = 16_000_000


class LifelineReader:
    """Lines on stdin: the arguments, then the settings."""

    def __init__(self, fd: int) -> None:
        self._raw = io.FileIO(fd, closefd=False)

    def read_arguments(self) -> list[str] | None:
        """The arguments that are not on the command line: who the process is. None if the supervisor is gone."""
        line = self.read_line()
        return None if line is None else [str(argument) for argument in json.loads(line)]

    def read_line(self) -> str | None:
        """The next line, without its end; None if the supervisor died before it could write it."""
        line = self._raw.readline(_MAX_LINE_BYTES)
        return line[:-1].decode() if line.endswith(b"\n") else None

    def wait_for_end(self) -> None:
        """Wait until the pipe ends: the supervisor is gone."""
        with contextlib.suppress(OSError):
            while self._raw.read(_CHUNK_BYTES):
                pass
