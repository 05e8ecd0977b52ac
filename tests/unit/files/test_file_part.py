"""The part of a file on disk: what an attempt leaves for the next one, and how the file gets its name."""

import hashlib
import json
import os
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from crawl_engine.files.file_part import FilePart, PartInUse, PartNote
from crawl_engine.model.file import StoredFile
from crawl_engine.runtime.file_folder import FileFolder, remove_dead_parts

NOTE = PartNote("url", '"v"', 10)


@pytest.fixture
def folder(tmp_path: Path) -> FileFolder:
    return FileFolder(tmp_path, "run")


def opened(folder: FileFolder) -> FilePart:
    part = FilePart(folder, "ab")
    part.open()
    return part


def stored(content: bytes) -> StoredFile:
    digest = hashlib.sha256(content).hexdigest()
    return StoredFile(f"files/{digest}.bin", len(content), digest, "")


def left(folder: FileFolder) -> set[str]:
    return {path.name for path in folder.parts.iterdir()}


def test_a_file_gets_its_name_when_it_is_complete(folder: FileFolder) -> None:
    part = opened(folder)
    part.start(None)
    part.write(b"hello ")
    part.write(b"world")
    assert part.digest == hashlib.sha256(b"hello world").hexdigest()
    file = stored(b"hello world")
    assert not (folder.output / file.path).exists()
    part.finish(file)
    part.close()
    path = folder.output / file.path
    assert path.read_bytes() == b"hello world"
    assert (path.stat().st_mode & 0o777, folder.path.stat().st_mode & 0o777) == (0o600, 0o700)
    part.forget_note()
    assert left(folder) == set()


def test_the_next_attempt_continues_with_the_digest_of_the_whole(folder: FileFolder) -> None:
    part = opened(folder)
    part.start(NOTE)
    part.write(b"hello")
    part.close()
    part = opened(folder)
    assert (part.note, part.earlier_size) == (NOTE, 5)
    part.resume()
    part.write(b"world")
    assert part.digest == hashlib.sha256(b"helloworld").hexdigest()


@pytest.mark.parametrize("note", ["", "{", "[]", "{}", '{"done": 1}', '{"done": {"path": "x"}}', '{"boot": "other"}'])
def test_a_part_with_a_bad_note_starts_again(folder: FileFolder, note: str) -> None:
    part = opened(folder)
    part.start(NOTE)
    part.write(b"hello")
    part.close()
    folder.note("ab").write_text(note)
    assert opened(folder).note is None


def test_a_part_of_an_earlier_boot_starts_again(folder: FileFolder) -> None:
    """After a power loss its bytes may be zeros."""
    part = opened(folder)
    part.start(NOTE)
    part.write(b"hello")
    part.close()
    note = json.loads(folder.note("ab").read_text())
    folder.note("ab").write_text(json.dumps({**note, "boot": "earlier"}))
    assert opened(folder).note is None


@pytest.mark.parametrize("moved", [True, False])
def test_a_kill_around_the_rename_costs_no_request(folder: FileFolder, moved: bool) -> None:
    part = opened(folder)
    part.start(NOTE)
    part.write(b"helloworld")
    file = stored(b"helloworld")
    part.finish(file)
    if not moved:  # it died between the note and the rename
        (folder.output / file.path).rename(folder.part("ab"))
    part.close()
    part = opened(folder)
    assert part.finished == file
    part.close()
    assert (folder.output / file.path).read_bytes() == b"helloworld"
    assert left(folder) == {"ab.json"}, "until the job is recorded"


def test_a_note_of_a_file_that_is_gone_or_damaged_counts_for_nothing(folder: FileFolder) -> None:
    part = opened(folder)
    part.start(None)
    part.write(b"hello")
    file = stored(b"hello")
    part.finish(file)
    part.close()
    (folder.output / file.path).write_bytes(b"hel")
    assert opened(folder).finished is None


def test_equal_content_stays_where_it_is_and_damaged_content_is_replaced(folder: FileFolder) -> None:
    file = stored(b"hello")
    path = folder.output / file.path
    inodes = []
    for damage in (False, True):
        part = opened(folder)
        part.start(None)
        part.write(b"hello")
        part.finish(file)
        part.close()
        inodes.append(path.stat().st_ino)
        if damage:
            continue
        other = FilePart(folder, "cd")
        other.open()
        other.start(None)
        other.write(b"hello")
        other.finish(file)
        other.close()
        assert path.stat().st_ino == inodes[0]
        path.write_bytes(b"he")
    assert path.read_bytes() == b"hello"


