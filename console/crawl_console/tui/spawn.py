"""Starts a supervisor detached from the terminal, logging to `data/logs/supervisor.log`."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from crawl_engine.errors import StorageError
from crawl_engine.runtime.private_file import open_private
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.supervise.lock import read_holder

SUPERVISOR_LOG = "supervisor.log"
_START_TIMEOUT, _POLL_INTERVAL = 30.0, 0.01


class StartFailed(Exception):
    """The supervisor ended before it locked the data dir."""

    def __init__(self, exit_code: int, output: str) -> None:
        super().__init__(output)
        self.exit_code = exit_code
        self.output = output


def start_supervisor(data: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Run `python -m crawl_console ARGUMENTS` detached, and wait until it holds the data dir and has a run.

    `environment` is added to the variables of this process.
    Raises StartFailed if it ends or takes too long, StorageError if its log cannot be written.
    """
    logs = data / "logs"
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        logs.mkdir(mode=0o700, exist_ok=True)
        log = os.fdopen(open_private(logs / SUPERVISOR_LOG, os.O_WRONLY | os.O_APPEND), "ab")
    except OSError as error:
        raise StorageError(f"{logs}: {error.strerror}", "Fix its permissions, or use another --data.") from error
    with log:
        start = log.tell()
        child = subprocess.Popen(
            [sys.executable, "-m", "crawl_console", *arguments],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, **environment},
        )  # fmt: skip
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline:
        holder = read_holder(data)
        if holder is not None and holder.pid == child.pid and holder.run and identity_of(child.pid) == holder.identity:
            return child
        if (code := child.poll()) is not None:
            raise StartFailed(code, read_log(data, start))
        time.sleep(_POLL_INTERVAL)
    child.kill()
    child.wait()
    raise StartFailed(
        3, f"error: the supervisor did not start within {_START_TIMEOUT:g} s; see {logs / SUPERVISOR_LOG}\n"
    )


def read_log(data: Path, offset: int) -> str:
    with (data / "logs" / SUPERVISOR_LOG).open("rb") as log:
        log.seek(offset)
        return log.read().decode("utf-8", "replace")
