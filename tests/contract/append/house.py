"""A data dir with one run, rows to write, and appenders to write them: in this process, or real ones."""

import csv
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from engine.append.appender import AppenderLoop
from engine.append.beat_thread import AppenderHeartbeat
from engine.append.lifeline import Lifeline
from engine.append.output_dir import OutputDir
from engine.append.turns import TurnResult
from engine.model.definition import DataDef, Definitions, Field
from engine.runtime.beat_file import read_beat
from engine.settings import Settings
from engine.store.db.connector import Database, sqlite3
from engine.store.db.schema import CRAWL, migrate_databases
from engine.store.tables import nodes, outputs, rows, runs, supervisors, versions
from engine.store.tables.rows import NewRow

TYPES = ("csv", "jsonl", "sqlite")
ENDINGS = {"csv": "csv", "jsonl": "jsonl", "sqlite": "db"}
COLUMNS = ("title", "price", "stock", "tags", "parts")


class Alone(AppenderLoop):
    """One that shares a process with others: it lets go of what its process would have ended with."""

    def close(self) -> None:
        super().close()
        self._heartbeat.stop()
        self._lifeline.close()
        self._db.close()


class House:
    """`type_` is the type of every output; each dataDef has the columns `COLUMNS`."""

    def __init__(self, folder: Path, type_: str, data_defs: Iterable[str] = ("book",)) -> None:
        self.folder, self.type = folder, type_
        migrate_databases(folder)
        self.db = Database.open(folder / CRAWL)
        defs = tuple(DataDef(name=name, fields=tuple(Field(name=c) for c in COLUMNS)) for name in data_defs)
        with self.db.transaction():
            self.run = runs.create(self.db, None, 0.0)
            self.supervisor = supervisors.begin(self.db, "test", self.run.seq, 0.0)
            versions.publish(self.db, Definitions(data_defs=defs), 0.0)
            self.ids = {d.name: versions.ensure_data_def(self.db, d) for d in defs}
            self.db.execute(
                "INSERT INTO hosts (run, key, origin, delay, concurrency, robots)"
                " VALUES (?, 'h:80', 'http://h', 0, 8, 'OFF')",
                (self.run.seq,),
            )
            self.db.execute("INSERT INTO sequences (run, host, kind, grp) VALUES (?, 1, 'page', 'g')", (self.run.seq,))
        self.truth: dict[str, dict[int, list[dict[str, Any]]]] = {name: {} for name in self.ids}
        """By dataDef and job: its rows as they should stand."""
        self.jobs = 0
        for name in self.ids:
            self.declare(name)

    def declare(self, name: str, columns: Iterable[str] = COLUMNS, path: Path | None = None, **more: Any) -> None:
        settings = {"columns": list(columns), "joins": {"tags": ";"}, "delimiter": ",", **more}
        with self.db.transaction():
            outputs.ensure(
                self.db, self.run.seq, appender="rows", type_=self.type, data_def=name,
                path=str(path or self.path(name)), settings=settings,
            )  # fmt: skip

    def path(self, name: str = "book") -> Path:
        return self.folder / "output" / self.run.id / f"{name}.{ENDINGS[self.type]}"

    def add(self, made: list[dict[str, Any]], name: str = "book", job: int | None = None) -> int:
        """Commit the rows of one job, new or (re-extracted) known; returns the job."""
        with self.db.transaction():
            if job is None:
                self.jobs += 1
                job = self.jobs
                self.db.execute(
                    "INSERT INTO jobs (id, run, sequence, origin, url, identity) VALUES (?, ?, 1, 'link', ?, ?)",
                    (job, self.run.seq, f"http://h/{job}", str(job).encode()),
                )
            else:
                for row, _ in rows.delete_by_job(self.db, job):
                    outputs.mark_dirty(self.db, self.run.seq, name, row)
            rows.add(self.db, self.run.seq, [NewRow(job, self.ids[name], stored(row)) for row in made])
        self.truth[name][job] = made
        return job

    def epoch(self) -> int:
        with self.db.transaction():
            return nodes.insert_appender(self.db, self.run.seq, self.supervisor, 0.0)

    def appender(self, *, draining: bool = False, db: Database | None = None) -> AppenderLoop:
        """One in this process, registered."""
        epoch = self.epoch()
        db = db or Database.open(self.folder / CRAWL)
        with self.db.transaction():
            assert nodes.register_appender(self.db, epoch, 1, "test")
        lifeline = Lifeline()
        lifeline.draining = draining
        pulse = AppenderHeartbeat(self.folder / "beats" / f"a{epoch}", lifeline)
        with closing(OutputDir(self.folder, self.run.id)) as folder:
            return Alone(db, self.run, epoch, folder.path, pulse, lifeline)

    def drain(self) -> None:
        """A new appender writes all there is and ends."""
        with closing(self.appender(draining=True)) as appender:
            appender.run()
        assert not self.behind()

    def behind(self) -> bool:
        return outputs.has_backlog(self.db, self.run.seq, rows.last_id(self.db, self.run.seq))

    def command(self, epoch: int) -> list[str]:
        return [
            sys.executable, "-m", "engine.append", "--data", str(self.folder), "--run", str(self.run.seq),
            "--epoch", str(epoch), "--supervisor", str(self.supervisor),
        ]  # fmt: skip

    def spawn(self) -> subprocess.Popen[bytes]:
        """A real one, its stdin the lifeline."""
        with (self.folder / "appender.log").open("ab") as log:
            process = subprocess.Popen(
                self.command(self.epoch()), stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        assert process.stdin
        process.stdin.write(Settings().to_json().encode() + b"\n")
        process.stdin.flush()
        return process

    def log(self) -> str:
        return (self.folder / "appender.log").read_text()

    def expected(self, name: str = "book", columns: Iterable[str] = COLUMNS) -> list[str]:
        return sorted(
            repr([shown(self.type, row.get(c)) for c in columns]) for made in self.truth[name].values() for row in made
        )

    def found(self, name: str = "book", columns: Iterable[str] = COLUMNS) -> list[str]:
        return sorted(repr(row) for row in read(self.type, self.path(name), name, list(columns)))


def book(number: int, **more: Any) -> dict[str, Any]:
    """A row with every kind of value and every character that a format might stumble over."""
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


def settle(appender: AppenderLoop) -> None:
    """Turns until nothing is left to do; between two rebuilds the appender rests for as long as the first one took."""
    deadline = time.monotonic() + 20
    while (turn := appender.run_turn()) is not TurnResult.IDLE:
        assert time.monotonic() < deadline, "never idle"
        if turn is TurnResult.BLOCKED:
            time.sleep(0.001)


def stored(row: dict[str, Any]) -> str:
    """The JSON of a row as nodes store it: decimals are bare numbers with all their digits."""
    marked = json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=lambda d: f"\x01{d}\x01")
    return marked.replace('"\\u0001', "").replace('\\u0001"', "")


