"""Files that are replaced as a whole: errors, kills, links, devices, permissions."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crawl_engine.append.replaced_file import create_file, open_replacement
from crawl_engine.errors import StorageError

needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every folder")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    target = folder / "rows.csv"
    target.write_bytes(b"old")
    return target


def write(target: Path, data: bytes = b"new") -> None:
    with open_replacement(target) as stream:
        stream.write(data)


def names(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


def test_the_old_content_is_there_until_the_end(target: Path) -> None:
    with open_replacement(target) as stream:
        stream.write(b"n" * 100_000)
        stream.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"n" * 100_000
    assert names(target) == ["rows.csv"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_an_error_leaves_the_old_file_and_nothing_else(target: Path, error: BaseException) -> None:
    inode = target.stat().st_ino
    with pytest.raises(type(error)), open_replacement(target) as stream:
        stream.write(b"half")
        raise error
    assert (target.read_bytes(), target.stat().st_ino) == (b"old", inode)
    assert names(target) == ["rows.csv"]


def test_a_flush_that_fails_leaves_the_old_file(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        write(target)
    assert target.read_bytes() == b"old"
    assert names(target) == ["rows.csv"]


_KILLED = """
import os, signal, sys
from pathlib import Path
from crawl_engine.append.replaced_file import open_replacement
with open_replacement(Path(sys.argv[1])) as stream:
    stream.write(b"half" * 100_000)
    stream.flush()
    Path(sys.argv[1]).with_name(".rows.csv.new-journal").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_leaves_the_old_file_and_the_next_cleans_up(target: Path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED, str(target)], check=False)
    assert target.read_bytes() == b"old"
    assert names(target) == [".rows.csv.new", ".rows.csv.new-journal", "rows.csv"]
    write(target)
    assert target.read_bytes() == b"new"
    assert names(target) == ["rows.csv"]


def test_a_second_writer_at_the_same_time_is_refused(target: Path) -> None:
    with open_replacement(target) as stream:
        stream.write(b"first")
        with pytest.raises(StorageError, match="another process is writing this file"):
            write(target)
    assert target.read_bytes() == b"first"
    assert names(target) == ["rows.csv"]


def test_permissions_are_kept_and_new_files_follow_the_umask(target: Path) -> None:
    target.chmod(0o640)
    write(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    umask = os.umask(0o027)
    try:
        write(target.with_name("more.csv"))
    finally:
        os.umask(umask)
    assert stat.S_IMODE(target.with_name("more.csv").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_is_kept(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(target, 4711, 4712)
    write(target)
    assert (target.stat().st_uid, target.stat().st_gid) == (4711, 4712)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    inode = target.stat().st_ino
    monkeypatch.setattr(os, "fchown", refuse)
    write(target, b"newer")
    assert (target.stat().st_uid, target.stat().st_ino) == (4711, inode), "written in place"
    assert target.read_bytes() == b"newer"
    assert names(target) == ["rows.csv"]


def test_a_link_stays_a_link(target: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to("folder/rows.csv")
    write(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    target.unlink()
    write(link, b"again")
    assert link.is_symlink()
    assert target.read_bytes() == b"again"
    assert names(target) == ["rows.csv"]


def test_a_mount_point_is_written_in_place(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", fail)
    write(target)
    assert target.read_bytes() == b"new"
    assert names(target) == ["rows.csv"]


def test_devices_and_pipes_are_written_directly(tmp_path: Path) -> None:
    write(Path("/dev/null"))
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(fifo.read_bytes()))
    reader.start()
    write(fifo, b"through the pipe")
    reader.join(10)
    assert received == [b"through the pipe"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_the_file_behind_dev_stdout_is_not_replaced(target: Path) -> None:
    code = (
        "from pathlib import Path; from crawl_engine.append.replaced_file import open_replacement\n"
        "with open_replacement(Path('/dev/stdout')) as stream: stream.write(b'new')"
    )
    inode = target.stat().st_ino
    with target.open("r+b") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (target.read_bytes(), target.stat().st_ino) == (b"new", inode)


@needs_user
def test_a_folder_without_write_permission(target: Path) -> None:
    target.parent.chmod(0o500)
    try:
        write(target)
        assert target.read_bytes() == b"new", "an existing file is written in place"
        with pytest.raises(PermissionError):
            write(target.with_name("other.csv"))
    finally:
        target.parent.chmod(0o700)


def test_a_file_that_may_not_be_written_is_not_replaced(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target.chmod(0o400)
    monkeypatch.setattr(os, "access", lambda path, mode: bool(os.stat(path).st_mode & 0o200))
    with pytest.raises(PermissionError):
        write(target)
    assert target.read_bytes() == b"old"


def test_a_name_of_the_greatest_length(target: Path) -> None:
    name = "ü" * 127
    write(target.with_name(name))
    assert names(target) == ["rows.csv", name]


def test_a_created_file_appears_at_the_end(target: Path) -> None:
    new = target.with_name("rows.db")
    with create_file(new) as path:
        path.write_bytes(b"content")
        assert not new.exists()
    assert new.read_bytes() == b"content"
    with pytest.raises(KeyError), create_file(target.with_name("other.db")):
        raise KeyError
    assert names(target) == ["rows.csv", "rows.db"]


@pytest.mark.parametrize("name", ["missing/rows.csv", "rows.csv/x.csv"])
def test_a_missing_folder_is_an_error(target: Path, name: str) -> None:
    with pytest.raises(OSError):
        write(target.parent / name)
    assert names(target) == ["rows.csv"]
