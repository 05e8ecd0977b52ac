"""The lifeline, process identities, and the output folder."""

import os
import subprocess
import sys
import time
from pathlib import Path

from crawl_engine.runtime.clock import boot_id
from crawl_engine.runtime.process_identity import identity_of


def test_an_identity_names_boot_process_and_start() -> None:
    mine = identity_of(os.getpid())
    assert mine is not None
    assert mine.startswith(f"{boot_id()}:{os.getpid()}:")
    assert identity_of(os.getpid()) == mine
    assert identity_of(os.getppid()) != mine


def test_an_identity_is_read_behind_a_strange_name(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to(sys.executable)
    process = subprocess.Popen([str(program), "-c", "input()"], stdin=subprocess.PIPE)
    try:
        identity = identity_of(process.pid)
        assert identity is not None
        assert identity.rpartition(":")[2].isdigit() or sys.platform != "linux"
        assert identity == identity_of(process.pid)
    finally:
        process.communicate()


def test_dead_and_unreaped_processes_have_no_identity() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    deadline = time.monotonic() + 10
    while identity_of(process.pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert process.poll() is not None or process.wait() == 0
    assert identity_of(process.pid) is None