def shown(type_: str, value: Any) -> Any:
    """What stands in an output of that type for a value."""
    if type_ == "jsonl":
        return value
    if isinstance(value, list):
        nested = any(isinstance(item, dict) for item in value)
        return stored(value) if nested else ";".join(value)  # type: ignore[arg-type]
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
        with path.open(newline="", encoding="utf-8") as file:
            header, *found = list(csv.reader(file, strict=True))
        assert header == columns
        assert all(len(row) == len(columns) for row in found)
        assert path.read_bytes().endswith(b"\r\n")
        return found
    if type_ == "jsonl":
        text = path.read_bytes().decode("utf-8")
        assert text == "" or text.endswith("\n")
        lines = [json.loads(line, parse_float=Decimal) for line in text.split("\n")[:-1]]
        assert all(set(line) <= set(columns) for line in lines)
        return [[line.get(c) for c in columns] for line in lines]
    with closing(sqlite3.connect(path)) as db:
        return [list(row[1:]) for row in db.execute(f'SELECT * FROM "{name}" ORDER BY 1')]


def started(house: House, epoch: int) -> bool:
    """Wait for the appender's first look at its outputs."""
    beat = house.folder / "beats" / f"a{epoch}"
    return until(lambda: (told := read_beat(beat)) is not None and told.state in ("READY", "DONE", "DRAINING"))


def until(condition: Any, seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def recorded(house: House) -> outputs.Output:
    return outputs.list_outputs(house.db, house.run.seq)[0]
