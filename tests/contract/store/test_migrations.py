"""Migrations: older databases get the schema of new ones, completely or not at all, also after a kill and in a race."""

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StorageError
from engine.store.db import schema
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL, MIGRATIONS, PAGES, migrate_databases
from engine.store.pages import documents
from engine.store.pages.documents import PageStore
from tests.contract.store.test_processes import _all
from tests.sample import sampled

DUMPS = Path(__file__).parents[2] / "data"
NEWEST = {name: len(scripts) for name, scripts in MIGRATIONS.items()}
_forked = multiprocessing.get_context("fork")


def load(folder: Path, version: int) -> Path:
    """A data dir of an older schema."""
    folder.mkdir(exist_ok=True)
    for name in (CRAWL, PAGES):
        db = Database.open(folder / name)
        dump = (DUMPS / f"schema-{version}" / name).with_suffix(".sql").read_text("utf-8")
        with db.transaction():
            db.execute_script(dump)
        db.close()
    return folder


def shape(path: Path) -> dict[str, Any]:
    """Tables with their columns and indexes, the triggers, and the version."""
    db = Database.open(path, read_only=True)
    objects: dict[str, Any] = {"user_version": db.value("PRAGMA user_version")}
    for kind, name, sql in db.all("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE '%sqlite_%'"):
        if kind == "table":
            columns = db.all(f"PRAGMA table_xinfo({name})")
            checks = sorted(re.findall(r"CHECK \(.*", sql))
            objects[f"table {name}"] = (columns, db.all(f"PRAGMA foreign_key_list({name})"), checks, "WITHOUT" in sql)
        else:
            objects[f"{kind} {name}"] = " ".join(sql.split())
    db.close()
    return objects


def journal(path: Path) -> list[str]:
    """The steps that are recorded as applied."""
    db = Database.open(path, read_only=True)
    names = [str(name) for (name,) in db.all("SELECT name FROM _sqlite_migrations ORDER BY id")]
    db.close()
    return names


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    folder = tmp_path / "fresh"
    folder.mkdir()
    migrate_databases(folder)
    return folder


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_data_dir_gets_exactly_the_schema_of_a_new_one(tmp_path: Path, fresh: Path, version: int) -> None:
    old = load(tmp_path / "old", version)
    migrate_databases(old)
    for name in (CRAWL, PAGES):
        assert shape(old / name) == shape(fresh / name)
    db = Database.open(old / CRAWL)
    assert db.all("SELECT url, state, document FROM jobs") == [
        ("http://a/1", "READY", None), ("http://a/2", "DONE", 7),
    ]  # fmt: skip
    assert db.all("SELECT data FROM rows") == [('{"title":"A"}',)]
    assert db.one("SELECT ready, done FROM sequences") == (1, 1)
    assert documents.list_stored(db, 1, [b"\x02"], 0.0)[b"\x02"][-1].page == 7
    db.close()
    pages = PageStore(old)
    assert pages.read(7) == b"<p>two</p>"
    pages.close()


def test_the_steps_of_an_older_file_are_recorded_as_applied(tmp_path: Path) -> None:
    old = load(tmp_path / "old", 1)
    migrate_databases(old)
    assert journal(old / CRAWL) == list(MIGRATIONS[CRAWL])
    assert journal(old / PAGES) == list(MIGRATIONS[PAGES])


