"""A data dir with one run, rows to write, and appenders: in this process, or as real processes."""

import codecs
import csv
import gzip
import io
import json
import time
from collections.abc import Iterable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet
import zstandard

from crawl_engine.append.loop.appender import AppenderLoop
from crawl_engine.append.loop.chosen_outputs import BuiltInOutputs, WholeOutputs
from crawl_engine.append.loop.heartbeat import AppenderHeartbeat
from crawl_engine.append.loop.lifeline import Lifeline
from crawl_engine.append.loop.output_dir import OutputDir
from crawl_engine.append.loop.turns import LoopContext, TurnResult
from crawl_engine.model.definition import DataDef, Definitions, Field, definition_hash
from crawl_engine.model.output_type import is_whole
from crawl_engine.runtime.beat_file import read_beat
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.db.sqlite import sqlite3
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run import nodes, runs, supervisors, versions
from crawl_engine.supervise.nodes.monitored_child import ENTRIES
from tests.templates import SupervisedProcess

TYPES = ("csv", "jsonl", "json", "parquet", "xlsx", "sqlite", "duckdb")
GROWING = tuple(type_ for type_ in TYPES if not is_whole(type_))
"""Types to which rows are appended."""
ENDINGS = {type_: "db" if type_ == "sqlite" else type_ for type_ in TYPES}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "csv.gz": ("csv", {"compression": "gzip"}),
    "jsonl.zst": ("jsonl", {"compression": "zstd"}),
    "json.gz": ("json", {"compression": "gzip"}),
    "csv with a mark": ("csv", {"bom": True, "quoting": "all"}),
    "absolute": ("csv", {}),
}
"""Kinds of files: their type, and what their settings have besides."""
FIELD_TYPES = {
    "column_types": {
        "title": "str",
        "price": "decimal",
        "stock": "bool",
        "tags": {"list": "str"},
        "parts": {"list": [["n", "int"]]},
    },
}
"""What typed outputs are declared with."""
COLUMNS = ("title", "price", "stock", "tags", "parts")
COLUMN_TYPES = {
    "price": "decimal", "stock": "bool", "tags": {"list": "str"},
    "parts": {"list": [["n", "int"], ["weight", "decimal"], ["name", "str"]]},
}  # fmt: skip


class InProcessAppender(AppenderLoop):
    """An appender in the test process: `close` also releases what the end of a process would release."""

    @property
    def context(self) -> LoopContext:
        return self._loop

    def close(self) -> None:
        super().close()
        cast(AppenderHeartbeat, self._loop.monitor).stop()
        cast(Lifeline, self._loop.stop).close()
        self._loop.db.close()


