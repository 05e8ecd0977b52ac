"""Finds the run of a job and the ids of a run's jobs and rows, and scans ids in windows."""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, Protocol, TypeVar

from crawl_engine.store.db.connector import Database

_RUN_FROM = "SELECT id, run FROM {table} WHERE id >= ? ORDER BY id LIMIT 1"
_WINDOW = 20_000


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


_Row = TypeVar("_Row", bound=_Numbered)


class IdRange(NamedTuple):
    """The ids of a run's jobs or rows: from the first up to, and without, the end."""

    first: int
    end: int


def find_ids(db: Database, run: int, table: Literal["jobs", "rows"] = "jobs") -> IdRange:
    """Where the jobs or rows of a run are."""
    last = int(db.value(f"SELECT max(id) FROM {table}") or 0)
    return IdRange(*(find_first_id(db, seq, last, table=table) for seq in (run, run + 1)))


def find_first_id(db: Database, run: int, last: int, *, table: Literal["jobs", "rows"] = "jobs") -> int:
    """The first id of this run or a later one; `last`: the highest id of all."""
    sql = _RUN_FROM.format(table=table)
    low, high = 1, last + 1
    while low < high:
        middle = (low + high) // 2
        row = db.one(sql, (middle,))
        if row is None or row[1] >= run:
            high = middle
        else:
            low = row[0] + 1
    return low


def find_run(db: Database, job: int) -> int | None:
    return db.value("SELECT run FROM jobs WHERE id = ?", (job,))


def scan_ids(
    read: Callable[[int, int], list[_Row]], low: int, high: int, *, limit: int, backwards: bool,
    in_one: bool = False,
) -> Iterator[tuple[list[_Row], int]]:  # fmt: skip
    """What `read` gives of the ids from `low` to `high`, window by window, and the id that the scan has reached.

    `read` gives at most `limit` rows between two ids. `in_one`: it reads an index, and no
    windows are needed.
    """
    width = high if in_one else _WINDOW
    while low <= high:
        start, end = (max(low, high - width + 1), high) if backwards else (low, min(high, low + width - 1))
        rows = read(start, end)
        at = rows[-1].id if len(rows) == limit else start if backwards else end
        low, high = (low, at - 1) if backwards else (at + 1, high)
        yield rows, at
