"""The output folder of a run: one holder, the link `latest`, and the repair of both."""

import errno
import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.append.loop.output_dir import OutputDir
from engine.errors import StorageError


@pytest.fixture
def output(tmp_path: Path) -> Iterator[OutputDir]:
    output = OutputDir(tmp_path, "aaaaaa")
    assert output.try_lock()
    yield output
    output.close()


def latest(output: OutputDir) -> Path:
    return output.path.parent / "latest"


def test_latest_points_to_the_newest_run(tmp_path: Path) -> None:
    for run in ("aaaaaa", "bbbbbb", "bbbbbb"):
        output = OutputDir(tmp_path, run)
        assert output.try_lock()
        output.repair()
        assert latest(output).resolve() == tmp_path / "output" / run
        output.close()
    assert sorted(p.name for p in (tmp_path / "output").iterdir()) == ["aaaaaa", "bbbbbb", "latest"]


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


@pytest.mark.parametrize("lost", ["latest", "aaaaaa", "."])
def test_what_was_deleted_is_created_again(tmp_path: Path, output: OutputDir, lost: str) -> None:
    output.repair()
    path = output.path.parent / lost
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path)
    output.repair()
    assert latest(output).resolve() == output.path
    assert not OutputDir(tmp_path, "aaaaaa").try_lock(), "the new lock file is locked"


def test_a_link_that_fails_once_is_made_at_a_later_turn(
    output: OutputDir, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("engine.append.loop.output_dir._RETRY_SECONDS", 0.0)
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
