"""A supervisor started apart from this terminal: a session of its own, its words in `data/logs/supervisor.log`."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from engine.errors import StorageError
from engine.runtime.process_identity import identity_of
from engine.supervise.lock import read_holder

SUPERVISOR_LOG = "supervisor.log"
_START_TIMEOUT, _POLL_INTERVAL = 30.0, 0.01


class StartFailed(Exception):
    """It ended before it held the data dir; `code` is its exit code, `said` what it wrote."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.exit_code = code
        self.output = said


def find_supervisor_pid(data: Path) -> int | None:
    """The pid of the supervisor that holds the data dir, if one is alive."""
    told = read_holder(data)
    return told.pid if told is not None and identity_of(told.pid) == told.identity else None


def start_supervisor(data: Path, arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Run `python -m console ARGUMENTS` apart from this terminal, and wait until it holds the data dir with a run.

    Raises Unstarted where it ended instead, StorageError where its log cannot be written.
    """
    logs = data / "logs"
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        logs.mkdir(mode=0o700, exist_ok=True)
        log = (logs / SUPERVISOR_LOG).open("ab")
    except OSError as error:
        raise StorageError(f"{logs}: {error.strerror}", "Mend its permissions, or use another --data.") from error
    with log:
        begins = log.tell()
        child = subprocess.Popen(
            [sys.executable, "-m", "console", *arguments],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline:
        told = read_holder(data)
        if told is not None and told.pid == child.pid and told.run and identity_of(child.pid) == told.identity:
            return child
        if (code := child.poll()) is not None:
            raise StartFailed(code, read_log(data, begins))
        time.sleep(_POLL_INTERVAL)
    child.kill()
    child.wait()
    raise StartFailed(
        3, f"error: the supervisor did not begin within {_START_TIMEOUT:g} s; see {logs / SUPERVISOR_LOG}\n"
    )


def read_log(data: Path, since: int) -> str:
    """What the log says from a place on."""
    with (data / "logs" / SUPERVISOR_LOG).open("rb") as log:
        log.seek(since)
        return log.read().decode("utf-8", "replace")
