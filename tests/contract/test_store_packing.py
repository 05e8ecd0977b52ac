"""How bodies lie in pages.db: plain at first, then with a dictionary learnt from them, and always readable."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from store_house import document

from engine.errors import StorageError
from engine.store.connector import Busy, Database
from engine.store.documents import Pages
from engine.store.packing import Packing
from engine.store.schema import PAGES, prepare

_LOOK = 1_700
"""Pages after which it has looked again, in groups of 20."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(tmp_path)
    return tmp_path


def _shop(number: int) -> bytes:
    lines = "".join(f"<li class='shelf-{i}'><a href='/shelf/{i}?from=menu'>Shelf {i}</a></li>" for i in range(60))
    return f"<html><nav><ul>{lines}</ul></nav><h1>Book {number}</h1><p>{random.Random(number).random()}</p>".encode()


def _news(number: int) -> bytes:
    lines = "".join(f"<div data-story='{i * 7}'><em>{i} hours ago</em> by reporter {i * i}</div>" for i in range(60))
    return f"<html><main>{lines}</main><h2>Story {number}</h2><q>{random.Random(number).random()}</q>".encode()


def _noise(number: int) -> bytes:
    return random.Random(number).randbytes(3_000)


def _store(pages: Pages, body: Callable[[int], bytes], first: int, count: int) -> dict[int, bytes]:
    """Stored in groups of 20, as a node would; bodies by page."""
    kept = {}
    for start in range(first, first + count, 20):
        bodies = [body(number) for number in range(start, min(start + 20, first + count))]
        kept |= dict(zip(pages.add([document("http://a/", b) for b in bodies]), bodies, strict=True))
    return kept


def _frames(folder: Path) -> list[tuple[int, int]]:
    """Of each page in order: the number of its dictionary, 0 for none, and its bytes."""
    db = Database.open(folder / PAGES, read_only=True)
    rows = db.all("SELECT body FROM pages ORDER BY id")
    db.close()
    return [(zstandard.get_frame_parameters(row[0]).dict_id, len(row[0])) for row in rows]


def _read(folder: Path, kept: dict[int, bytes]) -> None:
    pages = Pages(folder, read_only=True)
    assert {page: pages.read(page) for page in kept} == kept
    pages.close()


def test_pages_alike_are_packed_with_a_dictionary_learnt_from_the_first_of_them(folder: Path) -> None:
    pages = Pages(folder)
    kept = _store(pages, _shop, 0, 120)
    frames = _frames(folder)
    assert [number for number, _ in frames] == [0] * 60 + [32_768] * 60
    plain, aided = (sum(size for of, size in frames if bool(of) is told) for told in (False, True))
    assert aided < plain / 2
    _read(folder, kept)
    assert {page: pages.read(page) for page in kept} == kept


def test_pages_that_come_one_by_one_are_learnt_from_too(folder: Path) -> None:
    pages = Pages(folder)
    for number in range(56):
        pages.add([document("http://a/", _shop(number))])
    assert [number for number, _ in _frames(folder)] == [0] * 48 + [32_768] * 8


def test_another_writer_and_a_later_one_use_what_was_learnt(folder: Path) -> None:
    first, second = Pages(folder), Pages(folder)
    kept = _store(first, _shop, 0, 60) | _store(second, _shop, 60, 80)
    first.close()
    second.close()
    kept |= _store(Pages(folder), _shop, 140, 80)
    assert {number for number, _ in _frames(folder)} == {0, 32_768}
    _read(folder, kept)


def test_a_dictionary_that_no_longer_pays_is_followed_by_another(folder: Path) -> None:
    pages = Pages(folder)
    kept = _store(pages, _shop, 0, 80) | _store(pages, _news, 80, _LOOK) | _store(pages, _news, 80 + _LOOK, 40)
    numbers = [number for number, _ in _frames(folder)]
    assert numbers[60] == 32_768
    assert numbers[-1] == 32_769
    _read(folder, kept)


