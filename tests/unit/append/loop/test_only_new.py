"""Which rows are new: by key or as a whole, over many runs, loaded in steps and by several processes."""

import hashlib
import json
import random
from pathlib import Path

import orjson
import pytest

from crawl_engine.append.loop import only_new
from crawl_engine.append.loop.only_new import SeenRows
from crawl_engine.model.content_digest import key_digest
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.tables.row.rowkeys import KEYS, RowKeys


@pytest.fixture
def db(tmp_path: Path) -> Database:
    open_databases(tmp_path).close()
    db = connect(tmp_path / CRAWL, durable=False)
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


def load(db: Database, before: int, **key_fields: tuple[str, ...]) -> SeenRows:
    seen = SeenRows(db, RowKeys(db.path.with_name(KEYS), db), key_fields, before)
    while not seen.complete:
        seen.step()
    return seen


def new(seen: SeenRows, data_def: str, *rows: dict[str, object]) -> list[dict[str, object]]:
    return [orjson.loads(row) for _, row in seen.unseen(data_def, [(1000 + n, text(r)) for n, r in enumerate(rows)])]


def test_rows_are_compared_by_key_or_as_a_whole(db: Database) -> None:
    written(db, 1, (1, {"sku": "a", "n": 1}), (2, {"sku": "a", "n": 1}), (3, {"sku": "b", "n": 1}))
    written(db, 2, (1, {"sku": "c", "n": 1}))
    seen = load(db, 2, book=("sku",), page=())
    rows = [{"sku": sku, "n": 2} for sku in "abc"]
    assert new(seen, "book", *rows) == [{"sku": "c", "n": 2}], "versions of one dataDef count as one"
    assert new(seen, "page", *rows, {"sku": "a", "n": 1}) == rows
    assert new(load(db, 3, book=("sku",)), "book", *rows) == []


def test_rows_without_key_values_are_compared_as_a_whole(db: Database) -> None:
    written(db, 1, (1, {"a": None, "b": None, "n": 1}), (1, {"a": "x", "b": None, "n": 1}))
    seen = load(db, 2, book=("a", "b"))
    assert new(seen, "book", {"a": None, "b": None, "n": 2}) == [{"a": None, "b": None, "n": 2}]
    assert new(seen, "book", {"a": None, "b": None, "n": 1}, {"a": "x", "b": None, "n": 9}) == []


def test_key_values_are_kept_apart() -> None:
    rows = [{"a": "1", "b": "2"}, {"a": "12", "b": ""}, {"a": ["1", "2"], "b": None}, {"a": '1","2', "b": None}]
    assert len({key_digest(text(row), ("a", "b")) for row in rows}) == 4
    assert key_digest('{"a":1}', ("a",)) == key_digest('{"a":"1"}', ("a",))
    assert key_digest('{"a":1.50}', ("a",)) != key_digest('{"a":1.5}', ("a",))


def test_steps_and_concurrent_loaders_give_the_same_result(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
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
        seen = new(each, "book", *({"sku": sku} for sku in range(60)))
        assert {row["sku"] for row in seen} == set(range(60)) - earlier


def test_loaded_keys_are_kept_and_reloaded_for_another_database(db: Database, tmp_path: Path) -> None:
    written(db, 1, (1, {"sku": "a"}))
    written(db, 2, (1, {"sku": "b"}))
    assert new(load(db, 2, book=("sku",)), "book", {"sku": "a"}) == []
    with db.transaction():
        db.execute("DELETE FROM rows WHERE run = 1")
    assert new(load(db, 2, book=("sku",)), "book", {"sku": "a"}) == [], "it was written once"
    with db.transaction():
        db.execute("UPDATE runs SET id = 'other' WHERE seq = 1")
    assert new(load(db, 2, book=("sku",)), "book", {"sku": "a"}) == [{"sku": "a"}]
    with db.transaction():
        db.execute("UPDATE supervisors SET identity = 'two'")
        db.execute('INSERT INTO rows (id, run, job, data_def, data) VALUES (1, 1, 1, 1, \'{"sku":"z"}\')')
    assert new(load(db, 2, book=("sku",)), "book", {"sku": "z"}) == []


@pytest.mark.parametrize(
    "values", [["a", "b"], ['é\u2028\x00"\\/', None], [True, ["x", None]], [{"b": "1.10"}, "\ud800"], ["1.50", "😀"]]
)
def test_a_key_is_hashed_as_its_json_in_ascii(values: list[object]) -> None:
    """The keys of earlier runs are kept: the hash of a key never changes."""
    row = json.dumps(dict(zip("xy", values, strict=True)))
    key = json.dumps(values, ensure_ascii=True, separators=(",", ":"))
    assert key_digest(row, ("x", "y")) == hashlib.blake2b(key.encode(), digest_size=16).digest()
