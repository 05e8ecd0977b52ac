"""A template for the tests of one process, and supervised processes without a supervisor."""

import atexit
import contextlib
import functools
import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crawl_engine.processes.child import Child
from crawl_engine.processes.launcher import OwnTemplate
from crawl_engine.processes.orders import StartOrder
from crawl_engine.processes.start import spawn_child


@functools.cache
def template() -> OwnTemplate:
    """One that has imported what extraction needs; other code is imported when it is needed."""
    own = OwnTemplate(["crawl_engine.node.extraction.child"])
    atexit.register(own.close)
    return own


def template_pid() -> int:
    own = template()
    own.share().close()
    assert own.pid is not None
    return own.pid


def children_of(parent: int) -> list[int]:
    """The live children of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found


class SupervisedProcess:
    """A process with a lifeline, in an interpreter of its own."""

    def __init__(self, entry: str, arguments: Mapping[str, Any], folder: Path, log: Path) -> None:
        self.lifeline, theirs = socket.socketpair()
        with theirs, template().share() as control, log.open("ab") as output:
            files = {"lifeline": theirs.fileno(), "output": output.fileno(), "template": control.fileno()}
            order = StartOrder(number=0, entry=entry, name="test", arguments=arguments, files=tuple(files), own=True)
            self.pid = spawn_child(order, list(files.values()), str(folder))
        self._child = Child(pid=self.pid)

    def poll(self) -> int | None:
        return self._child.poll()

    def wait(self, timeout: float = 10) -> int:
        deadline = time.monotonic() + timeout
        while (code := self._child.poll()) is None:
            assert time.monotonic() < deadline, "it has not ended"
            time.sleep(0.002)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._child.kill()
        self.lifeline.close()
