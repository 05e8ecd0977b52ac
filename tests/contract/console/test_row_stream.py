"""`run -o -`: the rows of a run go to stdout as they are committed, however slow its reader is."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawl_console.cli.row_stream import RowStream, check_streamable
from crawl_engine.errors import UsageError
from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.store.db.schema import CRAWL
from tests.contract.append.harness import COLUMNS, Harness, book, books, until

BOOK = DataDef(name="book", fields=tuple(Field(name=name, all=name == "tags", join=";") for name in COLUMNS))
AUTHOR = DataDef(name="author", fields=BOOK.fields)
LINKS = DataDef(name="links")


class Pipe:
    """Takes the place of stdout."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.read_end, write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.stdout = os.fdopen(write_end, "w")
        self.data = b""

    def read(self) -> bytes:
        """All that came so far."""
        try:
            while piece := os.read(self.read_end, 65_536):
                self.data += piece
        except BlockingIOError:
            pass
        return self.data

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.read().decode().split("\n")[:-1]]


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    pipe = Pipe(monkeypatch)
    yield pipe
    with contextlib.suppress(OSError):
        os.close(pipe.read_end)
    pipe.stdout.close()


def stream(pipe: Pipe, harness: Harness, *data_defs: DataDef, format_: str = "jsonl") -> RowStream:
    pipe.monkeypatch.setattr(sys, "stdout", pipe.stdout)
    return RowStream(harness.folder / CRAWL, harness.run.seq, Definitions(data_defs=data_defs), format_)


def test_rows_come_as_they_are_committed_and_replaced_ones_again(tmp_path: Path, pipe: Pipe) -> None:
    harness = Harness(tmp_path, "csv")
    job = harness.add([{"title": "a"}])
    rows = stream(pipe, harness, BOOK, LINKS)
    assert until(lambda: pipe.lines() == [{"title": "a"}])
    harness.add([{"title": "b"}], job=job)
    assert until(lambda: pipe.lines() == [{"title": "a"}, {"title": "b"}])
    harness.add([{"title": "line\nbreak"}])
    rows.finish()
    assert pipe.lines()[2:] == [{"title": "line\nbreak"}]
    assert rows.failure is None


def test_the_rows_of_several_data_defs_name_theirs(tmp_path: Path, pipe: Pipe) -> None:
    harness = Harness(tmp_path, "csv", ("book", "author"))
    harness.add([{"title": "a"}])
    harness.add([{"title": "b"}], "author")
    stream(pipe, harness, BOOK, AUTHOR).finish()
    assert pipe.lines() == [{"dataDef": "book", "row": {"title": "a"}}, {"dataDef": "author", "row": {"title": "b"}}]


def test_csv_is_that_of_the_appender(tmp_path: Path, pipe: Pipe) -> None:
    harness = Harness(tmp_path, "csv")
    harness.add(books(20))
    harness.drain()
    stream(pipe, harness, BOOK, format_="csv").finish()
    assert pipe.read() == harness.path().read_bytes()


def test_a_slow_reader_gets_every_row_and_delays_no_commit(tmp_path: Path, pipe: Pipe) -> None:
    harness = Harness(tmp_path, "csv")
    rows = stream(pipe, harness, BOOK)
    for start in range(0, 3_000, 500):
        harness.add([book(start + i, title=f"{start + i}") for i in range(500)])
    os.set_blocking(pipe.read_end, True)
    first = os.read(pipe.read_end, 10)
    os.set_blocking(pipe.read_end, False)
    rows._is_last.set()
    rows._thread.join(0.3)
    assert rows._thread.is_alive(), "the rows are more than the pipe holds"
    pipe.data = first
    assert until(lambda: bool(pipe.read()) and not rows._thread.is_alive())
    assert [int(line["title"]) for line in pipe.lines()] == list(range(3_000))


@pytest.mark.parametrize("waiting", [0, 3_000])
def test_the_stream_ends_when_its_reader_goes(tmp_path: Path, pipe: Pipe, waiting: int) -> None:
    harness = Harness(tmp_path, "csv")
    harness.add(books(waiting))
    rows = stream(pipe, harness, BOOK)
    os.close(pipe.read_end)
    assert until(lambda: rows.failure is not None)
    assert isinstance(rows.failure, BrokenPipeError)
    rows.finish()


def test_csv_has_one_data_def() -> None:
    check_streamable(Definitions(data_defs=(BOOK, AUTHOR)), "jsonl")
    check_streamable(Definitions(data_defs=(BOOK, LINKS)), "csv")
    with pytest.raises(UsageError, match="-o - --format csv writes one dataDef, and the defs have book, author"):
        check_streamable(Definitions(data_defs=(BOOK, AUTHOR)), "csv")
    with pytest.raises(UsageError, match="and the defs have none"):
        check_streamable(Definitions(data_defs=(LINKS,)), "csv")
