"""Reads the lifeline of a node or appender: arguments, settings, secrets, until it ends: the supervisor is gone."""

import contextlib
import io
import json
import logging
from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)
_MAX_LINE_BYTES = 16_000_000


class LifelineReader:
    """Lines on stdin: the arguments, the settings; each later one is a message from the supervisor."""

    def __init__(self, fd: int) -> None:
        self._raw = io.FileIO(fd, closefd=False)

    def read_arguments(self) -> list[str] | None:
        """The arguments that are not on the command line: who the process is. None if the supervisor is gone."""
        line = self.read_line()
        return None if line is None else [str(argument) for argument in json.loads(line)]

    def read_line(self) -> str | None:
        """The next line, without its end; None if the supervisor died before it could write it.

        Read without a buffer, which would hold the first secrets when the node forks its extraction template.
        """
        line = self._raw.readline(_MAX_LINE_BYTES)
        return line[:-1].decode() if line.endswith(b"\n") else None

    def watch(self, on_secrets: Callable[[Mapping[str, str]], None], on_complete: Callable[[], None]) -> None:
        """Pass on each message until the pipe ends. A message that is cut short is dropped: its sender is gone."""
        stream = io.BufferedReader(self._raw)
        with contextlib.suppress(OSError, ValueError):
            while line := stream.readline(_MAX_LINE_BYTES):
                if not line.endswith(b"\n"):
                    continue
                try:
                    message = json.loads(line)
                    secrets, complete = message.get("secrets", {}), message.get("complete") is True
                    if not secrets and not complete:
                        raise ValueError("neither secrets nor their completeness")
                except (ValueError, AttributeError):
                    _log.error("a message of the supervisor is unreadable (%d bytes)", len(line))
                    continue
                if secrets:
                    on_secrets(secrets)
                if complete:
                    on_complete()
