"""The process that runs a helper's program, and ends it when the supervisor dies.

It leads the process group of the program. Its stdin is the lifeline: the first line is the command as JSON, and its end
is the death of the supervisor. It ends as the program does: with its exit code, or 128 and the number of its signal.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

from engine.processes.child_limits import die_with_parent

_CANNOT_RUN = 127
_ORPHAN_SECONDS = 2.0
"""The time that the program has to end after the supervisor's death."""
_BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(started_fd: int) -> None:
    """Run the command from stdin; write a byte to `started_fd` once it runs."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)  # they are for the program, which is in the same group
    command = json.loads(sys.stdin.buffer.readline())
    guard = os.getpid()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: _prepare(guard),  # this process has one thread
        )
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
        sys.exit(_CANNOT_RUN)
    os.write(started_fd, b"1")
    os.close(started_fd)
    orphaned = threading.Event()
    threading.Thread(target=_watch_lifeline, args=(orphaned,), name="lifeline", daemon=True).start()
    code = process.wait()
    if orphaned.is_set():
        os.killpg(0, signal.SIGKILL)  # no other process ends what the program started
    sys.stdout.flush()
    os._exit(code if code >= 0 else 128 - code)


def _prepare(guard: int) -> None:
    die_with_parent(guard)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _watch_lifeline(orphaned: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    orphaned.set()
    os.killpg(0, signal.SIGTERM)
    time.sleep(_ORPHAN_SECONDS)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[-1]))
