"""Compression of bodies in pages.db: plain first, then with a trained dictionary, and always readable."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_engine.errors import StorageError
from crawl_engine.store.db.connector import DatabaseBusy, connect
from crawl_engine.store.db.schema import PAGES, open_databases
from crawl_engine.store.pages.packing import BodyCompressor, _train_dictionary
from crawl_engine.store.pages.page_store import PageStore
from tests.contract.store.harness import document

_TEST_INTERVAL = 1_700
"""Pages after which the dictionary was tested again, in groups of 20."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    open_databases(tmp_path).close()
    return tmp_path


def _shop(number: int) -> bytes:
    lines = "".join(f"<li class='shelf-{i}'><a href='/shelf/{i}?from=menu'>Shelf {i}</a></li>" for i in range(60))
    return f"<html><nav><ul>{lines}</ul></nav><h1>Book {number}</h1><p>{random.Random(number).random()}</p>".encode()


def _news(number: int) -> bytes:
    lines = "".join(f"<div data-story='{i * 7}'><em>{i} hours ago</em> by reporter {i * i}</div>" for i in range(60))
    return f"<html><main>{lines}</main><h2>Story {number}</h2><q>{random.Random(number).random()}</q>".encode()


def _noise(number: int) -> bytes:
    return random.Random(number).randbytes(3_000)


def _store(pages: PageStore, body: Callable[[int], bytes], first: int, count: int) -> dict[int, bytes]:
    """Stored in groups of 20, as a node would; bodies by page."""
    kept = {}
    for start in range(first, first + count, 20):
        bodies = [body(number) for number in range(start, min(start + 20, first + count))]
        kept |= dict(zip(pages.add([document("http://a/", b) for b in bodies]), bodies, strict=True))
    return kept


def _frames(folder: Path) -> list[tuple[int, int]]:
    """The dictionary id (0: none) and the size of each page, in order."""
    db = connect(folder / PAGES, read_only=True)
    rows = db.all("SELECT body FROM pages ORDER BY id")
    db.close()
    return [(zstandard.get_frame_parameters(row[0]).dict_id, len(row[0])) for row in rows]


def _alter(folder: Path, *statements: str) -> None:
    db = connect(folder / PAGES)
    with db.transaction():
        for statement in statements:
            db.execute(statement)
    db.close()


def _read(folder: Path, kept: dict[int, bytes]) -> None:
    pages = PageStore(folder, read_only=True)
    assert {page: pages.read(page) for page in kept} == kept
    pages.close()


def test_similar_pages_are_compressed_with_a_dictionary_trained_on_the_first(folder: Path) -> None:
    pages = PageStore(folder)
    kept = _store(pages, _shop, 0, 120)
    frames = _frames(folder)
    assert [number for number, _ in frames] == [0] * 60 + [32_768] * 60
    plain, aided = (sum(size for of, size in frames if bool(of) is result) for result in (False, True))
    assert aided < plain / 2
    _read(folder, kept)
    assert {page: pages.read(page) for page in kept} == kept


def test_pages_stored_one_by_one_are_training_samples_too(folder: Path) -> None:
    pages = PageStore(folder)
    for number in range(56):
        pages.add([document("http://a/", _shop(number))])
    assert [number for number, _ in _frames(folder)] == [0] * 48 + [32_768] * 8


def test_another_writer_and_a_later_one_use_the_same_dictionary(folder: Path) -> None:
    first, second = PageStore(folder), PageStore(folder)
    kept = _store(first, _shop, 0, 60) | _store(second, _shop, 60, 80)
    first.close()
    second.close()
    kept |= _store(PageStore(folder), _shop, 140, 80)
    assert {number for number, _ in _frames(folder)} == {0, 32_768}
    _read(folder, kept)


def test_a_dictionary_that_no_longer_saves_space_is_replaced(folder: Path) -> None:
    pages = PageStore(folder)
    kept = (
        _store(pages, _shop, 0, 80)
        | _store(pages, _news, 80, _TEST_INTERVAL)
        | _store(pages, _news, 80 + _TEST_INTERVAL, 40)
    )
    numbers = [number for number, _ in _frames(folder)]
    assert numbers[60] == 32_768
    assert numbers[-1] == 32_769
    _read(folder, kept)


def test_pages_with_nothing_in_common_get_no_dictionary(folder: Path) -> None:
    pages = PageStore(folder)
    kept = _store(pages, _shop, 0, 80) | _store(pages, _noise, 80, 2 * _TEST_INTERVAL)
    sizes = [size for _, size in _frames(folder)[80 + _TEST_INTERVAL :]]
    assert max(sizes) < 3_020, "it costs nothing"
    assert {number for number, _ in _frames(folder)[80 + _TEST_INTERVAL :]} == {0}
    _read(folder, kept)