def test_two_attempts_never_write_one_part(folder: FileFolder) -> None:
    part = opened(folder)
    with pytest.raises(PartInUse):
        opened(folder)
    part.close()
    opened(folder)


def test_an_empty_or_discarded_part_is_deleted(folder: FileFolder) -> None:
    opened(folder).close()
    assert left(folder) == set()
    part = opened(folder)
    part.start(NOTE)
    part.write(b"hello")
    part.discard_later()
    part.close()
    assert left(folder) == set()


def test_nothing_is_written_after_it_is_closed(folder: FileFolder) -> None:
    part = opened(folder)
    part.start(NOTE)
    part.write(b"hello")
    part.close()
    with pytest.raises(OSError, match="closed"):
        part.write(b"late")
    with pytest.raises(OSError, match="closed"):
        part.finish(stored(b"hello"))
    assert folder.part("ab").read_bytes() == b"hello"


def test_parts_of_other_runs_are_removed(folder: FileFolder, tmp_path: Path) -> None:
    other = FileFolder(tmp_path, "other")
    for one in (folder, other):
        one.create()
        one.part("ab").write_bytes(b"x")
    (tmp_path / "output" / "latest").symlink_to("run")
    remove_dead_parts(tmp_path, "run")
    assert left(folder) == {"ab"}
    assert not other.path.exists()


def test_parts_are_removed_and_files_stay(folder: FileFolder) -> None:
    part = opened(folder)
    part.start(NOTE)
    part.write(b"hello")
    folder.remove_parts()
    assert not folder.path.exists()
    folder.create()
    (folder.path / "file.pdf").write_bytes(b"x")
    folder.remove_parts()
    assert [path.name for path in folder.path.iterdir()] == ["file.pdf"]


def earlier(folder: FileFolder, content: bytes) -> Path:
    """A file of an earlier run."""
    path = folder.output.with_name("old") / stored(content).path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_file_of_an_earlier_run_gets_a_second_name(folder: FileFolder) -> None:
    source, file = earlier(folder, b"old"), stored(b"old")
    part = opened(folder)
    assert part.hold(source, file)
    assert not (folder.output / file.path).exists()
    part.finish(file)
    part.close()
    part.forget_note()
    assert (folder.output / file.path).samefile(source)
    assert left(folder) == set()
    source.unlink()
    assert (folder.output / file.path).read_bytes() == b"old"


def test_a_download_with_the_content_of_a_held_file_is_that_file(folder: FileFolder) -> None:
    source, file = earlier(folder, b"old"), stored(b"old")
    for content, is_same in [(b"old", True), (b"new", False)]:
        part = opened(folder)
        assert part.hold(source, file)
        part.start(None)
        part.write(content)
        part.finish(stored(content))
        part.close()
        part.forget_note()
        assert (folder.output / stored(content).path).read_bytes() == content
        assert (folder.output / stored(content).path).samefile(source) is is_same
        assert left(folder) == set()


@pytest.mark.parametrize("damage", ["gone", "shorter", "changed", "a folder"])
def test_a_damaged_file_of_an_earlier_run_is_not_held(folder: FileFolder, damage: str) -> None:
    source, file = earlier(folder, b"old"), stored(b"old")
    source.unlink()
    if damage == "a folder":
        source.mkdir()
    elif damage != "gone":
        source.write_bytes(b"ol" if damage == "shorter" else b"odd")
    part = opened(folder)
    assert not part.hold(source, file)
    part.close()
    assert left(folder) == set()


@pytest.mark.parametrize("call", ["link", "unlink", "rename", "replace", "fsync"])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_kill_while_a_held_file_gets_its_name(
    folder: FileFolder, monkeypatch: pytest.MonkeyPatch, call: str, at: int
) -> None:
    """After it the file is found without a request, or the earlier one is held again; its content is never changed."""
    source, file = earlier(folder, b"old"), stored(b"old")
    part = opened(folder)
    owner = os if call in ("link", "fsync") else Path
    usual, calls = getattr(owner, call), count(1)

    def die(*arguments: object, **named: object) -> object:
        if next(calls) == at:
            raise KeyboardInterrupt
        return usual(*arguments, **named)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(owner, call, die)
        part.hold(source, file)
        part.finish(file)
    os.close(part._open_fd)  # what the kernel does
    target = folder.output / file.path
    assert not target.exists() or target.read_bytes() == b"old"
    again = opened(folder)
    if again.finished is None:
        assert again.hold(source, file)
        again.finish(file)
    again.close()
    again.forget_note()
    assert target.samefile(source)
    assert source.read_bytes() == b"old"
    assert left(folder) == set()
