"""The process that runs a helper's program, and ends it when the supervisor dies.

It leads the process group of the program, and ends as that does: with its exit code, or 128 + the signal number.
"""

import os
import signal
import subprocess
import sys
import threading
import time

from crawl_engine.processes.child_limits import die_with_parent
from crawl_engine.processes.launcher import SupervisorSocket
from crawl_engine.processes.start import ChildStart

_CANNOT_RUN = 127
_ORPHAN_SECONDS = 2.0
"""The time that the program has to end after the supervisor's death."""
_BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(start: ChildStart) -> int:
    """Run the command; write a byte to the lifeline once it runs."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)  # they are for the program, which is in the same group
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # the program inherits what is ignored
    command, lifeline = start.arguments["command"], SupervisorSocket(start.files["lifeline"])
    guard = os.getpid()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: _prepare(guard),  # this process has one thread
        )
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
        return _CANNOT_RUN
    os.write(start.files["lifeline"], b"1")
    orphaned = threading.Event()
    threading.Thread(target=_watch, args=(lifeline, orphaned), name="lifeline", daemon=True).start()
    code = process.wait()
    if orphaned.is_set():
        os.killpg(0, signal.SIGKILL)  # no other process ends what the program started
    return code if code >= 0 else 128 - code


def _prepare(guard: int) -> None:
    die_with_parent(guard)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _watch(lifeline: SupervisorSocket, orphaned: threading.Event) -> None:
    lifeline.wait_for_end()
    orphaned.set()
    os.killpg(0, signal.SIGTERM)
    time.sleep(_ORPHAN_SECONDS)
    os.killpg(0, signal.SIGKILL)
