"""One supervisor per data dir: a second start fails and names the holder."""

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_engine.errors import LockHeld, StorageError
from crawl_engine.runtime.beat_file import SUPERVISOR_BEAT, Beat, BeatWriter
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.store.db.file_header import LOCK_NAME
from crawl_engine.supervise.lock import Lock, read_holder
from tests.process.stopwatch import Stopwatch

_HOLD = """
import sys
from pathlib import Path
from crawl_engine.supervise.lock import Lock
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


def test_a_second_supervisor_fails_at_once_and_names_the_holder(
    tmp_path: Path, other: "subprocess.Popen[bytes]"
) -> None:
    watch = Stopwatch()
    with pytest.raises(LockHeld) as held:
        Lock.acquire(tmp_path)
    assert watch.seconds() < 0.3
    assert held.value.message == f"{tmp_path}: held by another supervisor (pid {other.pid}, run 4711ab)"
    assert held.value.exit_code == 4
    assert held.value.remedy


def test_a_second_supervisor_says_what_the_holder_waits_for(tmp_path: Path, other: "subprocess.Popen[bytes]") -> None:
    beat = BeatWriter(tmp_path / "beats" / SUPERVISOR_BEAT)
    beat.write(Beat(number=1, state="READY", now="disk nearly full: 1.0 MB free"))
    beat.close()
    with pytest.raises(LockHeld) as held:
        Lock.acquire(tmp_path)
    assert held.value.message.endswith("run 4711ab), which is paused: disk nearly full: 1.0 MB free")


def test_the_lock_dies_with_its_holder(tmp_path: Path, other: "subprocess.Popen[bytes]") -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    lock = Lock.acquire(tmp_path)
    holder = read_holder(tmp_path)
    assert holder is not None
    assert (holder.pid, holder.run) == (os.getpid(), "")
    lock.release()


def test_a_dead_holder_can_still_be_read(tmp_path: Path, other: "subprocess.Popen[bytes]") -> None:
    identity = identity_of(other.pid)
    other.kill()
    other.wait()
    holder = read_holder(tmp_path)
    assert holder is not None
    assert (holder.pid, holder.identity, holder.run) == (other.pid, identity, "4711ab")
    assert identity_of(holder.pid) != holder.identity


def test_a_process_can_take_the_lock_again_only_after_a_release(tmp_path: Path) -> None:
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


def test_a_shorter_record_replaces_a_longer_one_completely(tmp_path: Path) -> None:
    lock = Lock.acquire(tmp_path)
    for run in ("a" * 200, "b"):
        lock.write_holder(run)
        holder = read_holder(tmp_path)
        assert holder is not None
        assert holder.run == run
    lock.release()


def test_only_the_owner_can_read_the_data_dir(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    Lock.acquire(folder).release()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / LOCK_NAME).stat().st_mode & 0o777 == 0o600


def test_a_data_dir_that_others_may_enter_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Lock.acquire(tmp_path).release()
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(StorageError, match="a folder that all users share"):
        Lock.acquire(tmp_path)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize(("owner", "mode", "taken"), [(4000, 0o755, False), (0, 0o777, True), (4001, 0o750, True)])
def test_a_folder_of_another_user(tmp_path: Path, owner: int, mode: int, taken: bool) -> None:
    """Root's is taken as a container mounts it; the files of any other's could be replaced."""
    script = """
import os, pathlib, sys
from crawl_engine.supervise.lock import Lock
os.setuid(4001)
Lock.acquire(pathlib.Path(sys.argv[1]))
"""
    data = Path(tempfile.mkdtemp())
    try:
        os.chown(data, owner, -1)
        data.chmod(mode)
        done = subprocess.run([sys.executable, "-c", script, str(data)], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is taken, done.stderr
        assert taken or f"a folder of another user (uid {owner})" in done.stderr
        assert not taken or (data / LOCK_NAME).stat().st_mode & 0o777 == 0o600
    finally:
        shutil.rmtree(data)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pid": "x", "identity": "", "run": ""}', b'{"pid": 1}'])
def test_an_unreadable_lock_file_has_no_holder(tmp_path: Path, text: bytes) -> None:
    (tmp_path / LOCK_NAME).write_bytes(text)
    assert read_holder(tmp_path) is None
    Lock.acquire(tmp_path).release()


def test_a_holder_that_has_not_written_its_identity_is_not_named(tmp_path: Path) -> None:
    lock = Lock.acquire(tmp_path)
    other_record = {"pid": os.getpid(), "identity": "another boot:1:1", "run": "old"}
    (tmp_path / LOCK_NAME).write_text(json.dumps(other_record))
    with pytest.raises(LockHeld) as held:
        Lock.acquire(tmp_path)
    assert held.value.message == f"{tmp_path}: held by another process"
    lock.release()


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file/data"):
        Lock.acquire(tmp_path / "file" / "data")


def test_identities() -> None:
    own = identity_of(os.getpid())
    assert own is not None
    assert own == identity_of(os.getpid())
    assert own.split(":")[1] == str(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    deadline = time.monotonic() + 10
    while identity_of(child.pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert identity_of(child.pid) is None, "a process that ended has no identity, even before it is reaped"
    child.wait()
    assert identity_of(child.pid) is None


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(StorageError, match="does not support file locks") as caught:
        Lock.acquire(tmp_path)
    assert caught.value.exit_code == 3
    assert str(tmp_path) in caught.value.message