@pytest.mark.parametrize(("common", "number"), [(250, 0), (1_000, 32_768)])
def test_a_dictionary_must_save_a_tenth(folder: Path, common: int, number: int) -> None:
    shared = random.Random("shared").randbytes(common)
    _store(PageStore(folder), lambda number: shared + _noise(number), 0, 80)
    assert _frames(folder)[-1][0] == number


def test_empty_bodies_are_no_training_samples(folder: Path) -> None:
    pages = PageStore(folder)
    _store(pages, lambda _: b"", 0, 100)
    _store(pages, _shop, 100, 80)
    assert _frames(folder)[-1][0] == 32_768


def test_small_and_empty_bodies_and_large_ones(folder: Path) -> None:
    pages = PageStore(folder)
    kept = _store(pages, lambda number: b"" if number % 2 else b"ok", 0, 100)
    assert {number for number, _ in _frames(folder)} == {0}, "no training samples"
    pages = PageStore(folder)
    kept |= _store(pages, _shop, 100, 100)
    kept |= _store(pages, lambda number: b"" if number % 2 else _shop(number) * 300, 200, 8)
    assert _frames(folder)[-1][0] == 32_768
    _read(folder, kept)


def test_large_bodies_between_small_ones_keep_their_pages(folder: Path) -> None:
    """Large bodies are compressed and written one by one."""
    store = PageStore(folder)
    noise = random.Random(1).randbytes(1_500_000)  # its frame is large, too
    bodies = [b"a" * 10, b"b" * 700_000, b"c" * 20, noise, b"d" * 600_000, b"e" * 900_000, b"", b"f"]
    for group in (bodies, bodies[1:2], bodies[3:5]):
        pages = store.add([document(f"http://a/{number}", body) for number, body in enumerate(group)])
        assert pages == list(range(pages[0], pages[0] + len(group)))
        assert [store.read(page) for page in pages] == group
    store.close()


def test_a_missing_dictionary_is_reported(folder: Path) -> None:
    pages = PageStore(folder)
    kept = _store(pages, _shop, 0, 80)
    _alter(folder, "DELETE FROM dictionaries")
    fresh = PageStore(folder, read_only=True)
    assert fresh.read(min(kept)) == kept[min(kept)]
    with pytest.raises(StorageError, match=r"pages\.db: damaged \(dictionary 32768 is missing\)"):
        fresh.read(max(kept))


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("damage", "follower"),
    [
        ("substr(body, 1, 8) || x'3f3f3f'", 32_769),
        ("x'00' || substr(body, 2)", 32_769),
        ("substr(body, 1, 4) || x'99990000' || substr(body, 9)", 32_769),
        ("substr(body, 1, length(body) - 300) || zeroblob(200) || substr(body, length(body) - 99)", 32_768),
    ],
    ids=["cut", "no dictionary", "another's number", "content"],
)
def test_a_damaged_dictionary_is_reported_and_new_pages_can_be_read(folder: Path, damage: str, follower: int) -> None:
    kept = _store(PageStore(folder), _shop, 0, 80)
    _alter(folder, f"UPDATE dictionaries SET body = CAST({damage} AS BLOB)")
    with pytest.raises(StorageError, match=r"pages\.db: damaged"):
        _read(folder, {max(kept): kept[max(kept)]})
    later = _store(PageStore(folder), _shop, 80, 100)
    assert _frames(folder)[-1][0] == follower
    _read(folder, later)


@pytest.mark.parametrize("number", [1, 80], ids=["plain", "with a dictionary"])
def test_a_damaged_body_is_reported(folder: Path, number: int) -> None:
    kept = _store(PageStore(folder), _shop, 0, 80)
    whole = connect(folder / PAGES, read_only=True).value("SELECT body FROM pages WHERE id = ?", (number,))
    packing = BodyCompressor(connect(folder / PAGES, read_only=True))
    dice = random.Random(number)
    result = 0
    for _ in range(400):
        broken = bytearray(whole)
        broken[dice.randrange(4, len(whole))] ^= 1 << dice.randrange(8)
        try:
            assert packing.decompress(bytes(broken)) == kept[number]  # some bits of a frame have no meaning
        except StorageError as error:
            assert "pages.db: damaged (" in error.message
            result += 1
    assert result > 350
    huge = b"\x28\xb5\x2f\xfd\xc0\x00" + (2**62).to_bytes(8, "little") + whole[14:]
    for broken in (whole[:20], huge):
        with pytest.raises(StorageError, match=r"pages\.db: damaged"):
            packing.decompress(broken)


