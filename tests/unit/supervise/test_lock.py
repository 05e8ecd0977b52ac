"""One supervisor a data dir: the second is refused by name, and a dead one bars nobody."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import LockHeld, StorageError
from engine.runtime.process_identity import identity_of
from engine.supervise.lock import LOCK_NAME, Lock, read_holder
from tests.process.stopwatch import Stopwatch

_HOLD = """
import sys
from pathlib import Path
from engine.supervise.lock import Lock
lock = Lock.acquire(Path(sys.argv[1]))
lock.write_holder("4711ab")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Another process that holds the lock of `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_supervisor_is_refused_at_once_and_told_who_holds_it(
    tmp_path: Path, other: "subprocess.Popen[bytes]"
) -> None:
    watch = Stopwatch()
    with pytest.raises(LockHeld) as told:
        Lock.acquire(tmp_path)
    assert watch.seconds() < 0.3
    assert told.value.message == f"{tmp_path}: held by another supervisor (pid {other.pid}, run 4711ab)"
    assert told.value.exit_code == 4
    assert told.value.remedy


def test_the_lock_dies_with_its_holder(tmp_path: Path, other: "subprocess.Popen[bytes]") -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    lock = Lock.acquire(tmp_path)
    told = read_holder(tmp_path)
    assert told is not None
    assert (told.pid, told.run) == (os.getpid(), "")
    lock.release()


def test_who_held_it_can_still_be_read_after_its_death(tmp_path: Path, other: "subprocess.Popen[bytes]") -> None:
    identity = identity_of(other.pid)
    other.kill()
    other.wait()
    told = read_holder(tmp_path)
    assert told is not None
    assert (told.pid, told.identity, told.run) == (other.pid, identity, "4711ab")
    assert identity_of(told.pid) != told.identity


def test_the_same_process_cannot_take_it_twice_and_can_after_release(tmp_path: Path) -> None:
    lock = Lock.acquire(tmp_path)
    with pytest.raises(LockHeld, match=f"pid {os.getpid()}"):
        Lock.acquire(tmp_path)
    lock.release()
    Lock.acquire(tmp_path).release()


def test_children_do_not_keep_the_lock(tmp_path: Path) -> None:
    lock = Lock.acquire(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        lock.release()
        Lock.acquire(tmp_path).release()
    finally:
        child.communicate(b"")


def test_a_shorter_name_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    lock = Lock.acquire(tmp_path)
    for run in ("a" * 200, "b"):
        lock.write_holder(run)
        told = read_holder(tmp_path)
        assert told is not None
        assert told.run == run
    lock.release()


def test_the_data_dir_is_made_private(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    Lock.acquire(folder).release()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / LOCK_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pid": "x", "identity": "", "run": ""}', b'{"pid": 1}'])
def test_a_lock_file_that_says_nothing_names_nobody(tmp_path: Path, text: bytes) -> None:
    (tmp_path / LOCK_NAME).write_bytes(text)
    assert read_holder(tmp_path) is None
    Lock.acquire(tmp_path).release()


def test_a_holder_that_has_not_yet_told_its_name_is_refused_without_one(tmp_path: Path) -> None:
    lock = Lock.acquire(tmp_path)
    stranger = {"pid": os.getpid(), "identity": "another boot:1:1", "run": "old"}
    (tmp_path / LOCK_NAME).write_text(json.dumps(stranger))
    with pytest.raises(LockHeld) as told:
        Lock.acquire(tmp_path)
    assert told.value.message == f"{tmp_path}: held by another supervisor"
    lock.release()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file/data"):
        Lock.acquire(tmp_path / "file" / "data")


def test_identities() -> None:
    mine = identity_of(os.getpid())
    assert mine is not None
    assert mine == identity_of(os.getpid())
    assert mine.split(":")[1] == str(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    deadline = time.monotonic() + 10
    while identity_of(child.pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert identity_of(child.pid) is None, "a process that ended is gone, though nobody has reaped it yet"
    child.wait()
    assert identity_of(child.pid) is None