def test_what_has_nothing_in_common_stays_without(folder: Path) -> None:
    pages = Pages(folder)
    kept = _store(pages, _shop, 0, 80) | _store(pages, _noise, 80, 2 * _LOOK)
    sizes = [size for _, size in _frames(folder)[80 + _LOOK :]]
    assert max(sizes) < 3_020, "it costs nothing"
    assert {number for number, _ in _frames(folder)[80 + _LOOK :]} == {0}
    _read(folder, kept)


def test_small_and_empty_bodies_and_large_ones(folder: Path) -> None:
    pages = Pages(folder)
    kept = _store(pages, lambda number: b"" if number % 2 else b"ok", 0, 100)
    assert {number for number, _ in _frames(folder)} == {0}, "nothing to learn from"
    pages = Pages(folder)
    kept |= _store(pages, _shop, 100, 100)
    kept |= _store(pages, lambda number: b"" if number % 2 else _shop(number) * 300, 200, 8)
    assert _frames(folder)[-1][0] == 32_768
    _read(folder, kept)


def test_a_dictionary_that_is_gone_is_told(folder: Path) -> None:
    pages = Pages(folder)
    kept = _store(pages, _shop, 0, 80)
    db = Database.open(folder / PAGES)
    with db.transaction():
        db.execute("DELETE FROM dictionaries")
    db.close()
    fresh = Pages(folder, read_only=True)
    assert fresh.read(min(kept)) == kept[min(kept)]
    with pytest.raises(StorageError, match=r"pages\.db: damaged \(dictionary 32768 is missing\)"):
        fresh.read(max(kept))


def test_a_damaged_dictionary_or_body_is_told_and_new_pages_go_without_it(folder: Path) -> None:
    kept = _store(Pages(folder), _shop, 0, 80)
    db = Database.open(folder / PAGES)
    with db.transaction():
        db.execute("UPDATE dictionaries SET body = CAST(substr(body, 1, 8) || x'3f3f3f' AS BLOB)")
        db.execute("UPDATE pages SET body = CAST(substr(body, 1, 20) AS BLOB) WHERE id = 1")
    db.close()
    for page in (1, max(kept)):
        with pytest.raises(StorageError, match=r"pages\.db: damaged"):
            Pages(folder, read_only=True).read(page)
    later = _store(Pages(folder), _shop, 80, 100)
    assert _frames(folder)[-1][0] == 32_769
    _read(folder, later)


def test_nothing_is_packed_with_what_could_not_be_written(folder: Path) -> None:
    other = Database.open(folder / PAGES)
    db = Database.open(folder / PAGES, busy_seconds=0.05)
    packing = Packing(db)
    with other.transaction():
        packing.pack([_shop(number) for number in range(60)])
        frames = packing.pack([_shop(60)])
        with pytest.raises(Busy), db.transaction():
            pass
    assert zstandard.get_frame_parameters(frames[0]).dict_id == 0
    assert db.all("SELECT id FROM dictionaries") == []


def test_a_data_dir_from_before_dictionaries_is_taken_along(folder: Path) -> None:
    kept = _store(Pages(folder), _shop, 0, 20)
    db = Database.open(folder / PAGES)
    with db.transaction():
        db.execute("DROP TABLE dictionaries")
        db.execute("PRAGMA user_version = 1")
    db.close()
    _read(folder, kept)
    prepare(folder)
    kept |= _store(Pages(folder), _shop, 20, 80)
    assert _frames(folder)[-1][0] == 32_768
    _read(folder, kept)


@given(groups=st.lists(st.lists(st.binary(max_size=9_000), min_size=1, max_size=40), max_size=8))
def test_whatever_is_packed_comes_back(tmp_path_factory: pytest.TempPathFactory, groups: list[list[bytes]]) -> None:
    folder = tmp_path_factory.mktemp("packing")
    prepare(folder)
    db = Database.open(folder / PAGES)
    packing, reader = Packing(db), Packing(db)
    for group in groups:
        group = [body + body for body in group]
        assert [reader.unpack(frame) for frame in packing.pack(group)] == group
    db.close()
