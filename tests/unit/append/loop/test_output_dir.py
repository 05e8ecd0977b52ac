"""The output folder of a run: one holder, the links `current` and `latest`, and their repair."""

import errno
import fcntl
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType

import pytest

from crawl_engine.append.loop import output_dir
from crawl_engine.append.loop.output_dir import OutputDir
from crawl_engine.errors import StorageError


@pytest.fixture
def output(tmp_path: Path) -> Iterator[OutputDir]:
    output = OutputDir(tmp_path, "aaaaaa")
    assert output.try_lock()
    yield output
    output.close()


def latest(output: OutputDir) -> Path:
    return output.path.parent / "latest"


def linked(tmp_path: Path) -> tuple[str, str]:
    return tuple(os.readlink(tmp_path / "output" / name) for name in ("current", "latest"))  # type: ignore[return-value]


def test_current_is_the_newest_run_and_latest_the_last_that_is_done(tmp_path: Path) -> None:
    seen = []
    for run, done in [
        ("aaaaaa", []), ("bbbbbb", []), ("bbbbbb", ["aaaaaa"]), ("cccccc", ["bbbbbb", "aaaaaa"]),
        ("cccccc", ["gone", "aaaaaa"]), ("dddddd", ["gone"]),
    ]:  # fmt: skip
        output = OutputDir(tmp_path, run, done)
        assert output.try_lock()
        output.repair()
        seen.append(linked(tmp_path))
        output.close()
    assert seen == [
        ("aaaaaa", "aaaaaa"), ("bbbbbb", "bbbbbb"), ("bbbbbb", "aaaaaa"), ("cccccc", "bbbbbb"), ("cccccc", "aaaaaa"),
        ("dddddd", "dddddd"),
    ]  # fmt: skip
    assert sorted(p.name for p in (tmp_path / "output").iterdir() if p.is_symlink()) == ["current", "latest"]


class _Killed(BaseException):
    pass


def run_until_line(kill_at: int, action: Callable[[], None]) -> bool:
    """Run an action up to its n-th line in the module under test; whether it had as many."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal lines
        if frame.f_code.co_filename != output_dir.__file__:
            return None
        lines += event == "line"
        if lines == kill_at:
            raise _Killed
        return trace

    sys.settrace(trace)
    try:
        action()
    except _Killed:
        return True
    finally:
        sys.settrace(None)
    return False


def test_a_kill_at_any_line_leaves_no_dangling_link(tmp_path: Path) -> None:
    first = OutputDir(tmp_path, "aaaaaa")
    assert first.try_lock()
    first.repair()
    first.close()
    for kill_at in count(1):
        output = OutputDir(tmp_path, f"b{kill_at:05}", ["aaaaaa"])
        assert output.try_lock()
        killed = run_until_line(kill_at, output.repair) or run_until_line(
            kill_at, partial(output_dir.link_output, output.path.parent, "latest", output.path.name)
        )
        output.close()
        for name in ("current", "latest"):
            assert (tmp_path / "output" / name).resolve(strict=True).is_dir()
        if not killed:
            break
    assert kill_at > 10
    assert linked(tmp_path) == (output.path.name, output.path.name)


def test_an_output_folder_has_one_holder(tmp_path: Path) -> None:
    first, second = OutputDir(tmp_path, "aaaaaa"), OutputDir(tmp_path, "aaaaaa")
    assert first.try_lock()
    assert not second.try_lock()
    first.close()
    assert second.try_lock()


def test_only_the_holder_links(tmp_path: Path, output: OutputDir) -> None:
    other = OutputDir(tmp_path, "aaaaaa")
    assert not other.try_lock()
    other.repair()
    assert not os.path.lexists(latest(output))


@pytest.mark.parametrize("lost", ["latest", "current", "aaaaaa", "."])
def test_what_was_deleted_is_created_again(tmp_path: Path, output: OutputDir, lost: str) -> None:
    output.repair()
    path = output.path.parent / lost
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path)
    output.repair()
    assert linked(tmp_path) == ("aaaaaa", "aaaaaa")
    assert not OutputDir(tmp_path, "aaaaaa").try_lock(), "the new lock file is locked"


def test_a_link_that_fails_once_is_made_at_a_later_turn(
    output: OutputDir, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("crawl_engine.append.loop.output_dir._RETRY_SECONDS", 0.0)
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(Path, "replace", fail)
        with caplog.at_level(logging.WARNING):
            output.repair()
            output.repair()
    assert len(caplog.records) == 1, "said once"
    assert [p.name for p in output.path.parent.iterdir()] == ["aaaaaa"], "no temporary link is left"
    output.repair()
    assert latest(output).resolve() == output.path


@pytest.mark.parametrize("folder", [True, False])
def test_what_a_user_named_latest_stays(output: OutputDir, folder: bool, caplog: pytest.LogCaptureFixture) -> None:
    if folder:
        (latest(output) / "mine").mkdir(parents=True)
    else:
        latest(output).write_text("mine")
    output.repair()
    assert not latest(output).is_symlink()
    assert "not a symbolic link" in caplog.text


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", fail)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(StorageError, match="does not support file locks") as caught:
        OutputDir(tmp_path, "aaaaaa").try_lock()
    assert str(tmp_path) in caught.value.message
    assert len(os.listdir("/dev/fd")) == before
