"""Compressed files, flattened columns and absolute paths: in the loop, in exports and in verifications."""

import errno
import gzip
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.append.export import rewrite_output
from crawl_engine.append.formats.file_writer import FileWriter
from crawl_engine.append.loop.appender import MANY_PARTS
from crawl_engine.store.read.content import ContentRow
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.run import runs
from crawl_engine.supervise.verification.output_check import OutputChecks
from tests.contract.append.harness import Harness, book, books, read, recorded, run_until_idle

PATHS = {"price.amount": ["price", "amount"], "price.currency": ["price", "currency"]}
COLUMNS = ["price.currency", "title", "price.amount"]
FLAT = {"paths": PATHS, "types": {"price.amount": "decimal"}}
PRICES: list[dict[str, Any]] = [
    {"title": "a", "price": {"amount": 1, "currency": "€"}}, {"title": "b", "price": None},
    {"title": "c", "price": {"amount": 2, "currency": None}},
]  # fmt: skip


def verify(harness: Harness) -> list[tuple[str, str]]:
    with closing(OutputChecks(harness.db, harness.folder, runs.get(harness.db, harness.run.seq))) as checks:
        checks.check([*stored_rows(harness)], set())
        return [(result.status, result.reason) for result in checks.finish()]


def stored_rows(harness: Harness) -> Iterator[ContentRow]:
    for id_, data in harness.db.all("SELECT id, data FROM rows ORDER BY id"):
        yield ContentRow(id_, 1, "g", "book", None, data.encode())


@pytest.mark.parametrize("kind", ["csv.gz", "jsonl.zst"])
@pytest.mark.parametrize("state", ["READY", "DRAINING"])
def test_many_small_parts_become_a_whole_file_if_the_run_ends_by_itself(tmp_path: Path, kind: str, state: str) -> None:
    harness = Harness(tmp_path, kind)
    with closing(harness.appender()) as appender:
        for number in range(MANY_PARTS + 4):
            harness.add([book(number)])
            run_until_idle(appender)
        loose = recorded(harness).bytes
        harness.db.execute("UPDATE runs SET state = ?", (state,))
        appender.context.stop.draining = True  # type: ignore[attr-defined]
        run_until_idle(appender)
        whole = recorded(harness)
        run_until_idle(appender)
        assert recorded(harness) == whole, "it is written once"
    assert (whole.bytes < loose / 3) == (state == "DRAINING")
    assert whole.bytes == harness.path().stat().st_size
    assert harness.written() == harness.expected()
    assert not harness.has_backlog()


def test_a_disk_that_is_full_at_the_end_leaves_the_small_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(tmp_path, "csv.gz")
    with closing(harness.appender()) as appender:
        for number in range(MANY_PARTS):
            harness.add([book(number)])
            run_until_idle(appender)
        harness.db.execute("UPDATE runs SET state = 'DRAINING'")
        appender.context.stop.draining = True  # type: ignore[attr-defined]

        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(FileWriter, "prepare", fail)
        monkeypatch.setattr("crawl_engine.append.loop.turns.RETRY_SECONDS", 0.0)
        run_until_idle(appender)
    assert harness.written() == harness.expected()
    assert recorded(harness).error is None
    assert not harness.has_backlog()


@pytest.mark.parametrize("type_", ["csv", "jsonl", "sqlite", "csv.gz"])
def test_flattened_columns_are_written_rewritten_and_verified(tmp_path: Path, type_: str) -> None:
    harness = Harness(tmp_path, type_)
    harness.declare("book", COLUMNS, **FLAT)
    harness.add(PRICES[:1])
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        harness.add(PRICES[1:])
        run_until_idle(appender)
    one, two = (1, 2) if type_ == "jsonl" else ("1", "2")
    none = "" if type_.startswith("csv") else None
    expected = [["€", "a", one], [none, "b", none], [none, "c", two]]
    assert read(harness.type, harness.path(), "book", COLUMNS) == expected
    assert verify(harness) == [("valid", "")]
    harness.path().unlink()
    run = runs.get(harness.db, harness.run.seq)
    rewrite_output(harness.db, harness.folder, run, recorded(harness))
    assert read(harness.type, harness.path(), "book", COLUMNS) == expected


@pytest.mark.parametrize("kind", ["csv.gz", "jsonl.zst", "json.gz"])
def test_a_damaged_compressed_file_is_found(tmp_path: Path, kind: str) -> None:
    harness = Harness(tmp_path, kind)
    harness.add(books(40))
    harness.drain()
    assert verify(harness) == [("valid", "")]
    data = bytearray(harness.path().read_bytes())
    data[len(data) // 2] ^= 0x55
    harness.path().write_bytes(data)
    assert verify(harness) == [("invalid", f"it is not whole {harness.more['compression']} data")]


def test_a_compressed_file_that_lacks_a_row_is_found(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "csv.gz")
    harness.add(books(3))
    harness.drain()
    lines = gzip.decompress(harness.path().read_bytes())
    packed = gzip.compress(lines.replace(b"Book 1", b"Book 7"))
    harness.path().write_bytes(packed)
    outputs.advance(harness.db, 1, cursor=3, size=len(packed), rows=3, inode=harness.path().stat().st_ino)
    [(status, reason)] = verify(harness)
    assert (status, reason[-12:]) == ("invalid", "is not row 2")


def test_a_later_run_replaces_an_absolute_file_as_a_whole(tmp_path: Path) -> None:
    """A reader that has the old file open keeps its content."""
    shared = tmp_path / "made" / "for it" / "books.csv"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = Harness(tmp_path / "a", "csv")
    first.declare("book", path=shared)
    first.add(books(3))
    first.drain()
    old = shared.read_bytes()
    second = Harness(tmp_path / "b", "csv")
    second.declare("book", path=shared)
    second.add(books(2, start=70))
    with shared.open("rb") as reader:
        second.drain()
        assert reader.read() == old
    assert sorted(map(repr, read("csv", shared, "book", list(first.settings()["columns"])))) == second.expected()
    assert [path.name for path in shared.parent.iterdir()] == ["books.csv"]
