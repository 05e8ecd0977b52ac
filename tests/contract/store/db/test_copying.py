"""A store that is copied into PostgreSQL and back is equal row by row; a copy that fails leaves nothing."""

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

from crawl_console.cli.main import main
from crawl_engine.errors import UsageError
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import connect_postgres
from crawl_engine.store.db.copying import copy_store
from crawl_engine.store.db.file_header import CRAWL, PAGES
from crawl_engine.store.db.location import Location, write_location
from crawl_engine.store.db.schema import SQL_DIR, open_databases
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.tables.run import supervisors
from crawl_engine.supervise.nodes.leftovers import keep_deadlines
from tests.postgres_server import PostgresServer

DDL = "".join((SQL_DIR / name).read_text() for name in ("schema.sql", "pages.sql"))
CHOICES = {
    (table, name): re.findall(r"'(\w+)'", words)
    for table, body in re.findall(r"CREATE TABLE (\w+) \((.*?)^\)", DDL, re.DOTALL | re.MULTILINE)
    for name, words in re.findall(r"CHECK \((\w+) IN \(('[^)]*)\)\)", body)
}
FIXED: dict[str, dict[str, Any]] = {
    "jobs": {"state": "READY", "lease": None},
    "checkpoints": {"completed": 0, "completed_at": None, "validation_status": "invalid"},
    "runs": {"state": "DONE", "stage": "INIT"},
}
VALUES: dict[str, list[Any]] = {
    "TEXT": ["", "née „q“ \\N 'x'\t\n\U0001f600", "l" * 9_000, "{}"],
    "INTEGER": [0, -1, 2**62, 7],
    "REAL": [0.1, -1e300, 5e-324, 1_764_000_000.123456],
    "BLOB": [b"", b"\0\xff", b"\x80" * 20_000, b"x"],
}
ROWS = {"rows": 2_500, "leader": 1}


