"""Holds rows until their files have ended, and releases them."""

from collections.abc import Iterable, Iterator, Sequence

import orjson

from crawl_engine.model.content_digest import row_digests
from crawl_engine.model.file import fill_row
from crawl_engine.model.job import KEY_BYTES, OPEN_STATES, JobKind
from crawl_engine.model.record import as_text
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome
from crawl_engine.store.tables.row import content_sums, files, held_rows, rows
from crawl_engine.store.tables.row.content_sums import ContentSum
from crawl_engine.store.tables.row.held_rows import CompleteRow, HeldRows, NewHeldRow
from crawl_engine.store.tables.row.rows import NewRows

_BATCH = 1_000
"""Rows that are released in one piece, so that memory stays flat."""
_MAX_RELEASED = 5_000
"""Rows that one transaction releases. If more rows name a file, the rest follow at the end of the run."""


class EndedFile(Effect):
    """The job of a file has ended: rows may have waited for it."""


def settle(_: Commit, outcomes: Sequence[JobOutcome]) -> Iterable[tuple[JobOutcome, Effect]]:
    for outcome in outcomes:
        if outcome.job.kind is JobKind.FILE and outcome.state not in OPEN_STATES:
            yield outcome, EndedFile()


def write_held(commit: Commit, made: Sequence[tuple[JobOutcome, HeldRows]]) -> None:
    """After the jobs of files were created: hold the rows that name some, and release those whose files have ended.

    A row is written once, by the last of its files to end; a file that was not downloaded leaves null.
    """
    for _, held in made:
        rows.add_counts(commit.db, commit.run, held.data_def, waiting=len(held.texts))
    _release(commit.db, commit.run, held_rows.add(commit.db, commit.run, _new_rows(made))[:_MAX_RELEASED])


def write_ended(commit: Commit, made: Sequence[tuple[JobOutcome, EndedFile]]) -> None:
    """Release the rows that wait for no further file."""
    waiting = held_rows.list_waiting_for(commit.db, [outcome.job.id for outcome, _ in made])
    _release(commit.db, commit.run, waiting[:_MAX_RELEASED])


def _new_rows(made: Sequence[tuple[JobOutcome, HeldRows]]) -> Iterator[NewHeldRow]:
    """The rows to hold, one by one: a page may have very many."""
    for outcome, held in made:
        keys = held.keys or [None] * len(held.texts)
        for text, places, key in zip(held.texts, held.places, keys, strict=True):
            files = [(place, _identity(held.files, number)) for place, number in orjson.loads(places)]
            yield NewHeldRow(outcome.job.page_id, held.data_def_id, as_text(text), files, key)


def _identity(files: bytes, number: int) -> bytes:
    return files[number * KEY_BYTES : (number + 1) * KEY_BYTES]


def release_ended(db: Database, run: int) -> bool:
    """Release held rows whose files have all ended, as many as one transaction may; False: nothing was left.

    Files may end otherwise than by a commit: by an order of an operator, a change of the defs, or deaths of nodes.
    """
    ids = held_rows.list_complete_of_run(db, run, _MAX_RELEASED)
    _release(db, run, ids)
    return bool(ids)


def _release(db: Database, run: int, ids: Sequence[int]) -> None:
    for start in range(0, len(ids), _BATCH):
        complete = held_rows.list_complete(db, ids[start : start + _BATCH])
        if complete:
            _write(db, run, complete)
            held_rows.delete(db, [row.id for row in complete])


def _write(db: Database, run: int, complete: Sequence[CompleteRow]) -> None:
    """Write rows the way a commit does: with their digests, counts and sums."""
    values = files.list_values(db, {job for row in complete for _, job in row.files if job is not None})
    new, sums = list[tuple[int, NewRows]](), dict[str, ContentSum]()
    for row in complete:
        text = fill_row(row.text, {tuple(place): None if job is None else values.get(job) for place, job in row.files})
        digests = row_digests(row.data_def_name, [text])
        keys = () if row.key is None else (row.key,)
        new.append((row.job, NewRows(row.data_def_name, row.data_def, (text,), digests, keys=keys)))
    added = rows.add_first(db, run, new)
    for row, one in zip(complete, added, strict=True):
        if not one.doubles:
            sums.setdefault(row.group, ContentSum()).add_rows(one.digests, 1)
    content_sums.move(db, run, sums)
    rows.count_added(db, run, added, were_waiting=True)
