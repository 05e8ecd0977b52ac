"""Reads one field of the rows of a dataDef over the runs, by the key of the rows."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson
from msgspec import Struct

from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.read.job_range import find_first_id

_RUNS = """
SELECT r.seq, r.id, r.created_at, r.defs_version FROM row_counts c JOIN runs r ON r.seq = c.run
WHERE c.data_def = ? AND c.rows > 0 AND r.seq >= ? ORDER BY r.seq DESC LIMIT +?
"""
_DATA_DEFS = "SELECT DISTINCT data_def FROM row_counts WHERE rows > 0 ORDER BY data_def"
_POINTS = """
SELECT
    (SELECT CAST(json_group_array(CAST(CAST(r.data AS TEXT) ->> value AS TEXT)) AS TEXT)
        FROM json_each(:key) texts) AS key,
    r.run, CAST(r.data AS TEXT) -> :field
FROM rows r JOIN data_defs d ON d.id = r.data_def
WHERE r.id >= :first AND d.name = :data_def AND r.run IN (SELECT value FROM json_each(:runs))
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:wanted) texts
        WHERE CAST(CAST(r.data AS TEXT) ->> (value ->> 0) AS TEXT) IS NOT value ->> 1)
ORDER BY key, r.run, r.id
"""
_ALL = 2**62


class SeriesRun(NamedTuple):
    """A run that has rows of a dataDef."""

    seq: int
    id: str
    created_at: float
    """Wall clock, seconds since 1970."""
    defs_version: int | None


class SeriesQuery(Struct, frozen=True, kw_only=True):
    """What to read. `field`: the names from the row down to a value; `key`: the fields that identify a row."""

    data_def: str
    field: tuple[str, ...]
    key: tuple[str, ...]
    wanted: tuple[tuple[str, str], ...] = ()
    """Fields, each with the text that it must have."""


class KeySeries(NamedTuple):
    """The values of one key. `values`: JSON by run; null where the row lacks the field."""

    key: tuple[str | None, ...]
    values: dict[int, str]


def list_data_defs(db: Database) -> list[str]:
    """The dataDefs of which any run has rows."""
    return db.column(_DATA_DEFS)


def list_series_runs(db: Database, data_def: str, *, since: int = 0, limit: int | None = None) -> list[SeriesRun]:
    """The newest runs that have rows of a dataDef, the oldest first. `since`: the first run that may be among them."""
    return db.rows(SeriesRun, _RUNS, (data_def, since, _ALL if limit is None else limit))[::-1]


def read_series(db: Database, query: SeriesQuery, runs: Sequence[SeriesRun]) -> Iterator[KeySeries]:
    """The values in these runs, ordered by key. Of several rows with a key in a run the last one counts."""
    last = int(db.value("SELECT max(id) FROM rows") or 0)
    parameters = {
        "data_def": query.data_def,
        "field": _to_path(query.field),
        "key": _to_json([_to_path((name,)) for name in query.key]),
        "wanted": _to_json([(_to_path((name,)), text) for name, text in query.wanted]),
        "runs": id_list(run.seq for run in runs),
        "first": find_first_id(db, min((run.seq for run in runs), default=0), last, table="rows"),
    }
    written, values = None, dict[int, str]()
    for key, run, value in db.execute(_POINTS, parameters):
        if key != written:
            if written is not None:
                yield KeySeries(_parse_key(written), values)
            written, values = key, {}
        values[run] = "null" if value is None else value
    if written is not None:
        yield KeySeries(_parse_key(written), values)


def _to_path(names: Sequence[str]) -> str:
    """The JSON path of a field."""
    return "$" + "".join(f".{orjson.dumps(name).decode()}" for name in names)


def _to_json(value: Sequence[str | tuple[str, str]]) -> str:
    return orjson.dumps(value).decode()


def _parse_key(text: str) -> tuple[str | None, ...]:
    return tuple(orjson.loads(text))