def fill(folder: Path) -> None:
    """Rows of all kinds of values in each table, with triggers off."""
    open_databases(folder).close()
    for name in (CRAWL, PAGES):
        with contextlib.closing(SqliteDatabase.open(folder / name)) as db, db.transaction():
            triggers = db.all("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
            for trigger, _ in triggers:
                db.execute(f"DROP TRIGGER {trigger}")
            tables = db.all("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            for (table,) in tables:
                db.execute(f"DELETE FROM {table}")
                columns = db.all('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,))
                marks = ", ".join("?" for _ in columns)
                for number in range(ROWS.get(table, 5)):
                    row = [value_of(table, number, at, *column) for at, column in enumerate(columns)]
                    db.execute(f"INSERT INTO {table} VALUES ({marks})", row)
            for _, sql in triggers:
                db.execute(sql)
            for (table,) in db.all("SELECT name FROM sqlite_sequence"):
                db.execute("UPDATE sqlite_sequence SET seq = seq + 10 WHERE name = ?", (table,))


def value_of(table: str, number: int, at: int, column: str, kind: str, not_null: int, key: int) -> Any:
    if column in FIXED.get(table, {}):
        return FIXED[table][column]
    if (table, column) in CHOICES:
        return CHOICES[table, column][number % 2]
    if key and kind == "INTEGER":
        return number + 1
    if not (not_null or key) and (number + at) % 4 == 0:
        return None
    if column in ("absent", "run"):
        return number % 3
    value = VALUES[kind][(number + at) % 4]
    is_unique = key or column in ("id", "key", "name", "number", "identity", "grp", "data_def", "fields", "hash")
    if not is_unique:
        return value
    return {"TEXT": lambda: value + str(number), "BLOB": lambda: value + b"%d" % number}.get(kind, lambda: number)()


def dump(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in (CRAWL, PAGES):
        with contextlib.closing(SqliteDatabase.open(folder / name, read_only=True)) as db:
            for (table,) in db.all("SELECT name FROM sqlite_schema WHERE type = 'table'"):
                found[f"{name} {table}"] = sorted(map(repr, db.all(f"SELECT * FROM {table}")))
            found[f"{name} schema"] = sorted(map(repr, db.all("SELECT type, name, sql FROM sqlite_schema")))
    return found


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "filled"
    folder.mkdir()
    fill(folder)
    return folder


def test_a_copy_into_postgresql_and_back_is_equal_row_by_row(filled: Path, database: str) -> None:
    shop, back, counts = Location(database, "shop"), filled.with_name("back"), list[int]()
    before = dump(filled)
    total = copy_store(filled, shop, counts.append)
    assert (
        total
        == sum(counts)
        == sum(len(rows) for name, rows in before.items() if not name.endswith(("schema", "sequence")))
    )
    assert max(counts) <= 1_000
    assert copy_store(shop, back, counts.append) == total
    assert sorted(path.name for path in back.iterdir()) == [CRAWL, PAGES]
    after = dump(back)
    assert [name for name in before if before[name] != after[name]] == []
    assert dump(filled) == before


def test_ids_and_triggers_go_on_where_the_copy_was_made(
    filled: Path, database: str, postgres: PostgresServer
) -> None:  # fmt: skip
    copy_store(filled, Location(database, "shop"), lambda _: None)
    with contextlib.closing(connect_postgres(Location(database, "shop"), filled / CRAWL)) as db, db.transaction():
        assert db.take_ids("rows", 1) == [2_511]
        assert db.take_ids("data_defs", 1) == [6]
        db.execute("UPDATE runs SET state = 'FAILED' WHERE seq = 1")
        assert db.value("SELECT text FROM events ORDER BY id DESC LIMIT 1") == "run FAILED"
    assert postgres.execute(database, "SELECT count(*) FROM shop.events_1")[0][0] > 0


@pytest.mark.parametrize("rows", [1, 1_500])
def test_a_copy_that_fails_leaves_nothing(filled: Path, database: str, rows: int, postgres: PostgresServer) -> None:
    shop, seen = Location(database, "shop"), list[int]()

    def fail(count: int) -> None:
        seen.append(count)
        if sum(seen) >= rows:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_store(filled, shop, fail)
    assert postgres.execute(database, "SELECT to_regnamespace('shop')") == [(None,)]
    copy_store(filled, shop, lambda _: None)
    back = filled.with_name("back")
    seen.clear()
    with pytest.raises(KeyboardInterrupt):
        copy_store(shop, back, fail)
    assert list(back.iterdir()) == []
    copy_store(shop, back, lambda _: None)
    for target in (shop, back):
        with pytest.raises(UsageError, match="it has a crawl"):
            copy_store(filled, target, lambda _: None)


def test_the_rest_of_a_wait_moves_to_the_other_clock(filled: Path, database: str) -> None:
    with contextlib.closing(SqliteDatabase.open(filled / CRAWL)) as db, db.transaction():
        db.execute("UPDATE hosts SET next_at = ? WHERE id = 1", (store_time() + 100.0,))
        db.execute("UPDATE jobs SET not_before = ? WHERE id = 1", (store_time() + 200.0,))
        supervisors.record_clock(db)
    copy_store(filled, Location(database, "shop"), lambda _: None)
    with contextlib.closing(connect_postgres(Location(database, "shop"), filled / CRAWL)) as db:
        for _ in range(2):
            keep_deadlines(db)
            (now,) = db.run_native("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
            assert 99 < db.value("SELECT next_at FROM hosts WHERE id = 1") - now < 101
            assert 199 < db.value("SELECT not_before FROM jobs WHERE id = 1") - now < 201


def run_store(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["store", "copy", *words])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_the_command_says_what_it_cannot_copy(
    filled: Path, database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(filled.parent)
    (filled / "beats").mkdir()
    for words, message in (
        (("filled", database), "Name the crawl with --project"),
        ((database, database, "--project", "shop"), "two URLs"),
        (("filled", "other"), "both are SQLite files"),
        (("nothing", database, "--project", "shop"), "nothing: no run yet"),
        ((database, "other", "--project", "shop"), "(shop): no crawl"),
        (("filled", "other", "--project", "shop"), "--project is of a URL"),
        (("filled", database, "--project", "A-b"), "project cannot be 'A-b'"),
        (("filled", "postgresql://u:secret@127.0.0.1:1/x", "--project", "shop"), "Connection refused"),
    ):
        code, out, err = run_store(capsys, *words)
        assert (code, out) in ((2, ""), (3, ""))
        assert message in err
        assert "secret" not in err
    assert sorted(path.name for path in filled.parent.iterdir()) == ["filled"]
    Path("target").mkdir()
    write_location(Path("target"), Location(database, "shop"))
    code, out, err = run_store(capsys, "filled", "target")
    assert (code, out) == (0, f"{out.split()[0]} rows copied from filled to target\n")
    assert "cookies and secrets" in err