def test_the_next_step_finds_those_before_it_recorded(
    tmp_path: Path, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = load(tmp_path / "old", 1)
    migrate_databases(old)
    later = tmp_path / "sql"
    later.mkdir()
    for names in MIGRATIONS.values():
        for name in names:
            (later / name).write_text((schema._SQL_DIR / name).read_text())
    (later / "next.sql").write_text("CREATE TABLE later (\n    id INTEGER\n);\n")
    monkeypatch.setattr(schema, "_SQL_DIR", later)
    monkeypatch.setitem(MIGRATIONS, CRAWL, (*MIGRATIONS[CRAWL], "next.sql"))
    for folder in (old, fresh, load(tmp_path / "second", 2)):
        migrate_databases(folder)
        assert journal(folder / CRAWL) == list(MIGRATIONS[CRAWL])
        assert shape(folder / CRAWL)["user_version"] == len(MIGRATIONS[CRAWL]) == NEWEST[CRAWL] + 1


def test_a_step_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = load(tmp_path / "old", 1)
    before = shape(old / CRAWL)
    broken = tmp_path / "sql"
    broken.mkdir()
    for names in MIGRATIONS.values():
        for name in names:
            (broken / name).write_text((schema._SQL_DIR / name).read_text())
    (broken / "schema-2.sql").write_text("ALTER TABLE documents DROP COLUMN digest;\nALTER TABLE absent_table ADD x;\n")
    monkeypatch.setattr(schema, "_SQL_DIR", broken)
    with pytest.raises(StorageError, match="no such table"):
        migrate_databases(old)
    assert shape(old / CRAWL) == before


@pytest.mark.parametrize(
    ("change", "lacks"),
    [
        ("DROP TABLE samples", "the table samples"),
        ("ALTER TABLE jobs DROP COLUMN reason", "the column jobs.reason"),
        ("DROP INDEX commands_new", "the index commands_new"),
        ("DROP TRIGGER sequences_active", "the trigger sequences_active"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_file_that_lacks_a_part_of_today_is_refused_by_name(
    tmp_path: Path, version: int, change: str, lacks: str
) -> None:
    old = load(tmp_path / "old", version)
    db = Database.open(old / CRAWL)
    db.execute(change)
    db.close()
    before = shape(old / CRAWL)
    with pytest.raises(StorageError, match=rf"crawl\.db: lacks {lacks}"):
        migrate_databases(old)
    assert shape(old / CRAWL) == before


def _migrate_until(folder: Path, statements: int) -> None:
    """Migrate in a process of its own that is killed at a statement."""
    left = [statements]

    def count(_: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    open_ = Database.open

    def open_traced(path: Path, **options: Any) -> Database:
        database = open_(path, **options)
        if not options.get("immutable"):
            database._connection.set_trace_callback(count)
        return database

    Database.open = open_traced  # type: ignore[method-assign]
    migrate_databases(folder)


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.sweep)], ids="every {} statements".format)
def test_a_kill_within_a_migration_leaves_the_old_or_the_new_version(tmp_path: Path, fresh: Path, step: int) -> None:
    import sqlite_utils  # noqa: F401 - once for all the processes

    before = load(tmp_path / "old", 1)
    old, new, pages = shape(before / CRAWL), shape(fresh / CRAWL), shape(fresh / PAGES)
    ended: list[int] = []
    killed_at = 0
    while not ended or ended[-1] != new["user_version"] or killed_at:
        folder = tmp_path / f"killed{len(ended)}"
        shutil.copytree(before, folder)
        process = _forked.Process(target=_migrate_until, args=(folder, len(ended) * step + 1))
        process.start()
        process.join(30)
        left = shape(folder / CRAWL)
        assert left in (old, new)
        killed_at = process.exitcode != 0
        ended.append(left["user_version"])
        migrate_databases(folder)
        assert (shape(folder / CRAWL), shape(folder / PAGES)) == (new, pages)
    assert ended == sorted(ended), "old up to the COMMIT, new from then on"
    assert {1, NEWEST[CRAWL]} == set(ended)


def _create(folder: Path) -> None:
    folder.mkdir()
    migrate_databases(folder)


def _migrate_many(number: int, folder: Path, count: int) -> int:
    for i in range(count):
        migrate_databases(folder / str(i))
    return number


@pytest.mark.parametrize("version", sampled([1, 2], 0))
def test_processes_that_migrate_at_once_all_succeed(tmp_path: Path, fresh: Path, version: int) -> None:
    for i in range(6):
        load(tmp_path / str(i), version)
    _all(_migrate_many, tmp_path, 6)
    for i in range(6):
        for name in (CRAWL, PAGES):
            assert shape(tmp_path / str(i) / name) == shape(fresh / name)
        if version == 1:
            assert journal(tmp_path / str(i) / CRAWL) == list(MIGRATIONS[CRAWL])


@pytest.mark.parametrize(
    ("prepare", "imported"), [(lambda folder: load(folder, 1), True), (_create, False),
                              (lambda folder: folder.mkdir(), False)],
)  # fmt: skip
def test_only_an_older_file_costs_the_import(tmp_path: Path, prepare: Callable[[Path], object], imported: bool) -> None:
    folder = tmp_path / "data"
    prepare(folder)
    code = (
        "import sys; from pathlib import Path; from engine.store.db.schema import migrate_databases;"
        f"migrate_databases(Path({str(folder)!r})); print('sqlite_utils' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(imported)
