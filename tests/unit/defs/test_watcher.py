"""The watcher: what was saved is laid ready, once, whole, and soon; a bad save too."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.defs.loader import load
from engine.defs.watcher import DefsWatcher, LoadResult, fingerprint_files
from engine.model.fingerprint import PreparedDefs

GOOD = """\
locatorGroups: {{g: {{locators: [{{url: "http://a.example/{n}"}}]}}}}
taskGroups: {{g: {{page: {{dataDef: d}}}}}}
dataDefs: {{d: {{fields: {{f: {{selector: p}}}}}}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "a.yml").write_text(GOOD.format(n=0))
    return tmp_path / "defs"


@pytest.fixture
def watcher(folder: Path) -> Iterator[DefsWatcher[str]]:
    watcher = DefsWatcher(folder, fingerprint_files(folder), lambda edition: edition.hash)
    watcher.start()
    time.sleep(0.3)
    yield watcher
    watcher.stop()
    watcher.join(5)
    assert not watcher.is_alive()


def awaited(watcher: DefsWatcher[str], seconds: float = 8.0) -> LoadResult[str] | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (look := watcher.take_result()) is not None:
            return look
        time.sleep(0.01)
    return None


def url(look: LoadResult[str] | None) -> str:
    assert look is not None
    assert look.edition is not None, look.problems
    return look.edition.definitions.locator_groups[0].locators[0].urls[0]


def test_a_save_is_laid_ready_once(watcher: DefsWatcher[str], folder: Path) -> None:
    (folder / "a.yml").write_text(GOOD.format(n=1))
    assert url(awaited(watcher)) == "http://a.example/1"
    assert awaited(watcher, 1.5) is None
    assert watcher.settled()


def test_nothing_is_told_of_what_was_there(watcher: DefsWatcher[str]) -> None:
    assert awaited(watcher, 1.5) is None


def test_an_order_is_answered_though_nothing_changed(watcher: DefsWatcher[str]) -> None:
    ticket = watcher.request_load()
    assert not watcher.settled()
    look = awaited(watcher)
    assert look is not None
    assert look.ticket == ticket


def test_of_many_saves_the_last_one_wins(watcher: DefsWatcher[str], folder: Path) -> None:
    for number in range(1, 60):
        (folder / "b").write_text(GOOD.format(n=number))
        (folder / "b").replace(folder / "a.yml")
    while url(awaited(watcher, 20)) != "http://a.example/59":
        pass
    assert awaited(watcher, 2.5) is None
    assert watcher.settled()


@pytest.mark.parametrize("how", ["deleted", "truncated", "directory", "not text"])
def test_a_bad_save_is_told_and_mended(watcher: DefsWatcher[str], folder: Path, how: str) -> None:
    target = folder / "a.yml"
    match how:
        case "deleted":
            target.unlink()
        case "truncated":
            target.write_text(GOOD.format(n=1)[:70])
        case "directory":
            target.unlink()
            target.mkdir()
        case _:
            target.write_bytes(b"\xff\xfe\x00")
    look = awaited(watcher)
    assert look is not None
    assert look.edition is None
    assert look.problems
    if target.is_dir():
        target.rmdir()
    target.write_text(GOOD.format(n=2))
    while (look := awaited(watcher)) is not None and look.edition is None:
        pass
    assert url(look) == "http://a.example/2"


def test_a_directory_that_is_moved_away_and_back(watcher: DefsWatcher[str], folder: Path) -> None:
    folder.rename(folder.with_name("away"))
    look = awaited(watcher)
    assert look is not None
    assert look.edition is None
    (folder.with_name("away") / "a.yml").write_text(GOOD.format(n=3))
    folder.with_name("away").rename(folder)
    assert url(awaited(watcher)) == "http://a.example/3"


def test_a_file_behind_a_link_is_noticed_by_its_hash(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere.yml"
    real.write_text(GOOD.format(n=0))
    folder = tmp_path / "defs"
    folder.mkdir()
    (folder / "a.yml").symlink_to(real)
    watcher = DefsWatcher(folder, fingerprint_files(folder), lambda edition: edition.hash)
    watcher.start()
    try:
        time.sleep(0.3)
        real.write_text(GOOD.format(n=4))
        assert url(awaited(watcher)) == "http://a.example/4"
    finally:
        watcher.stop()
        watcher.join(5)


def test_the_fingerprint_changes_with_every_byte_and_nothing_else(folder: Path) -> None:
    before = fingerprint_files(folder)
    (folder / "notes.txt").write_text("no def")
    (folder / ".a.yml.swp").write_text("an editor's own")
    assert fingerprint_files(folder) == before
    (folder / "a.yml").write_text(GOOD.format(n=0) + "#")
    assert fingerprint_files(folder) != before
    assert fingerprint_files(folder / "nowhere") != before


def test_a_single_file_may_be_watched(folder: Path) -> None:
    path = folder / "a.yml"
    watcher = DefsWatcher(path, fingerprint_files(path), lambda edition: edition.hash)
    watcher.start()
    try:
        time.sleep(0.3)
        path.write_text(GOOD.format(n=5))
        look = awaited(watcher)
        assert url(look) == "http://a.example/5"
        assert look is not None
        assert look.prepared == PreparedDefs.from_definitions(load(path).definitions).hash
    finally:
        watcher.stop()
        watcher.join(5)
