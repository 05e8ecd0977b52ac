"""The deletion of a run: every row of every table of it goes, no other changes, from any point of a kill."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.model.content_digest import key_digest
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.postgres import PostgresDatabase
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.tables.run import deleted_runs, runs
from crawl_engine.store.transactions import delete_run
from tests.contract.store.harness import table_names

RUNS, DELETED = (1, 2, 3), 2
ROWS = 3
"""Of each run in each table that may have several."""
KEPT = {
    "def_versions", "data_defs", "page_defs",  # of all runs
    "documents", "document_aliases",  # deleted once no job refers to them: transactions.unused
    "deleted_runs", "seen_scopes", "seen_rows", "meta", "leader", "events",
}  # fmt: skip
"""Tables with rows that outlive their run, or that have no key of one."""
READ = {
    ("outputs", "settings"): "{}",
    ("runs", "rates"): '{"pages_per_s":0.0,"rows_per_s":0.0}',
    ("runs", "state"): "DONE",
    ("runs", "stage"): "SHUTDOWN_COMPLETE",
}
"""Texts that are read."""
WITHOUT_CHECKS = """
DO $$ DECLARE one record; BEGIN
    FOR one IN SELECT conrelid::regclass AS at, conname FROM pg_constraint
        WHERE contype = 'c' AND coninhcount = 0 AND connamespace = to_regnamespace('$schema')
    LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', one.at, one.conname); END LOOP;
    FOR one IN SELECT oid::regclass AS at FROM pg_class
        WHERE relkind = 'S' AND relnamespace = to_regnamespace('$schema')
    LOOP EXECUTE format('ALTER SEQUENCE %s RESTART WITH 100000', one.at); END LOOP;
