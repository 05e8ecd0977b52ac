"""Filters out rows that an earlier run has, by the key of their dataDef, else by the whole row.

The keys of earlier rows are loaded once, in steps, and kept in keys.db; those of deleted runs are in crawl.db. Whether
a row is new does not depend on its file, so a rebuilt file holds the same rows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from crawl_engine.append.formats.writer import Batch
from crawl_engine.model.content_digest import key_digest
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.output.outputs import Output
from crawl_engine.store.tables.row import rows, seen_rows
from crawl_engine.store.tables.row.rowkeys import KEYS, RowKeys

STEP_ROWS, FIRST_ROWS, MIN_ROWS = 10_000, 1_000, 16
STEP_CHARACTERS = 8_000_000
"""Steps over large rows are shorter, so that memory stays flat."""


class SeenRows:
    """The rows of all runs numbered below `before`, by dataDef; `key_fields` has the fields of their keys."""

    def __init__(self, crawl: Database, keys: RowKeys, key_fields: Mapping[str, Sequence[str]], before: int) -> None:
        self._crawl = crawl
        self._keys = keys
        self._key_fields = {name: tuple(fields) for name, fields in key_fields.items()}
        self._before_run = before
        self._scopes: dict[str, int] = {}
        self._cursors: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._earlier: dict[str, bool] = {}
        self._batch_limit = min(FIRST_ROWS, STEP_ROWS)
        self.complete = False
        """Whether all earlier rows are loaded."""

    def step(self) -> None:
        """Load some more rows. Raises DatabaseBusy or StorageError."""
        if not self._scopes:
            for name, fields in self._key_fields.items():
                self._scopes[name], self._cursors[name] = self._keys.ensure_scope(name, seen_rows.encode_fields(fields))
            self._names = rows.data_def_names(self._crawl)
        start = min(self._cursors.values(), default=0)
        limit = self._batch_limit
        page = rows.list_after_in_all_runs(self._crawl, start, limit)
        earlier = [row for row in page if row[1] < self._before_run]
        if earlier:
            self._add_keys(earlier)
        behind = bool(earlier) and min(self._cursors.values()) < earlier[-1][0]  # another process loads them, too
        self.complete = len(earlier) < limit and not behind
        characters = sum(len(row[3]) for row in page)
        self._batch_limit = max(MIN_ROWS, min(STEP_ROWS, limit * STEP_CHARACTERS // max(1, characters)))

    def unseen(self, data_def: str, batch: Batch) -> Batch:
        """The rows of a later batch that no earlier run has. Call it once all of these are loaded."""
        if not self._has_earlier(data_def):
            return batch
        fields = self._key_fields[data_def]
        keyed = [(key_digest(row, fields), id_, row) for id_, row in batch]
        digests = [key for key, _, _ in keyed]
        seen = self._keys.find_seen(self._scopes[data_def], digests, self._before_run)
        seen |= seen_rows.find(self._crawl, data_def, fields, digests, self._before_run)
        return [(id_, row) for key, id_, row in keyed if key not in seen]

    def _has_earlier(self, data_def: str) -> bool:
        """Whether an earlier run has a row of the dataDef: a first run has no earlier rows."""
        if data_def not in self._earlier:
            fields = self._key_fields[data_def]
            self._earlier[data_def] = self._keys.has_earlier(
                self._scopes[data_def], self._before_run
            ) or seen_rows.has_earlier(self._crawl, data_def, fields, self._before_run)
        return self._earlier[data_def]

    def _add_keys(self, earlier: Sequence[tuple[int, int, int, str]]) -> None:
        last, run = earlier[-1][0], earlier[-1][1]
        for name, scope in self._scopes.items():
            cursor, fields = self._cursors[name], self._key_fields[name]
            if cursor >= last:
                continue
            first: dict[bytes, int] = {}
            for id_, of_run, data_def, row in earlier:
                if id_ > cursor and self._names.get(data_def) == name:
                    first.setdefault(key_digest(row, fields), of_run)
            self._cursors[name] = self._keys.add(scope, list(first.items()), after=cursor, upto=last, run=run)


class OnlyNewFilter:
    """Filters the rows of outputs with the setting `only_new`; all other outputs get every row."""

    def __init__(self, crawl: Database, run: int, data: Path) -> None:
        self._crawl = crawl
        self._run = run
        self._path = data / KEYS
        self._key_fields: dict[str, list[str]] = {}
        self._keys: RowKeys | None = None
        self._seen_rows: SeenRows | None = None

    def load_step(self, declared: Sequence[Output]) -> bool:
        """Load one step of earlier rows; returns whether all are loaded. Raises DatabaseBusy or StorageError."""
        key_fields = {o.data_def: o.settings["only_new"] for o in declared if "only_new" in o.settings}
        if key_fields != self._key_fields or (key_fields and self._seen_rows is None):
            self._keys = self._keys or RowKeys(self._path, self._crawl)
            self._seen_rows = SeenRows(self._crawl, self._keys, key_fields, self._run)
            self._key_fields = key_fields
        if not key_fields or self._seen_rows is None or self._seen_rows.complete:
            return True
        self._seen_rows.step()
        return False

    def filter_batch(self, output: Output, batch: Batch) -> Batch:
        """The rows of a batch that belong in the output's file."""
        if "only_new" not in output.settings or not batch:
            return batch
        assert self._seen_rows is not None
        return self._seen_rows.unseen(output.data_def, batch)

    def close(self) -> None:
        """Close keys.db."""
        if self._keys is not None:
            self._keys.close()