class Harness:
    """`kind` is the type of every output, or one of `KINDS`; each dataDef has the columns `COLUMNS`."""

    def __init__(self, folder: Path, kind: str, data_defs: Iterable[str] = ("book",)) -> None:
        self.folder, self.kind = folder, kind
        self.type, self.more = KINDS.get(kind, (kind, {}))
        open_databases(folder).close()
        self.db = connect(folder / CRAWL)
        defs = tuple(DataDef(name=name, fields=tuple(Field(name=c) for c in COLUMNS)) for name in data_defs)
        with self.db.transaction():
            self.run = runs.create(self.db, None, 0.0)
            self.supervisor = supervisors.begin(self.db, "test", self.run.seq, 0.0)
            versions.publish(self.db, Definitions(data_defs=defs), 0.0)
            self.ids = {d.name: versions.ensure_data_def(self.db, d.name, definition_hash(d)) for d in defs}
            self.db.execute(
                "INSERT INTO hosts (run, key, origin, delay, concurrency, robots)"
                " VALUES (?, 'h:80', 'http://h', 0, 8, 'OFF')",
                (self.run.seq,),
            )
            self.db.execute("INSERT INTO sequences (run, host, kind, grp) VALUES (?, 1, 'page', 'g')", (self.run.seq,))
        self.expected_rows: dict[str, dict[int, list[dict[str, Any]]]] = {name: {} for name in self.ids}
        """By dataDef and job: the rows that the output must have."""
        self.jobs = 0
        for name in self.ids:
            self.declare(name)

    def declare(self, name: str, columns: Iterable[str] = COLUMNS, path: Path | None = None, **more: Any) -> None:
        settings = self.settings(columns, **more)
        if self.type == "parquet":
            settings.setdefault("column_types", COLUMN_TYPES)
        with self.db.transaction():
            outputs.ensure(
                self.db, self.run.seq, appender="rows", type_=self.type, data_def=name,
                path=str(path or self.path(name)), settings=settings,
            )  # fmt: skip

    def settings(self, columns: Iterable[str] = COLUMNS, **more: Any) -> dict[str, Any]:
        types = FIELD_TYPES if self.type == "duckdb" else {}
        return {"columns": list(columns), "joins": {"tags": ";"}, "delimiter": ",", **types, **self.more, **more}

    def path(self, name: str = "book") -> Path:
        if self.kind == "absolute":
            return self.folder / "else" / "where" / f"{name}-{self.run.id}.csv"
        ending = {"gzip": ".gz", "zstd": ".zst"}.get(self.more.get("compression", ""), "")
        return self.folder / "output" / self.run.id / f"{name}.{ENDINGS[self.type]}{ending}"

    def add(self, new_rows: list[dict[str, Any]], name: str = "book", job: int | None = None) -> int:
        """Commit the rows of a new job, or replace those of `job`; returns the job."""
        with self.db.transaction():
            if job is None:
                self.jobs += 1
                job = self.jobs
                self.db.execute(
                    "INSERT INTO jobs (id, run, sequence, origin, url, identity) VALUES (?, ?, 1, 'link', ?, ?)",
                    (job, self.run.seq, f"http://h/{job}", str(job).encode()),
                )
            else:
                for _, _, row in rows.delete_replaced(self.db, f"[{job}]", "[]")[0]:
                    outputs.mark_dirty(self.db, self.run.seq, name, row)
            rows.add(
                self.db, self.run.seq, [(job, NewRows(name, self.ids[name], [stored_json(row) for row in new_rows]))]
            )
        self.expected_rows[name][job] = new_rows
        return job

    def epoch(self) -> int:
        with self.db.transaction():
            return nodes.insert_appender(self.db, self.run.seq, self.supervisor, 0.0)

    def appender(self, *, draining: bool = False, db: Database | None = None, **more: Any) -> InProcessAppender:
        """A registered appender in this process."""
        epoch = self.epoch()
        db = db or connect(self.folder / CRAWL)
        with self.db.transaction():
            assert nodes.register_appender(self.db, epoch, 1, "test")
        lifeline = Lifeline()
        lifeline.draining = draining
        heartbeat = AppenderHeartbeat(self.folder / "beats" / f"a{epoch}", lifeline)
        folder = OutputDir(self.folder, self.run.id)
        if is_whole(self.type):
            more = {"chosen": WholeOutputs("rows"), "whole_every": 0.0, **more}
        loop = LoopContext(db, self.folder, self.run, epoch, heartbeat, lifeline)
        return InProcessAppender(loop, folder, more.pop("chosen", None) or BuiltInOutputs(), **more)

    def drain(self) -> None:
        """Run a new appender until it has written all rows."""
        with closing(self.appender(draining=True)) as appender:
            appender.run()
        assert not self.has_backlog()

    def has_backlog(self) -> bool:
        return outputs.find_backlog(self.db, self.run.seq, rows.last_id(self.db, self.run.seq)) is not None

    def spawn(self) -> SupervisedProcess:
        """Start an appender process."""
        arguments = {
            "data": str(self.folder), "run": self.run.seq, "epoch": self.epoch(), "supervisor": self.supervisor,
            "settings": Settings().to_json(),
        }  # fmt: skip
        return SupervisedProcess(ENTRIES["appender"], arguments, self.folder, self.folder / "appender.log")

    def log(self) -> str:
        return (self.folder / "appender.log").read_text()

    def expected(self, name: str = "book", columns: Iterable[str] = COLUMNS) -> list[str]:
        return sorted(
            repr([encoded(self.type, row.get(c)) for c in columns])
            for job_rows in self.expected_rows[name].values()
            for row in job_rows
        )

    def written(self, name: str = "book", columns: Iterable[str] = COLUMNS) -> list[str]:
        return sorted(repr(row) for row in read(self.type, self.path(name), name, list(columns)))


def book(number: int, **more: Any) -> dict[str, Any]:
    """A row with every kind of value and with characters that formats must quote or escape."""
    return {
        "title": f'Book {number}, "née" | ; \t\r\nnext line ☃ \U0001f600',
        "price": Decimal(f"{number}.50"),
        "stock": number % 2 == 0,
        "tags": ["a", f"t{number}"],
        "parts": [{"n": 1, "weight": Decimal("0.10"), "name": 'x"y'}],
        **more,
    }