@pytest.mark.sqlite
def test_a_dictionary_that_could_not_be_written_is_not_used_and_training_is_retried(folder: Path) -> None:
    db = connect(folder / PAGES, busy_seconds=0.05)
    packing = BodyCompressor(db)

    def next_dictionary(first: int) -> int:
        """Store pages with these numbers; returns the dictionary id of the next one."""
        packing.add_samples([_shop(number) for number in range(first, first + 60)])
        return zstandard.get_frame_parameters(packing.compress([_shop(0)])[0]).dict_id

    other = connect(folder / PAGES)
    with other.transaction():
        assert next_dictionary(0) == 0
        with pytest.raises(DatabaseBusy), db.transaction():
            pass
    full = db.value("PRAGMA max_page_count")
    db.execute(f"PRAGMA max_page_count = {db.value('PRAGMA page_count')}")
    assert next_dictionary(60) == 0
    assert db.all("SELECT id FROM dictionaries") == []
    db.execute(f"PRAGMA max_page_count = {full}")
    assert next_dictionary(120) == 32_768


def test_pages_that_could_not_be_stored_are_no_training_samples(folder: Path) -> None:
    pages = PageStore(folder, busy_seconds=0.01)
    group = [document("http://a/", _shop(number)) for number in range(20)]
    other = connect(folder / PAGES)
    with other.transaction():
        for _ in range(4):
            with pytest.raises(DatabaseBusy):
                pages.add(group)
    pages.add(group)
    pages.add(group)
    assert {number for number, _ in _frames(folder)} == {0}
    assert connect(folder / PAGES, read_only=True).all("SELECT id FROM dictionaries") == []


def test_while_one_writer_trains_another_waits_and_then_uses_its_dictionary(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[PageStore] = []

    def crowded(samples: Sequence[bytes], number: int) -> bytes:
        others.append(PageStore(folder, busy_seconds=0.01))
        with pytest.raises(DatabaseBusy):
            others[-1].add([document("http://a/", b"x")])
        return _train_dictionary(samples, number)

    monkeypatch.setattr("crawl_engine.store.pages.packing._train_dictionary", crowded)
    kept = _store(PageStore(folder), _shop, 0, 80)
    [other] = others
    kept |= _store(other, _shop, 80, 80)
    assert [number for number, _ in _frames(folder)] == [0] * 60 + [32_768] * 20 + [0] * 60 + [32_768] * 20
    _read(folder, kept)


def test_alternating_sites_keep_their_dictionaries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_engine.store.pages.packing._TRAINING_INTERVAL", 60)
    first, second, kept = PageStore(folder), PageStore(folder), {}
    with monkeypatch.context() as patch:
        patch.setattr("crawl_engine.store.pages.packing._MAX_DICTIONARIES", 1)
        for number in range(0, 800, 20):
            kept |= _store(first, _shop, number, 20) | _store(second, _news, number, 20)
    for number in range(6):
        kept |= _store(PageStore(folder), _news if number % 2 else _shop, number * 100, 80)
    assert {number for number, _ in _frames(folder)} == {0, 32_768, 32_769}
    _read(folder, kept)


def test_pages_with_more_dictionaries_than_are_cached_can_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawl_engine.store.pages.packing._MAX_DICTIONARIES", 3)
    kept: dict[int, bytes] = {}
    for kind in range(6):

        def body(number: int, kind: int = kind) -> bytes:
            lines = "".join(f"<{'abipqu'[kind]} id='{kind}-{i * (kind + 3)}'>{kind}{i}" for i in range(200))
            return f"{lines}{random.Random(number).random()}".encode()

        kept |= _store(PageStore(folder), body, 0, 80)
    assert {number for number, _ in _frames(folder)} == {0, *range(32_768, 32_774)}
    _read(folder, kept)
    some = random.Random(1).choices(sorted(kept), k=300)
    pages = PageStore(folder, read_only=True)
    assert [pages.read(page) for page in some] == [kept[page] for page in some]


@settings(max_examples=40)
@given(groups=st.lists(st.lists(st.binary(max_size=9_000), min_size=1, max_size=40), max_size=8))
def test_every_compressed_body_is_restored(tmp_path_factory: pytest.TempPathFactory, groups: list[list[bytes]]) -> None:
    folder = tmp_path_factory.mktemp("packing")
    open_databases(folder).close()
    db = connect(folder / PAGES)
    packing, reader = BodyCompressor(db), BodyCompressor(db)
    for group in groups:
        group = [body + body for body in group]
        assert [reader.decompress(frame) for frame in packing.compress(group)] == group
        packing.add_samples(group)
    db.close()
