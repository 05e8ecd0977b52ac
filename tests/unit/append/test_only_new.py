"""Which rows are new: by key or as a whole, over many runs, learned a step at a time and by several processes."""

import random
from pathlib import Path

import orjson
import pytest

from engine.append import only_new
from engine.append.only_new import SeenRows, digest
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL, migrate_databases
from engine.store.tables.rowkeys import KEYS, RowKeys


@pytest.fixture
def db(tmp_path: Path) -> Database:
    migrate_databases(tmp_path)
    db = Database.open(tmp_path / CRAWL, durable=False)
    with db.transaction():
        db.execute("INSERT INTO supervisors (identity, started_at) VALUES ('one', 1)")
        db.execute("INSERT INTO data_defs (name, hash) VALUES ('book', 'h1'), ('page', 'h2'), ('book', 'h3')")
        db.execute("PRAGMA defer_foreign_keys = 1")
    db.execute("PRAGMA foreign_keys = 0")
    return db


def written(db: Database, run: int, *rows: tuple[int, dict[str, object]]) -> None:
    with db.transaction():
        db.execute("INSERT INTO runs (seq, id, created_at) VALUES (?, ?, 1) ON CONFLICT DO NOTHING", (run, f"run{run}"))
        db.execute_values(
            "INSERT INTO rows (run, job, data_def, data) {values}", [(run, 1, d, text(r)) for d, r in rows]
        )


def text(row: dict[str, object]) -> str:
    return orjson.dumps(row).decode()


def known(db: Database, before: int, **wanted: tuple[str, ...]) -> SeenRows:
    found = SeenRows(db, RowKeys(db.path.with_name(KEYS), db), wanted, before)
    while not found.complete:
        found.step()
    return found


def new(found: SeenRows, data_def: str, *rows: dict[str, object]) -> list[dict[str, object]]:
    return [orjson.loads(row) for _, row in found.unseen(data_def, [(1000 + n, text(r)) for n, r in enumerate(rows)])]


def test_a_key_decides_else_the_whole_row(db: Database) -> None:
    written(db, 1, (1, {"sku": "a", "n": 1}), (2, {"sku": "a", "n": 1}), (3, {"sku": "b", "n": 1}))
    written(db, 2, (1, {"sku": "c", "n": 1}))
    found = known(db, 2, book=("sku",), page=())
    rows = [{"sku": sku, "n": 2} for sku in "abc"]
    assert new(found, "book", *rows) == [{"sku": "c", "n": 2}], "versions of one dataDef count as one"
    assert new(found, "page", *rows, {"sku": "a", "n": 1}) == rows
    assert new(known(db, 3, book=("sku",)), "book", *rows) == []


def test_rows_without_any_part_of_their_key_are_told_by_all_of_them(db: Database) -> None:
    written(db, 1, (1, {"a": None, "b": None, "n": 1}), (1, {"a": "x", "b": None, "n": 1}))
    found = known(db, 2, book=("a", "b"))
    assert new(found, "book", {"a": None, "b": None, "n": 2}) == [{"a": None, "b": None, "n": 2}]
    assert new(found, "book", {"a": None, "b": None, "n": 1}, {"a": "x", "b": None, "n": 9}) == []


def test_values_of_a_key_do_not_run_together() -> None:
    told = [{"a": "1", "b": "2"}, {"a": "12", "b": ""}, {"a": ["1", "2"], "b": None}, {"a": '1","2', "b": None}]
    assert len({digest(text(row), ("a", "b")) for row in told}) == 4
    assert digest('{"a":1}', ("a",)) == digest('{"a":"1"}', ("a",))
    assert digest('{"a":1.50}', ("a",)) != digest('{"a":1.5}', ("a",))


def test_steps_and_rivals_come_to_the_same(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(only_new, "STEP_ROWS", 7)
    monkeypatch.setattr(only_new, "MIN_ROWS", 2)
    monkeypatch.setattr(only_new, "STEP_CHARACTERS", 100)
    rng = random.Random(4)
    truth: dict[int, set[int]] = {}
    for run in range(1, 6):
        truth[run] = {rng.randrange(60) for _ in range(20)}
        written(db, run, *((rng.choice((1, 3)), {"sku": sku, "run": run}) for sku in sorted(truth[run])))
    pairs = [
        SeenRows(db, RowKeys(db.path.with_name(KEYS), db), {"book": ("sku",), "page": ()}, before)
        for before in (5, 3, 5, 2, 4)
    ]
    while any(not each.complete for each in pairs):
        rng.choice([each for each in pairs if not each.complete]).step()
    for each, before in zip(pairs, (5, 3, 5, 2, 4), strict=True):
        earlier = set().union(*(truth[run] for run in range(1, before)))
        found = new(each, "book", *({"sku": sku} for sku in range(60)))
        assert {row["sku"] for row in found} == set(range(60)) - earlier


def test_what_was_learned_is_kept_and_another_database_is_learned_anew(db: Database, tmp_path: Path) -> None:
    written(db, 1, (1, {"sku": "a"}))
    written(db, 2, (1, {"sku": "b"}))
    assert new(known(db, 2, book=("sku",)), "book", {"sku": "a"}) == []
    with db.transaction():
        db.execute("DELETE FROM rows WHERE run = 1")
    assert new(known(db, 2, book=("sku",)), "book", {"sku": "a"}) == [], "it was written once"
    with db.transaction():
        db.execute("UPDATE runs SET id = 'other' WHERE seq = 1")
    assert new(known(db, 2, book=("sku",)), "book", {"sku": "a"}) == [{"sku": "a"}]
    with db.transaction():
        db.execute("UPDATE supervisors SET identity = 'two'")
        db.execute('INSERT INTO rows (id, run, job, data_def, data) VALUES (1, 1, 1, 1, \'{"sku":"z"}\')')
    assert new(known(db, 2, book=("sku",)), "book", {"sku": "z"}) == []
