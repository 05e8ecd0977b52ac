"""The tables of a crawl in PostgreSQL: partitions of runs, and counters that change in place."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.location import Location, write_location
from crawl_engine.store.db.postgres import PostgresDatabase
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.tables.run import deleted_runs, events, samples
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.tables.run.samples import Sample

_RUN = "INSERT INTO runs (id, created_at) VALUES (?, 0) RETURNING seq"
_JOB = "INSERT INTO jobs (run, sequence, origin, url, identity) VALUES (1, ?, 'link', 'u', CAST(? AS BLOB))"
_SEQUENCE = "INSERT INTO sequences (run, host, kind, grp) VALUES (?, 1, ?, 'g') RETURNING id"
_COUNTERS = "SELECT ready, delayed, taken, done, failed FROM sequences WHERE id = ?"


@pytest.fixture
def db(database: str, tmp_path: Path) -> Iterator[PostgresDatabase]:
    write_location(tmp_path, Location(database, "shop"))
    open_databases(tmp_path).close()
    with closing(connect(tmp_path / CRAWL, busy_seconds=2)) as opened:
        assert isinstance(opened, PostgresDatabase)
        yield opened


def parts(db: PostgresDatabase) -> set[str]:
    """The partitions that have rows, and those of runs."""
    names = "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relnamespace = to_regnamespace(?)"
    return {name for (name,) in db.all(names, (db.schema,)) if not name.endswith("_other")}


def tell(db: PostgresDatabase, run: int | None, at: float) -> None:
    events.add(db, run, [Event(at, "INFO", "supervisor", "run", f"of {run} at {at}")])


def told(db: PostgresDatabase) -> list[str]:
    return [text for (text,) in db.all("SELECT text FROM events ORDER BY id")]


def test_events_and_samples_of_a_run_go_with_its_partitions(db: PostgresDatabase) -> None:
    with db.transaction():
        for id_ in "ab":
            run = db.value(_RUN, (id_,))
            tell(db, run, 1.0)
            samples.add(db, run, Sample(1.0, 0.0, 0.0, 0, 0))
        tell(db, None, 1.0)
    assert parts(db) == {"events_1", "events_2", "samples_1", "samples_2"}

    with db.transaction():
        deleted_runs.begin(db, 1, 0.0)

    assert parts(db) == {"events_2", "samples_2"}
    assert told(db) == ["of 2 at 1.0", "of None at 1.0"]
    assert not samples.list_since(db, 1, 0.0)


def test_a_run_whose_creation_fails_leaves_no_partition(db: PostgresDatabase) -> None:
    with pytest.raises(KeyError), db.transaction():
        db.value(_RUN, ("a",))
        raise KeyError
    assert not parts(db)


def test_events_that_come_before_their_run_stay_where_they_are(db: PostgresDatabase) -> None:
    with db.transaction():
        tell(db, 1, 1.0)
        db.value(_RUN, ("a",))
        tell(db, 1, 2.0)
    assert parts(db) == {"samples_1"}
    assert told(db) == ["of 1 at 1.0", "of 1 at 2.0"]


def test_old_events_go_with_their_partition_or_alone(db: PostgresDatabase) -> None:
    with db.transaction():
        for id_ in "abc":
            db.value(_RUN, (id_,))
        for run, at in ((1, 1.0), (2, 1.0), (2, 9.0), (3, 1.0), (None, 1.0), (None, 9.0)):
            tell(db, run, at)

    while events.delete_old(db, 5.0, except_run=3, limit=1):
        pass

    assert told(db) == ["of 2 at 9.0", "of 3 at 1.0", "of None at 9.0"]
    with db.transaction():
        tell(db, 1, 10.0)
    assert told(db)[-1] == "of 1 at 10.0"
    assert {"events_1", "events_2", "events_3"} <= parts(db)


def test_counters_follow_the_jobs_of_each_statement(db: PostgresDatabase) -> None:
    with db.transaction():
        db.value(_RUN, ("a",))
        page, other, extract = (db.value(_SEQUENCE, (1, kind)) for kind in ("page", "file", "extract"))
        for number, sequence in enumerate((page, page, other, extract)):
            db.execute(_JOB, (sequence, str(number)))
    active = "SELECT active_sequences FROM runs"
    failures = "SELECT sequence, reason, jobs FROM failures ORDER BY sequence"
    assert db.value(active) == 2  # not that of extractions
    with db.transaction():
        db.execute("UPDATE jobs SET state = 'TAKEN', lease = 1 WHERE id <= 3")
        db.execute("UPDATE jobs SET state = 'FAILED', lease = NULL, reason = 'x' WHERE id <= 3")
        db.execute("UPDATE jobs SET carried = 'x'")
    assert (db.one(_COUNTERS, (page,)), db.one(_COUNTERS, (other,))) == ((0, 0, 0, 0, 2), (0, 0, 0, 0, 1))
    assert (db.value(active), db.all(failures)) == (0, [(page, "x", 2), (other, "x", 1)])
    with db.transaction():
        db.execute("UPDATE jobs SET state = 'READY', not_before = 9, reason = NULL WHERE id = 1")
        db.execute("UPDATE jobs SET sequence = ? WHERE id = 2", (other,))
        db.execute("DELETE FROM jobs WHERE id = 3")
    assert (db.one(_COUNTERS, (page,)), db.one(_COUNTERS, (other,))) == ((0, 1, 0, 0, 0), (0, 0, 0, 0, 1))
    assert (db.value(active), db.all(failures)) == (0, [(other, "x", 1)])
    with db.transaction():  # counted again, as after a repair
        db.execute("UPDATE sequences SET ready = 5 WHERE id <> ?", (other,))
    assert db.value(active) == 1


def test_counters_change_in_place(db: PostgresDatabase) -> None:
    """A new version of a row needs no entry in an index (HOT): its indexes do not grow with the pages of the crawl."""
    with db.transaction():
        db.value(_RUN, ("a",))
        sequence = db.value(_SEQUENCE, (1, "page"))
    with db.transaction():
        for number in range(20):
            db.execute(_JOB, (sequence, str(number)))
        counts = "SELECT pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c) FROM "
        updated, in_place = db.one(f"{counts} to_regclass(?) AS c", (f"{db.schema}.sequences",)) or (0, 0)
    assert (updated, in_place) == (20, 20)
