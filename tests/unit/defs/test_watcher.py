"""The watcher reports each saved change once, completely and soon, invalid ones too."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_engine.defs.loader import LoadedDefs, load
from crawl_engine.defs.watcher import DefsWatcher, LoadResult, fingerprint_files, iterate_saves
from crawl_engine.errors import DefsError
from crawl_engine.model.fingerprint import PreparedDefs

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
    watcher = DefsWatcher(folder, fingerprint_files(folder), lambda edition: edition.hash, complete=lambda defs: defs)
    watcher.start()
    time.sleep(0.3)
    yield watcher
    watcher.stop()
    watcher.join(5)
    assert not watcher.is_alive()


def wait_for_result(watcher: DefsWatcher[str], seconds: float = 8.0) -> LoadResult[str] | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (result := watcher.take_result()) is not None:
            return result
        time.sleep(0.01)
    return None


def url(result: LoadResult[str] | None) -> str:
    assert result is not None
    assert result.edition is not None, result.problems
    return result.edition.definitions.locator_groups[0].locators[0].urls[0]


def test_a_save_is_reported_once(watcher: DefsWatcher[str], folder: Path) -> None:
    (folder / "a.yml").write_text(GOOD.format(n=1))
    assert url(wait_for_result(watcher)) == "http://a.example/1"
    assert wait_for_result(watcher, 1.5) is None
    assert watcher.settled()


def test_unchanged_defs_are_not_reported(watcher: DefsWatcher[str]) -> None:
    assert wait_for_result(watcher, 1.5) is None


def test_saves_of_defs_and_golden_tests_are_told_one_by_one(folder: Path) -> None:
    saves = iterate_saves(folder)
    next(saves)
    (folder / "a.yml").write_text(GOOD.format(n=10))  # between the first test run and the watch
    next(saves)
    (folder / ".swap").write_text("an editor's")
    (folder / "tests" / "tea").mkdir(parents=True)
    for text in ("{}", '{"a": 1}'):
        (folder / "tests" / "tea" / "rows.jsonl").write_text(text)
        next(saves)


def test_saves_beside_a_single_file_of_defs(folder: Path) -> None:
    saves = iterate_saves(folder / "a.yml")
    next(saves)
    (folder / "tests").mkdir()
    (folder / "other.yml").write_text("not watched")
    (folder / "tests" / "rows.jsonl").write_text("{}")
    next(saves)
    (folder / "a.yml").write_text(GOOD.format(n=10))
    next(saves)
    with pytest.raises(DefsError, match="does not exist"):
        next(iterate_saves(folder / "none.yml"))


def test_a_request_is_answered_without_changes(watcher: DefsWatcher[str]) -> None:
    ticket = watcher.request_load()
    assert not watcher.settled()
    result = wait_for_result(watcher)
    assert result is not None
    assert result.ticket == ticket


def test_of_many_saves_the_last_wins(watcher: DefsWatcher[str], folder: Path) -> None:
    for number in range(1, 60):
        (folder / "b").write_text(GOOD.format(n=number))
        (folder / "b").replace(folder / "a.yml")
    while url(wait_for_result(watcher, 20)) != "http://a.example/59":
        pass
    assert wait_for_result(watcher, 2.5) is None
    assert watcher.settled()


def test_the_last_save_wins_even_if_each_load_is_overtaken_by_one(folder: Path) -> None:
    saves = iter(range(1, 30))

    def load_late(path: Path) -> LoadedDefs:
        loaded = load(path)
        if (number := next(saves, None)) is not None:
            (folder / "a.yml").write_text(GOOD.format(n=number))
        return loaded

    watcher = DefsWatcher(
        folder, fingerprint_files(folder), lambda edition: edition.hash, complete=lambda defs: defs, load_defs=load_late
    )
    watcher.start()
    try:
        time.sleep(0.3)
        (folder / "a.yml").write_text(GOOD.format(n=0) + "# saved")
        while url(wait_for_result(watcher)) != "http://a.example/29":
            pass
        assert watcher.settled()
    finally:
        watcher.stop()
        watcher.join(5)


@pytest.mark.parametrize("change", ["deleted", "truncated", "directory", "not text"])
def test_an_invalid_save_is_reported_and_can_be_fixed(watcher: DefsWatcher[str], folder: Path, change: str) -> None:
    target = folder / "a.yml"
    match change:
        case "deleted":
            target.unlink()
        case "truncated":
            target.write_text(GOOD.format(n=1)[:70])
        case "directory":
            target.unlink()
            target.mkdir()
        case _:
            target.write_bytes(b"\xff\xfe\x00")
    result = wait_for_result(watcher)
    assert result is not None
    assert result.edition is None
    assert result.problems
    if target.is_dir():
        target.rmdir()
    target.write_text(GOOD.format(n=2))
    while (result := wait_for_result(watcher)) is not None and result.edition is None:
        pass
    assert url(result) == "http://a.example/2"


def test_a_directory_that_is_moved_away_and_back(watcher: DefsWatcher[str], folder: Path) -> None:
    folder.rename(folder.with_name("away"))
    result = wait_for_result(watcher)
    assert result is not None
    assert result.edition is None
    (folder.with_name("away") / "a.yml").write_text(GOOD.format(n=3))
    folder.with_name("away").rename(folder)
    assert url(wait_for_result(watcher)) == "http://a.example/3"


def test_a_change_behind_a_symlink_is_detected_by_hash(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere.yml"
    real.write_text(GOOD.format(n=0))
    folder = tmp_path / "defs"
    folder.mkdir()
    (folder / "a.yml").symlink_to(real)
    watcher = DefsWatcher(folder, fingerprint_files(folder), lambda edition: edition.hash, complete=lambda defs: defs)
    watcher.start()
    try:
        time.sleep(0.3)
        real.write_text(GOOD.format(n=4))
        assert url(wait_for_result(watcher)) == "http://a.example/4"
    finally:
        watcher.stop()
        watcher.join(5)


def test_the_fingerprint_changes_with_def_files_only(folder: Path) -> None:
    before = fingerprint_files(folder)
    (folder / "notes.txt").write_text("no def")
    (folder / ".a.yml.swp").write_text("an editor file")
    assert fingerprint_files(folder) == before
    (folder / "a.yml").write_text(GOOD.format(n=0) + "#")
    assert fingerprint_files(folder) != before
    assert fingerprint_files(folder / "nowhere") != before


def test_a_single_file_may_be_watched(folder: Path) -> None:
    path = folder / "a.yml"
    watcher = DefsWatcher(path, fingerprint_files(path), lambda edition: edition.hash, complete=lambda defs: defs)
    watcher.start()
    try:
        time.sleep(0.3)
        path.write_text(GOOD.format(n=5))
        result = wait_for_result(watcher)
        assert url(result) == "http://a.example/5"
        assert result is not None
        assert result.prepared == PreparedDefs.from_definitions(load(path).definitions).hash
    finally:
        watcher.stop()
        watcher.join(5)
