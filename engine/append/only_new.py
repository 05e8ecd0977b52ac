"""What is new: rows that no earlier run of the data dir has, told by the key of their dataDef, else by the whole row.

Learning the rows of earlier runs takes a while, once: it is done a step at a time, and kept in keys.db. A row is new or
not whatever becomes of its file, so a file that is rebuilt holds the same rows.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.append.row_json import decode_as_text
from engine.append.writer import Batch
from engine.store.db.connector import Database
from engine.store.tables import rows
from engine.store.tables.outputs import Output
from engine.store.tables.rowkeys import KEYS, RowKeys

STEP_ROWS, FIRST_ROWS, MIN_ROWS = 10_000, 1_000, 16
STEP_CHARACTERS = 8_000_000
"""A step over large rows is made shorter, so that memory stays flat."""


class SeenRows:
    """The rows of all runs numbered below `before`, for some dataDefs: `wanted` has the fields of their keys."""

    def __init__(self, crawl: Database, keys: RowKeys, key_fields: Mapping[str, Sequence[str]], before: int) -> None:
        self._crawl = crawl
        self._keys = keys
        self._key_fields = {name: tuple(fields) for name, fields in key_fields.items()}
        self._before_run = before
        self._scopes: dict[str, int] = {}
        self._cursors: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._batch_limit = min(FIRST_ROWS, STEP_ROWS)
        self.complete = False
        """Whether all of them are known."""

    def step(self) -> None:
        """Learn some more rows. Raises Busy or StorageError."""
        if not self._scopes:
            for name, fields in self._key_fields.items():
                self._scopes[name], self._cursors[name] = self._keys.ensure_scope(name, json.dumps(fields))
            self._names = rows.data_def_names(self._crawl)
        start = min(self._cursors.values(), default=0)
        limit = self._batch_limit
        found = rows.list_after_in_all_runs(self._crawl, start, limit)
        earlier = [row for row in found if row[1] < self._before_run]
        if earlier:
            self._add_keys(earlier)
        behind = bool(earlier) and min(self._cursors.values()) < earlier[-1][0]  # another process learns them, too
        self.complete = len(earlier) < limit and not behind
        characters = sum(len(row[3]) for row in found)
        self._batch_limit = max(MIN_ROWS, min(STEP_ROWS, limit * STEP_CHARACTERS // max(1, characters)))

    def unseen(self, data_def: str, batch: Batch) -> list[tuple[int, str]]:
        """Those of a batch of later rows that are not known."""
        fields = self._key_fields[data_def]
        told = [(digest(row, fields), id_, row) for id_, row in batch]
        known = self._keys.find_seen(self._scopes[data_def], [each[0] for each in told], self._before_run)
        return [(id_, row) for key, id_, row in told if key not in known]

    def _add_keys(self, earlier: Sequence[tuple[int, int, int, str]]) -> None:
        last, run = earlier[-1][0], earlier[-1][1]
        for name, scope in self._scopes.items():
            cursor, fields = self._cursors[name], self._key_fields[name]
            if cursor >= last:
                continue
            first: dict[bytes, int] = {}
            for id_, of_run, data_def, row in earlier:
                if id_ > cursor and self._names.get(data_def) == name:
                    first.setdefault(digest(row, fields), of_run)
            self._cursors[name] = self._keys.add(scope, list(first.items()), after=cursor, upto=last, run=run)


class OnlyNewFilter:
    """What is new for the outputs of one run, where they ask for it; else it does nothing and costs nothing."""

    def __init__(self, crawl: Database, run: int, data: Path) -> None:
        self._crawl = crawl
        self._run = run
        self._path = data / KEYS
        self._key_fields: dict[str, list[str]] = {}
        self._keys: RowKeys | None = None
        self._seen_rows: SeenRows | None = None

    def load_step(self, declared: Sequence[Output]) -> bool:
        """Learn a step of what the outputs need to be told of; whether that is all. Raises Busy or StorageError."""
        wanted = {o.data_def: o.settings["only_new"] for o in declared if "only_new" in o.settings}
        if wanted != self._key_fields or (wanted and self._seen_rows is None):
            self._keys = self._keys or RowKeys(self._path, self._crawl)
            self._seen_rows = SeenRows(self._crawl, self._keys, wanted, self._run)
            self._key_fields = wanted
        if not wanted or self._seen_rows is None or self._seen_rows.complete:
            return True
        self._seen_rows.step()
        return False

    def filter_batch(self, output: Output, batch: Batch) -> Batch:
        """What of a batch belongs in the output's file."""
        if "only_new" not in output.settings or not batch:
            return batch
        assert self._seen_rows is not None
        return self._seen_rows.unseen(output.data_def, batch)

    def close(self) -> None:
        """Let go of keys.db."""
        if self._keys is not None:
            self._keys.close()


def digest(row: str, fields: Sequence[str]) -> bytes:
    """What tells a row from others: 16 bytes of its key; of the whole row without one, or where all of it is missing.

    A number counts as its digits: 1 is the text 1, and 1.50 is not 1.5. A field the row lacks counts as missing.
    """
    if fields:
        told = decode_as_text(row)
        values = [told.get(name) for name in fields]
        if any(value is not None for value in values):
            row = json.dumps(values, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(row.encode("utf-8", "surrogatepass"), digest_size=16).digest()