def books(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [book(start + i) for i in range(count)]


def run_until_idle(appender: AppenderLoop) -> None:
    """Run turns until the appender is idle; it pauses between two rebuilds ten times what the first one took."""
    deadline = time.monotonic() + 20
    while (turn := appender.run_turn()) is not TurnResult.IDLE:
        assert time.monotonic() < deadline, "never idle"
        if turn is TurnResult.BLOCKED:
            time.sleep(0.001)


def stored_json(row: dict[str, Any]) -> str:
    """The JSON of a row as nodes store it: decimals are bare numbers with all their digits."""
    marked = json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=lambda d: f"\x01{d}\x01")
    return marked.replace('"\\u0001', "").replace('\\u0001"', "")


def encoded(type_: str, value: Any) -> Any:
    """A value as an output of this type has it."""
    if type_ in ("jsonl", "json", "parquet"):
        return value
    if type_ == "xlsx" and value in ("", []):
        return None
    if type_ == "duckdb" and not isinstance(value, list):
        return f"{value:.9f}" if isinstance(value, Decimal) else value
    if isinstance(value, list):
        if type_ == "duckdb" and (not value or isinstance(value[0], str)):
            return value
        nested = any(isinstance(item, dict) for item in value)
        return stored_json(value) if nested else ";".join(value)  # type: ignore[arg-type]
    if type_ == "xlsx":
        if not isinstance(value, Decimal):
            return value
        return float(value) if len(value.as_tuple().digits) <= 15 else str(value)
    if type_ == "sqlite":
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, Decimal):
            return float(value) if repr(float(value)) == str(value) else str(value)
        return value
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read(type_: str, path: Path, name: str, columns: list[str]) -> list[list[Any]]:
    """Every row of an output, in order; fails on a torn line, a wrong header or a wrong number of cells."""
    if type_ == "csv":
        data = read_bytes(path)
        assert data.count(codecs.BOM_UTF8) == data.startswith(codecs.BOM_UTF8)
        header, *records = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        assert header == columns
        assert all(len(row) == len(columns) for row in records)
        assert data.endswith(b"\r\n")
        return records
    if type_ == "json":
        objects = json.loads(read_bytes(path), parse_float=Decimal)
        return [[each.get(c) for c in columns] for each in objects]
    if type_ == "jsonl":
        text = read_bytes(path).decode("utf-8")
        assert text == "" or text.endswith("\n")
        lines = [json.loads(line, parse_float=Decimal) for line in text.split("\n")[:-1]]
        assert all(set(line) <= set(columns) for line in lines)
        return [[line.get(c) for c in columns] for line in lines]
    if type_ == "duckdb":
        with _open_duckdb(path) as duck:
            found = duck.execute(f'SELECT * FROM "{name}" ORDER BY 1').fetchall()
        return [[str(value) if isinstance(value, Decimal) else value for value in row[1:]] for row in found]
    if type_ == "xlsx":
        return read_sheet(path, columns)
    if type_ == "parquet":
        table = pyarrow.parquet.read_table(path)
        assert table.column_names == columns
        return [[_plain(row[c]) for c in columns] for row in table.to_pylist()]
    with closing(sqlite3.connect(path)) as db:
        return [list(row[1:]) for row in db.execute(f'SELECT * FROM "{name}" ORDER BY 1')]


def read_sheet(path: Path, columns: list[str]) -> list[list[Any]]:
    """The rows of a workbook."""
    from openpyxl import load_workbook
    from openpyxl.utils.escape import unescape

    with closing(load_workbook(path, read_only=True)) as book:
        header, *found = [list(row) for row in book.active.iter_rows(values_only=True)] or [[]]
    assert header == columns
    padded = [[*row, *[None] * (len(columns) - len(row))] for row in found]
    return [[unescape(value) if isinstance(value, str) else value for value in row] for row in padded]


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zst":
        with zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True) as reader:
            content: bytes = reader.read()
            return content
    return path.read_bytes()


def _open_duckdb(path: Path) -> Any:
    """The database, as soon as an appender process has closed it."""
    import duckdb

    deadline = time.monotonic() + 10
    while True:
        try:
            return duckdb.connect(path, config={"threads": 1})
        except duckdb.IOException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _plain(value: Any) -> Any:
    """A value of Parquet with the decimals of `book`: two places."""
    if isinstance(value, Decimal):
        return value.quantize(Decimal("0.01"))
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def wait_started(harness: Harness, epoch: int) -> bool:
    """Wait until the appender has read its outputs once."""
    beat = harness.folder / "beats" / f"a{epoch}"
    return until(lambda: (latest := read_beat(beat)) is not None and latest.state in ("READY", "DONE", "DRAINING"))


def until(condition: Any, seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def recorded(harness: Harness) -> outputs.Output:
    return outputs.list_outputs(harness.db, harness.run.seq)[0]
