"""Several processes on one data dir open it, lease and commit at the same time, and die with the lock."""

import multiprocessing
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.errors import StorageError
from crawl_engine.model.host import HostPolicy
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.file_header import SCHEMA_NUMBER
from crawl_engine.store.db.retry_busy import DatabaseBusy, retry_busy
from crawl_engine.store.db.schema import CRAWL, PAGES, open_databases
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.read import snapshot
from crawl_engine.store.transactions.lease import LeaseRequest, lease
from tests.contract.store.harness import Page, StoreHarness, traced

PROCESSES = 4
_spawned = multiprocessing.get_context("spawn")


def _all(work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The results of several processes, each called with its number; all must succeed."""
    answers: Any = _spawned.Queue()
    start = _spawned.Barrier(PROCESSES)
    processes = [
        _spawned.Process(target=_guarded, args=(work, answers, start, number, *arguments))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    result = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(20)
        assert process.exitcode == 0
    for answer in result:
        assert not isinstance(answer, BaseException), answer
    return result


def _guarded(work: Callable[..., Any], answers: Any, start: Any, number: int, *arguments: Any) -> None:
    try:
        start.wait(60)
        answers.put(work(number, *arguments))
    except BaseException as error:
        answers.put(RuntimeError(f"{type(error).__name__}: {error}"))


def _prepare_many(number: int, folder: Path, count: int) -> int:
    for i in range(count):
        open_databases(folder / str(i)).close()
    return number


def test_processes_that_prepare_a_data_dir_at_once_all_succeed(tmp_path: Path, settle: Callable[[Path], None]) -> None:
    for i in range(12):
        (tmp_path / str(i)).mkdir()
        settle(tmp_path / str(i))
    _all(_prepare_many, tmp_path, 12)
    for i in range(12):
        for name, table in ((CRAWL, "jobs"), (PAGES, "pages")):
            db = connect(tmp_path / str(i) / name)
            assert db.value(f"SELECT count(*) FROM {table}") == 0
            if isinstance(db, SqliteDatabase):
                assert db.value("PRAGMA user_version") == SCHEMA_NUMBER
                assert db.value("PRAGMA journal_mode") == "wal"
                assert (tmp_path / str(i) / name).stat().st_mode & 0o777 == 0o600
            db.close()


def _crawl(number: int, folder: Path, epoch: int, run: int, sequences: list[int]) -> tuple[int, int]:
    """Lease and commit until nothing is left for a while; returns pages done and slices that got some."""
    db = connect(folder / CRAWL, durable=False, busy_seconds=20)
    store = StoreHarness.__new__(StoreHarness)
    store.db, store.run, store.now, store.nodes, store.numbers = db, run, 1000.0, [epoch + number], 0
    store.book = 1
    store.places = store.new_places()
    done = slices = 0
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < 0.4:
        for sequence in sequences:
            got = retry_busy(lambda s=sequence: store.lease(s, free=16, batch=16))
            if not got.jobs:
                time.sleep(0.002)
                continue
            slices += 1
            time.sleep(0.002)  # the pages are fetched
            links = {
                job.id: [Page(f"http://h{sequence}/{int(job.url.rpartition('/')[2]) * 3 + k}") for k in range(3)]
                if job.lineage.depth < 1
                else []
                for job in got.jobs
            }
            group = [store.done(job, data=[f'"{job.id}"', '"x"'], links=links[job.id]) for job in got.jobs]
            result = store.commit(*group)
            assert result.accepted_ids == {job.id for job in got.jobs}, "a valid lease was rejected"
            done += len(group)
            idle_since = time.monotonic()
    db.close()
    return done, slices


def test_processes_that_lease_and_commit_at_once_share_the_work_and_lose_none(
    new_store: Callable[..., StoreHarness],
) -> None:
    seeds, hosts = 120, (1, 2, 3)
    wide = {f"h{h}:80": HostPolicy(0.0, 12, False) for h in hosts}
    store = new_store(nodes_=PROCESSES, slots=64, policies=wide)
    for h in hosts:
        store.seed(*[f"http://h{h}/{i}" for i in range(seeds)])
    sequences = [store.sequence(f"http://h{h}/0") for h in hosts]
    assert sequences == list(hosts)
    result = _all(_crawl, store.folder, store.nodes[0], store.run, sequences)
    # seeds 0…119 each name the pages 3i…3i+2: 0…359, of which 0…119 are seeds themselves
    expected = len(hosts) * 3 * seeds
    assert sum(done for done, _ in result) == expected
    assert all(done for done, _ in result), "one process did it all"
    assert Counter(state for _, state in store.jobs()) == {"DONE": expected}
    assert len({url for url, _ in store.jobs()}) == expected
    assert len(store.rows()) == 2 * expected
    assert Counter(job for job, _ in store.rows()) == dict.fromkeys((r[0] for r in store.jobs("id")), 2)
    assert snapshot.read(store.db).rows == {"book": 2 * expected}
    store.check_counters()
    if isinstance(store.db, SqliteDatabase):
        assert store.db.value("PRAGMA integrity_check") == "ok"


# Files that cannot be used.


@pytest.mark.sqlite
def test_a_file_that_is_no_database_is_refused_by_name_and_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / CRAWL).write_bytes(b"my poems, all of them\n" * 400)
    with pytest.raises(StorageError, match=r"crawl\.db.*not a database"):
        open_databases(tmp_path).close()
    assert (tmp_path / CRAWL).read_bytes().startswith(b"my poems")


@pytest.mark.sqlite
def test_the_check_of_a_file_that_another_process_creates_is_retried(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    open_databases(made).close()
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / CRAWL).write_bytes((made / CRAWL).read_bytes()[:4096])
    whole = threading.Timer(0.1, (folder / CRAWL).write_bytes, [(made / CRAWL).read_bytes()])
    whole.start()
    open_databases(folder).close()
    whole.join()
    db = connect(folder / CRAWL)
    assert db.value("PRAGMA user_version") == SCHEMA_NUMBER
    db.close()


def test_preparing_again_changes_nothing(store: StoreHarness) -> None:
    store.seed("http://a/1")
    open_databases(store.folder).close()
    assert store.jobs() == [("http://a/1", "READY")]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere/crawl\.db"):
        open_databases(tmp_path / "nowhere").close()


def test_a_reader_never_writes_and_never_waits(store: StoreHarness) -> None:
    reader = connect(store.folder / CRAWL, read_only=True, busy_seconds=0.05)
    refusal = DatabaseBusy if store.db.is_shared else StorageError  # a standby of PostgreSQL may become a primary
    with pytest.raises(refusal), reader.snapshot():
        reader.execute("UPDATE runs SET state = 'DONE'")
    with store.db.transaction():
        store.db.execute("UPDATE runs SET state = 'DONE'")
        assert reader.value("SELECT state FROM runs") == "READY"
    assert reader.value("SELECT state FROM runs") == "DONE"
    reader.close()


def test_an_error_inside_a_transaction_rolls_it_back(store: StoreHarness) -> None:
    with pytest.raises(ZeroDivisionError), store.db.transaction():
        store.db.execute("UPDATE runs SET state = 'DONE'")
        1 / 0  # noqa: B018
    assert store.db.value("SELECT state FROM runs") == "READY"
    with pytest.raises(StorageError), store.db.transaction():  # a write may be sent with the next statement
        store.db.execute("UPDATE runs SET state = 'ASLEEP'")
    assert store.db.value("SELECT state FROM runs") == "READY"


def test_many_rows_in_one_statement_are_returned_for_any_number(store: StoreHarness) -> None:
    for count in (0, 1, 3, 4, 15, 63, 64, 65, 149):
        with store.db.transaction():
            got = store.db.execute_values(
                "INSERT INTO meta (name, value) {values} RETURNING name", [(str(i), "") for i in range(count)]
            )
            assert [int(name) for (name,) in got] == list(range(count))
            store.db.execute("DELETE FROM meta")


@pytest.mark.sqlite
def test_a_lease_reads_and_writes_in_one_immediate_transaction(store: StoreHarness) -> None:
    store.seed("http://a/1")
    with traced(store.db) as seen:
        lease(store.db, store.run, LeaseRequest(node=store.nodes[0], lease_id=1, free_slots=1, batch=1), now=0.0)
    assert seen[0] == "BEGIN IMMEDIATE"
    assert seen[-1] == "COMMIT"
    assert sum(s.startswith("BEGIN") for s in seen) == 1
