"""Writes messages to a node's lifeline, the pipe at its stdin, without ever waiting for the node."""

import json
import os
from collections import deque
from collections.abc import Sequence
from typing import IO

_SECRETS_PER_MESSAGE = 1000


class LifelineWriter:
    """Keeps what the pipe does not take for the next `flush`: a stopped node must not stop the supervisor."""

    def __init__(self, pipe: IO[bytes]) -> None:
        """`pipe`: the unbuffered end of the supervisor, or one whose buffer is empty."""
        self._fd = pipe.fileno()
        self._pending: deque[bytes] = deque()
        os.set_blocking(self._fd, False)

    @property
    def is_flushed(self) -> bool:
        """Whether the pipe took everything."""
        return not self._pending

    def send_secrets(self, entries: Sequence[tuple[str, str]]) -> None:
        """Send secrets, by id, as one JSON line for each thousand, after what is left of earlier ones."""
        for start in range(0, len(entries), _SECRETS_PER_MESSAGE):
            part = dict(entries[start : start + _SECRETS_PER_MESSAGE])
            self._pending.append(json.dumps({"secrets": part}, separators=(",", ":")).encode() + b"\n")
        self.flush()

    def send_completeness(self) -> None:
        """Send that the secrets before it are all that the jobs of the run may need."""
        self._pending.append(b'{"complete":true}\n')
        self.flush()

    def flush(self) -> None:
        """Write what the pipe takes. Nothing is left for a node that died."""
        while self._pending:
            line = self._pending[0]
            try:
                written = os.write(self._fd, line)
            except BlockingIOError:
                return
            except OSError:  # it died: its monitor reports that
                self._pending.clear()
                return
            if written == len(line):
                self._pending.popleft()
            else:
                self._pending[0] = line[written:]
