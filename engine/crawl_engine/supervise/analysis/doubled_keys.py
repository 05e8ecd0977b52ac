"""Warns of keys that several rows of a run have, where the dataDef does not say `unique`."""

from crawl_engine.errors import plural
from crawl_engine.model.content_digest import key_digest
from crawl_engine.model.definition import DataDef
from crawl_engine.model.record import PageWarning
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.row import health, rows
from crawl_engine.store.tables.run import versions

_MAX_ROWS, _MAX_CHARACTERS, _BATCH = 10_000, 20_000_000, 500
"""Of the rows that are read: the end of a run must not wait for all of them."""


def warn_of_doubled_keys(db: Database, run: int) -> None:
    """Record a warning for each dataDef whose first rows have doubles of its key, in the open transaction."""
    keyed = [d for d in versions.read(db, versions.current(db, run)).data_defs if d.key and not d.unique]
    present = health.read(db, run) if keyed else {}
    for data_def in keyed:
        doubles, read, is_all = _count_doubles(db, run, data_def)
        if not doubles or data_def.name not in present:
            continue
        of = plural(read, "row") if is_all else f"the first {read:,} rows"
        key = ", ".join(data_def.key)
        text = f"{data_def.name}: {doubles:,} of {of} have the key ({key}) of an earlier row; `unique: true` leaves one"
        health.add_warning(db, run, present[data_def.name].id, PageWarning(data_def.name, "", "doubled-key", text))


def _count_doubles(db: Database, run: int, data_def: DataDef) -> tuple[int, int, bool]:
    """How many rows have the key of an earlier one, of how many, and whether these are all."""
    seen, read, characters, after = set[bytes](), 0, 0, 0
    while read < _MAX_ROWS and characters < _MAX_CHARACTERS:
        batch = rows.list_by_data_def(db, run, data_def.name, after, _BATCH)
        if not batch:
            return read - len(seen), read, True
        seen.update(key_digest(text, data_def.key) for _, text in batch)
        read, characters, after = read + len(batch), characters + sum(len(text) for _, text in batch), batch[-1][0]
    return read - len(seen), read, False
