"""A data dir of an older format is migrated in one transaction, or read by a migrated copy."""

import contextlib
import fcntl
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from crawl_console.cli.main import crawl_console
from crawl_engine.errors import StorageError
from crawl_engine.store.db import migrate
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.file_header import LOCK_NAME, OLDEST_NUMBER, SCHEMA_NUMBER, OtherDatabase
from crawl_engine.store.db.schema import CRAWL, PAGES, open_databases
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.run import runs
from tests.process.test_data_dir import file_states

pytestmark = pytest.mark.sqlite
DUMPS = Path(__file__).parents[3] / "data" / f"format_{OLDEST_NUMBER}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data dir of a complete crawl of format 28."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    for name in (CRAWL, PAGES):
        with closing(sqlite3.connect(data / name)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            text = (DUMPS / name.replace(".db", ".sql")).read_text("utf-8")
            db.executescript(text.replace("/srv/shop/data", str(data)))
    return data


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a data dir, as a supervisor of the older version does."""
    with (folder / LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def number_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def describe(path: Path) -> dict[str, object]:
    """What a database has, without the order of columns and of constraints, and without comments."""
    with closing(sqlite3.connect(path)) as db:
        entries = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        tables = [name for kind, name, _ in entries if kind == "table"]
        found: dict[str, object] = {}
        for name in tables:
            columns = db.execute(f"PRAGMA table_xinfo({name})").fetchall()
            found[f"{name} columns"] = sorted(column[1:] for column in columns)
    for kind, name, sql in entries:
        plain = re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", sql)).replace(f'"{name}"', name)
        found[f"{kind} {name}"] = (
            sorted(split_parts(plain)) if kind == "table" else re.sub(r" ?([(),]) ?", r"\1", plain)
        )
    return found


def split_parts(sql: str) -> list[str]:
    """The columns and constraints of a CREATE TABLE statement."""
    parts, depth, head, start = [], 0, sql.index("("), sql.index("(") + 1
    for place in range(head, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[place], 0)
        if (sql[place] == "," and depth == 1) or (sql[place] == ")" and not depth):
            parts.append(sql[start:place].strip())
            start = place + 1
    return [*parts, sql[start:].strip()]


def test_a_migrated_data_dir_has_the_schema_of_a_new_one_and_keeps_its_rows(folder: Path, tmp_path: Path) -> None:
    assert number_of(folder / CRAWL) == number_of(folder / PAGES) == OLDEST_NUMBER < SCHEMA_NUMBER
    new = tmp_path / "new"
    new.mkdir()
    open_databases(new).close()
    with closing(open_databases(folder)) as db:
        run = runs.latest(db)
        assert run is not None
        assert (run.id, run.state, db.value("SELECT count(*) FROM rows")) == ("ba7aa7", "DONE", 2)
        with closing(PageStore.open_read_only(folder)) as pages:
            assert pages.read(1).startswith(b"<html><head><title>Shop")  # type: ignore[union-attr]
    for name in (CRAWL, PAGES):
        assert number_of(folder / name) == SCHEMA_NUMBER
        assert (folder / name).read_bytes()[60:64] == SCHEMA_NUMBER.to_bytes(4), "the file itself tells it"
        assert describe(folder / name) == describe(new / name)


REASONS = {
    "its group is not in the defs": "group",
    "maxPages 3 of g reached": "limit",
    "address 10.0.0.1 of x is private; to allow it: …": "address",
    "robots.txt disallows it (/a)": "robots",
    "its canonical URL is http://x/": "canonical",
    "HTTP 404 (gone)": "no-page",
    "not a page: image/png": "no-page",
    "excluded by an operator: url:x": None,
}


def test_the_reasons_of_older_jobs_get_their_codes(folder: Path) -> None:
    with closing(sqlite3.connect(folder / CRAWL)) as db, db:
        ids = [number for (number,) in db.execute("SELECT id FROM jobs WHERE state <> 'TAKEN'")]
        copy = (
            "INSERT INTO jobs (run, sequence, state, origin, url, identity, reason) SELECT run, sequence, ?, origin, "
        )
        for number, reason in enumerate(REASONS):
            for state in ("SKIPPED", "FAILED"):
                key = f"{state} {number}".encode()
                db.execute(f"{copy} url, ?, ? FROM jobs WHERE id = ?", (state, key, reason, ids[0]))
    with closing(open_databases(folder)) as db:
        codes = "SELECT reason, reason_code FROM jobs WHERE state = ? AND reason IS NOT NULL"
        assert set(REASONS.items()) <= set(db.all(codes, ("SKIPPED",)))
        assert {code for _, code in db.all(codes, ("FAILED",))} == {"robots", None}


def test_a_migration_that_dies_leaves_the_older_format(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "read_script", lambda *_: "CREATE TABLE half (x);\nSELECT x.y;\n")
        with pytest.raises(StorageError, match="no such column"):
            open_databases(folder)
    assert number_of(folder / CRAWL) == OLDEST_NUMBER
    assert "table half" not in describe(folder / CRAWL)
    open_databases(folder).close()
    assert number_of(folder / CRAWL) == SCHEMA_NUMBER


def look(folder: Path, *arguments: str) -> str:
    done = CliRunner().invoke(crawl_console, [*arguments, "--data", str(folder)], standalone_mode=False)
    assert not done.exit_code and not done.return_value, (arguments, done.output)
    return done.stdout


def check_lookers(folder: Path) -> None:
    """Whether the commands that look read what the crawl of the older version left."""
    assert json.loads(look(folder, "status", "--json"))["rows"] == {"product": 2}
    assert look(folder, "export", "product", "--format", "csv").splitlines()[1].startswith("one,")
    assert "ba7aa7" in look(folder, "runs")
    assert json.loads(look(folder, "query", "SELECT count(*) AS n FROM jobs", "--json")) == [{"n": 4}]
    assert "<h1>one" in look(folder, "query", "SELECT body(id) AS body FROM documents WHERE id = 2", "--json")
    assert "gone.html" in look(folder, "jobs", "--state", "skipped")
    assert "started" in look(folder, "events")
    assert "one.html" in look(folder, "pages", "list")


def test_lookers_migrate_a_data_dir_that_nobody_holds(folder: Path) -> None:
    check_lookers(folder)
    assert number_of(folder / CRAWL) == SCHEMA_NUMBER


def test_lookers_read_a_copy_of_a_data_dir_that_an_older_supervisor_holds(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read, newer = migrate.read_script, {CRAWL: "CREATE TABLE newer (x);\n"}
    monkeypatch.setattr(migrate, "read_script", lambda name, number: read(name, number) + newer.get(name, ""))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    others = set(tmp_path.iterdir())
    with held(folder):
        before = file_states(folder)
        check_lookers(folder)
        assert {name: state for name, state in file_states(folder).items() if name in before} == before
        with closing(connect(folder / CRAWL, read_only=True)) as db:
            assert db.file != db.path == folder / CRAWL
            assert db.value("SELECT count(*) FROM newer") == 0
            assert db.file.stat().st_mode & 0o777 == 0o600
        with pytest.raises(OtherDatabase, match="a supervisor of an older version"):
            connect(folder / CRAWL)
    assert set(tmp_path.iterdir()) == others, "no copy is left"
    assert number_of(folder / CRAWL) == OLDEST_NUMBER


def test_a_reader_that_delays_the_checkpoint_makes_nobody_migrate_again(folder: Path) -> None:
    with closing(SqliteDatabase.open(folder / CRAWL)) as writer:
        writer.execute("CREATE TABLE later (x)")
        with closing(SqliteDatabase.open(folder / CRAWL, read_only=True)) as reader, reader.snapshot():
            reader.value("SELECT count(*) FROM jobs")
            open_databases(folder).close()
            assert (folder / CRAWL).read_bytes()[60:64] == OLDEST_NUMBER.to_bytes(4)
            with held(folder), closing(connect(folder / CRAWL)) as db:
                assert db.file == db.path
                assert db.value("PRAGMA user_version") == SCHEMA_NUMBER