END $$
"""
"""Events that triggers add have ids beyond those of the test."""
Rows = dict[str, list[tuple[Any, ...]]]


class FilledTables:
    """A database with rows of several runs in each table, whatever tables the schema has."""

    def __init__(self, folder: Path) -> None:
        open_databases(folder).close()
        self.db = connect(folder / CRAWL, durable=False)
        (folder / "model").mkdir()
        open_databases(folder / "model").close()
        self.model = connect(folder / "model" / CRAWL)
        """An empty database of SQLite, which describes its tables."""
        self.tables = table_names(self.model)
        self._made: dict[tuple[str, int], list[int]] = {}
        self._number = 0
        if isinstance(self.db, SqliteDatabase):
            self.db.execute("PRAGMA ignore_check_constraints = 1")
        with self.db.transaction():
            if isinstance(self.db, PostgresDatabase):
                self.db.run_script(WITHOUT_CHECKS.replace("$schema", self.db.schema))
            for table in ("def_versions", "data_defs"):
                self._insert(table, 0)
            for run in RUNS:
                for table in self.tables:
                    if table not in KEPT - {"events", "documents", "document_aliases"}:
                        self._insert(table, run)

    def parents(self, table: str) -> dict[str, str]:
        """By column: the table that it refers to; `run` always refers to a run."""
        declared = {row[3]: row[2] for row in self.model.all(f"PRAGMA foreign_key_list({table})")}
        columns = [row[1] for row in self.model.all(f"PRAGMA table_info({table})")]
        return {**declared, **({"run": "runs"} if "run" in columns and table != "deleted_runs" else {})}

    def _insert(self, table: str, run: int) -> None:
        parents = self.parents(table)
        columns = self.model.all(f"PRAGMA table_info({table})")
        keys = [row[1] for row in columns if row[5]]
        single = len(keys) == 1 and keys[0] not in parents
        for place in range(1 if table == "runs" else ROWS):
            self._number += 1
            values = {}
            for _, name, kind, required, _, is_key in columns:
                if name in parents:
                    owner = run if (parents[name], run) in self._made else 0
                    made = self._made.get((parents[name], owner), [])
                    if made:
                        values[name] = made[place % len(made)]
                elif single and is_key and kind == "INTEGER":
                    values[name] = run if table == "runs" else self._number
                elif required or is_key:
                    values[name] = self._value(table, name, kind)
            self._made.setdefault((table, run), []).append(values.get(keys[0], self._number) if single else 0)
            marks = ", ".join("?" * len(values))
            self.db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))

    def _value(self, table: str, name: str, kind: str) -> Any:
        if (table, name) in READ:
            return READ[table, name]
        return {"INTEGER": self._number, "REAL": float(self._number), "BLOB": b"%d" % self._number}.get(
            kind, f"text {self._number}"
        )

    def belonging(self, run: int) -> dict[str, list[str]]:
        """By table: the conditions under which a row belongs to a run, through whatever it refers to."""
        ids: dict[str, set[int]] = {"runs": {run}}
        found: dict[str, list[str]] = {}
        for table in self.tables:
            if table in KEPT - {"events"}:
                continue
            conditions = [
                f"{column} IN ({','.join(map(str, sorted(ids[parent])))})"
                for column, parent in self.parents(table).items()
                if ids.get(parent)
            ]
            if table == "runs":
                conditions = [f"seq = {run}"]
            found[table] = conditions
            keys = [row[1] for row in self.model.all(f"PRAGMA table_info({table})") if row[5]]
            if conditions and len(keys) == 1 and table != "runs":
                where = " OR ".join(conditions)
                ids[table] = {
                    row[0] for row in self.db.all(f"SELECT {keys[0]} FROM {table} WHERE {where}")
                    if isinstance(row[0], int)
                }  # fmt: skip
        return found

    def rows_of(self, run: int, *, inverted: bool = False) -> Rows:
        """By table: the rows that belong to a run, or all others."""
        rows = {}
        for table, conditions in self.belonging(run).items():
            where = " OR ".join(conditions) or "1 = 0"
            rows[table] = self.rows(table, f"NOT ({where})" if inverted else where)
        return rows

    def rows(self, table: str, where: str = "1 = 1") -> list[tuple[Any, ...]]:
        return sorted(self.db.all(f"SELECT * FROM {table} WHERE {where}"), key=repr)


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FilledTables]:
    for name, size in (("_JOBS", 2), ("_ROWS", 2), ("_LINES", 2)):
        monkeypatch.setattr(delete_run, name, size)
    filled = FilledTables(tmp_path)
    yield filled
    filled.db.close()
    filled.model.close()


def delete(db: Database, run: int, *, steps: int | None = None) -> bool:
    """Delete what is left of a run, or some steps of it; returns whether that was all."""
    for step, _ in enumerate(delete_run.delete_batches(db, run, key_digest), 1):
        if step == steps:
            return False
    delete_run.complete(db, run)
    return True


def test_every_table_of_the_schema_has_rows_of_each_run(filled: FilledTables) -> None:
    assert {table for table, rows in filled.rows_of(DELETED).items() if not rows} == set()
    unowned = {table for table, conditions in filled.belonging(DELETED).items() if not conditions}
    assert unowned == set(), "name it in KEPT, if its rows outlive their run"


def test_all_rows_of_a_run_go_and_no_other_changes(filled: FilledTables) -> None:
    others = filled.rows_of(DELETED, inverted=True)
    documents = filled.rows("documents")
    belonging = filled.belonging(DELETED)
    delete_run.begin(filled.db, DELETED)
    assert delete(filled.db, DELETED)
    left = {table: filled.rows(table, " OR ".join(conditions)) for table, conditions in belonging.items()}
    assert {table: rows for table, rows in left.items() if rows} == {}
    assert {table: filled.rows(table) for table in others} == others
    assert filled.rows("documents") == documents
    assert deleted_runs.list_open(filled.db) == []


def test_a_deletion_that_was_cut_short_anywhere_is_finished_by_the_next(filled: FilledTables) -> None:
    """Each call does one more step than the one before; a run that is half deleted is no run."""
    others = filled.rows_of(DELETED, inverted=True)
    delete_run.begin(filled.db, DELETED)
    assert [run.seq for run in deleted_runs.list_open(filled.db)] == [DELETED]
    assert runs.get_by_id(filled.db, "text 2") is None
    calls = 1
    while not delete(filled.db, DELETED, steps=1 + calls % 3):
        calls += 1
        assert runs.list_ids(filled.db, 9) != []
        assert {run for (run,) in filled.db.all("SELECT seq FROM runs")} == {1, 3}
    assert calls >= 8, "the steps of this test are too large"
    assert {table: filled.rows(table) for table in others} == others


def test_the_latest_run_that_is_deleted_is_never_resumed(filled: FilledTables) -> None:
    delete_run.begin(filled.db, 3)
    latest = runs.latest(filled.db)
    assert latest is not None
    assert latest.seq == 2
    with filled.db.transaction():
        number = runs.create(filled.db, None, 1.0).seq
        assert number == 4 or (filled.db.is_shared and number > 3), "numbers of runs are never used again"


def test_a_check_that_fails_leaves_the_run_as_it_was(filled: FilledTables) -> None:
    before = filled.rows_of(DELETED)

    def refuse() -> None:
        raise RuntimeError("it is in use")

    with pytest.raises(RuntimeError):
        delete_run.begin(filled.db, DELETED, refuse)
    assert filled.rows_of(DELETED) == before
    assert deleted_runs.list_open(filled.db) == []
