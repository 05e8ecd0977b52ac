"""Log rotation beside a process that keeps writing."""

import time
from pathlib import Path

import pytest

from crawl_console.cli.commands.look.logs import LogFile
from crawl_engine.processes.spawner import Spawner
from crawl_engine.supervise.log_rotation import LogRotation

WRITER = """
import sys, time

def main(start):
    number = 0
    while True:
        sys.stderr.write(f"{number:08d} {'x' * 90}\\n")
        number += 1
        if number % 50 == 0:
            time.sleep(0.001)
"""
MAX_BYTES = 200_000


@pytest.fixture
def no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_engine.supervise.log_rotation._CHECK_SECONDS", 0.0)


def numbers(path: Path) -> list[int]:
    """The numbers of the whole lines."""
    lines = path.read_bytes().split(b"\n")
    return [int(line[:8]) for line in lines if len(line) == 99 and b"\0" not in line]


@pytest.mark.usefixtures("no_interval")
def test_logs_of_a_running_process_stay_small_and_the_newest_lines_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log_writer.py").write_text(WRITER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    log, old = tmp_path / "logs" / "n1.log", tmp_path / "logs" / "n1.log.1"
    rotation = LogRotation(log.parent, MAX_BYTES)
    spawner = Spawner(tmp_path, [])
    process = spawner.spawn("log_writer:main", "test", {}, log=log)
    try:
        rotations, last_inode = 0, None
        deadline = time.monotonic() + 30
        while rotations < 5 and time.monotonic() < deadline:
            spawner.check()
            rotation.check()
            if old.exists() and (inode := old.stat().st_ino) != last_inode:
                rotations, last_inode = rotations + 1, inode
            time.sleep(0.01)
        assert process.poll() is None
        assert rotations == 5
    finally:
        process.kill()
        spawner.close()
    rotation.check()
    assert log.stat().st_size <= MAX_BYTES
    assert old.stat().st_size <= 2 * MAX_BYTES
    assert b"\0" not in log.read_bytes(), "the writer continued at the new end"
    assert numbers(old) == sorted(numbers(old))
    if numbers(log):
        assert numbers(log)[0] > numbers(old)[-1]
    assert sorted(path.name for path in log.parent.iterdir()) == ["n1.log", "n1.log.1"]
    assert old.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("no_interval")
def test_a_huge_old_log_is_cut_to_its_newest_part(tmp_path: Path) -> None:
    (tmp_path / "appender.log").write_bytes(b"a" * 5 * MAX_BYTES + b"end")
    LogRotation(tmp_path, MAX_BYTES).check()
    assert (tmp_path / "appender.log").stat().st_size == 0
    kept = (tmp_path / "appender.log.1").read_bytes()
    assert len(kept) == MAX_BYTES
    assert kept.endswith(b"end")


@pytest.mark.usefixtures("no_interval")
def test_small_logs_and_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "n1.log").write_bytes(b"a" * MAX_BYTES)
    others = ("notes.txt", "syslog.log", "n1x.log", "n.log", "my-appender.log")
    for name in others:
        (tmp_path / name).write_bytes(b"a" * 2 * MAX_BYTES)
    (tmp_path / "n2.log").symlink_to("syslog.log")
    LogRotation(tmp_path, MAX_BYTES).check()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, "n1.log", "n2.log"])
    assert {(tmp_path / name).stat().st_size for name in others} == {2 * MAX_BYTES}


@pytest.mark.usefixtures("no_interval")
def test_a_failed_rotation_keeps_the_log_and_is_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "n1.log").write_bytes(b"a" * 2 * MAX_BYTES)
    (tmp_path / "n1.log.1").mkdir()
    rotation = LogRotation(tmp_path, MAX_BYTES)
    rotation.check()
    rotation.check()
    assert (tmp_path / "n1.log").stat().st_size == 2 * MAX_BYTES
    assert [record.levelname for record in caplog.records] == ["WARNING"], "one warning, not one a second"
    (tmp_path / "n1.log.1").rmdir()
    rotation.check()
    assert (tmp_path / "n1.log").stat().st_size == 0


def test_logs_are_checked_once_a_second(tmp_path: Path) -> None:
    rotation = LogRotation(tmp_path, MAX_BYTES)
    rotation.check()
    (tmp_path / "n1.log").write_bytes(b"a" * 2 * MAX_BYTES)
    rotation.check()
    assert not (tmp_path / "n1.log.1").exists()


def test_the_reader_of_logs_continues_after_a_rotation(tmp_path: Path) -> None:
    (tmp_path / "n1.log").write_bytes(b"old line\n" * (MAX_BYTES // 9 + 1))
    reader = LogFile(tmp_path / "n1.log")
    assert len(list(reader.read(include_partial=False))) == MAX_BYTES // 9 + 1
    LogRotation(tmp_path, MAX_BYTES).check()
    with (tmp_path / "n1.log").open("ab") as log:
        log.write(b"new line\n")
    assert list(reader.read(include_partial=False)) == ["new line"]
    reader.close()
