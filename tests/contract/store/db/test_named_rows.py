"""Rows become structs by the names of their columns, checked once, with both engines."""

from typing import Literal, NamedTuple

import orjson
import pytest
from msgspec import Struct

from crawl_engine.errors import StorageError
from crawl_engine.model.job import JobState
from tests.contract.store.harness import StoreHarness


class _Place(NamedTuple):
    x: int
    y: int


class _Row(Struct, frozen=True):
    id: int
    name: str | None
    is_new: bool
    state: JobState
    tags: tuple[str, ...]
    place: _Place | None
    level: Literal["low", "high"] = "low"


class _Named(Struct, frozen=True, kw_only=True):
    id: int
    name: str = "none"


_SELECT = """
SELECT 1 AS id, 'a' AS name, 1 AS is_new, 'DONE' AS state, '["t"]' AS tags, 2 AS "place.x", 3 AS "place.y",
    'high' AS level
UNION ALL SELECT 2, NULL, 0, 'READY', '[]', NULL, NULL, 'low' ORDER BY 1
"""


def test_fields_are_filled_by_name_as_their_types_say(store: StoreHarness) -> None:
    first, second = store.db.rows(_Row, _SELECT)
    assert first == _Row(1, "a", True, JobState.DONE, ("t",), _Place(2, 3), "high")
    assert second == _Row(2, None, False, JobState.READY, (), None)
    assert store.db.row(_Row, f"SELECT * FROM ({_SELECT}) AS one WHERE id = 3") is None


def test_other_order_and_fewer_columns(store: StoreHarness) -> None:
    assert store.db.rows(_Place, "SELECT 3 AS y, 2 AS x") == [_Place(2, 3)]
    assert store.db.rows(_Named, "SELECT 'a' AS name, 7 AS id") == [_Named(id=7, name="a")]
    assert store.db.rows(_Named, "SELECT 7 AS id") == [_Named(id=7)]


def test_a_column_without_a_field_is_refused(store: StoreHarness) -> None:
    with pytest.raises(TypeError, match="_Place has no field z"):
        store.db.rows(_Place, "SELECT 2 AS x, 3 AS z")
    with pytest.raises(TypeError, match="y"):
        store.db.rows(_Place, "SELECT 2 AS x")


@pytest.mark.parametrize("tags", ['["t"', "{}", "\u00e4"])
def test_a_stored_value_that_cannot_be_read_names_its_database(store: StoreHarness, tags: str) -> None:
    select = _SELECT.partition("UNION")[0].replace('["t"]', tags)
    with pytest.raises(StorageError, match=r"crawl\.db: damaged \(a stored value cannot be read: "):
        store.db.rows(_Row, select)
    with pytest.raises(StorageError, match="damaged"):
        list(store.db.iterate(_Row, select))
    assert store.db.find_damage() == ""


def test_stored_json_that_cannot_be_read_names_its_database(store: StoreHarness) -> None:
    with (
        pytest.raises(StorageError, match=r"crawl\.db: damaged \(a stored value cannot be read: "),
        store.db.snapshot(),
    ):
        orjson.loads(store.db.value("SELECT '[1'"))
    with store.db.snapshot():
        assert orjson.loads(store.db.value("SELECT '[1]'")) == [1]
