"""The limits of a data dir as a supervisor carries them out: in steps, within its time, and with its alarm."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_engine.model.run import Limits, RunState
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.read.history import PastRun, list_runs
from crawl_engine.store.tables.run import deleted_runs, events, runs
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions import delete_run
from crawl_engine.supervise.disk_guard import DiskGuard
from crawl_engine.supervise.retention import choice, keeper
from crawl_engine.supervise.retention.choice import measure_bytes
from crawl_engine.supervise.retention.data_limit import DataLimit
from crawl_engine.supervise.retention.keeper import Retention
from tests.contract.console.test_delete_runs import crawl
from tests.contract.store.harness import StoreHarness


@pytest.fixture
def done(tmp_path: Path) -> list[str]:
    """Three DONE runs whose pages change, the oldest first."""
    return [crawl(tmp_path, {"1": f"text {number}", "2": "same"}, at=float(number)) for number in (1, 2, 3)]


@pytest.fixture
def now(done: list[str], tmp_path: Path) -> Iterator[StoreHarness]:
    """The run at work, its number is 4."""
    store = StoreHarness(tmp_path)
    yield store
    store.close()


def work(retention: Retention) -> int:
    """Do all of it; returns how many steps it took."""
    steps = 1
    while not retention.step():
        steps += 1
    return steps


def ids(store: StoreHarness) -> list[str]:
    return runs.list_ids(store.db, 9)[:0:-1]


def told(store: StoreHarness) -> list[str]:
    return [event.text for event in store.list_events() if event.kind == "tidy"]


def retention_of(store: StoreHarness, limit: DataLimit | None = None, **settings: object) -> Retention:
    return Retention(store.context(**settings), limit)


def test_without_settings_nothing_happens(now: StoreHarness, done: list[str]) -> None:
    retention = retention_of(now)
    for begin in (lambda: retention.begin_start(is_new=True), lambda: retention.begin_end(100.0)):
        begin()
        assert work(retention) == 1
    assert (ids(now), told(now)) == (done, [])


def test_a_start_keeps_one_run_more_and_says_what_goes_at_the_end(now: StoreHarness, done: list[str]) -> None:
    retention = retention_of(now, keep_runs=2)
    retention.begin_start(is_new=True)
    work(retention)
    assert ids(now) == done[1:]
    first, second = told(now)
    assert first.startswith(f"run {done[0]} of ")
    assert first.endswith(" deleted: keep_runs is 2")
    assert second.startswith(f"run {done[1]} of ")
    assert second.endswith(" to be deleted when this run is DONE: keep_runs is 2")
    with now.db.transaction():
        runs.set_state(now.db, now.run, RunState.DRAINING)
        runs.set_state(now.db, now.run, RunState.DONE)
    retention.begin_end(1.0)
    work(retention)
    assert ids(now) == done[2:]


def test_a_resumed_run_deletes_nothing_but_finishes_what_a_kill_cut_short(now: StoreHarness, done: list[str]) -> None:
    retention = retention_of(now, keep_runs=1, keep_events=0.0, max_data=1_000_000)
    retention.begin_start(is_new=False)
    assert work(retention) == 1
    assert ids(now) == done
    delete_run.begin(now.db, 2)
    retention.begin_start(is_new=False)
    work(retention)
    assert ids(now) == [done[0], done[2]]
    assert deleted_runs.list_open(now.db) == []
    assert now.db.value("SELECT count(*) FROM rows WHERE run = 2") == 0
    assert not (now.folder / "output" / done[1]).exists()


def test_what_takes_too_long_is_left_for_the_next_time(
    now: StoreHarness, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "_START_SECONDS", 0.0)
    retention = retention_of(now, keep_runs=1)
    retention.begin_start(is_new=True)
    work(retention)
    assert ids(now) == done[1:]
    assert [run.id for run in deleted_runs.list_open(now.db)] == [done[0]]
    monkeypatch.setattr(keeper, "_START_SECONDS", 60.0)
    retention.begin_end(0.0)
    work(retention)
    assert ids(now) == done[2:]
    assert deleted_runs.list_open(now.db) == []


def test_documents_and_events_go_by_age(now: StoreHarness, done: list[str]) -> None:
    with now.db.transaction():
        events.add(now.db, 1, [Event(5.0, "INFO", "supervisor", "run", "old")])
        events.add(now.db, now.run, [Event(5.0, "INFO", "supervisor", "run", "of this run")])
        events.add(now.db, 1, [Event(time.time(), "INFO", "supervisor", "run", "new")])
    retention = retention_of(now, keep_pages=3600.0, keep_events=3600.0)
    retention.begin_end(0.0)
    work(retention)
    assert now.db.all("SELECT text FROM events WHERE kind = 'run' ORDER BY id") == [("of this run",), ("new",)]
    kept = now.db.all("SELECT run FROM documents WHERE pruned = 0 ORDER BY id")
    assert kept == [(3,), (3,)], "the newest of each URL"
    assert [text for text in told(now) if "older stored pages" in text]
    assert ids(now) == done


def test_a_failure_is_told_and_ends_it(now: StoreHarness, done: list[str]) -> None:
    (now.folder / "output" / "current").unlink()
    (now.folder / "output" / "current").symlink_to(done[0])
    (now.folder / "output" / ".current.new").mkdir()
    retention = retention_of(now, keep_runs=1)
    retention.begin_start(is_new=True)
    work(retention)
    assert told(now)[-1].startswith("old runs and pages are not deleted now: ")
    assert [run.id for run in deleted_runs.list_open(now.db)] == done[:2]


def measure(limit: DataLimit) -> str:
    limit.end_deletion()
    limit._next_at = 0.0
    while not limit.is_measured:
        limit.check()
    return limit.alarm


@pytest.mark.sqlite
def test_a_full_data_dir_loses_its_oldest_runs_while_no_job_is_leased(now: StoreHarness, done: list[str]) -> None:
    limit = DataLimit(now.folder, 1_000)
    guard = DiskGuard(now.context(min_free=0), limit)
    retention = retention_of(now, limit)
    now.seed("http://b/1")
    [job] = now.take("http://b/1")
    assert measure(limit).startswith("data directory full: ")
    assert limit.alarm.endswith("no new jobs until old runs are deleted")
    guard.check()
    guard.record()
    assert now.db.value("SELECT paused FROM runs WHERE seq = 4") == "disk"
    retention.make_room()
    assert ids(now) == done, "a job is leased"
    now.commit(now.done(job))
    for gone in (1, 2):
        assert measure(limit)
        retention.make_room()
        while limit.is_measured:
            retention.make_room()
        assert ids(now) == done[gone:]
    assert measure(limit)
    retention.make_room()
    assert ids(now) == done[2:], "the last DONE run stays"
    assert limit.dead_end == "", "not measured yet"
    limit.check()
    assert not limit.is_measured, "without a deletion it waits as usual"
    limit.max_bytes = measure_bytes(now.folder) * 2
    assert measure(limit) == ""
    guard._checked_at = guard._attempted_at = 0.0
    guard.check()
    guard.record()
    assert now.db.value("SELECT paused FROM runs WHERE seq = 4") is None
    guard.close()


def make_room(now: StoreHarness, limit: DataLimit, guard: DiskGuard, retention: Retention) -> None:
    """Tick until the run is no longer paused, or cannot go on by itself."""
    deadline = time.monotonic() + 30
    while measure(limit) or runs.get(now.db, now.run).paused:
        guard._checked_at = guard._attempted_at = 0.0
        guard.check()
        guard.record()
        if limit.dead_end:
            return
        retention.make_room()
        while limit.is_deleting:
            retention.make_room()
        assert time.monotonic() < deadline, limit.alarm


@pytest.mark.sqlite
@pytest.mark.parametrize("share", [0.02, 0.05, 0.09, 0.2, 0.5])
def test_runs_go_until_the_pause_ends_however_small_they_are(tmp_path: Path, share: float) -> None:
    size = 3_000_000
    count = int(1 / share) + 2
    done = [crawl(tmp_path, {"1": f"text {number}"}, at=float(number)) for number in range(count)]
    for run in done:
        (tmp_path / "output" / run).mkdir(parents=True, exist_ok=True)
        (tmp_path / "output" / run / "page.csv").write_bytes(bytes(int(size * share)))
    now = StoreHarness(tmp_path)
    limit = DataLimit(now.folder, size)
    guard = DiskGuard(now.context(min_free=0), limit)
    retention = retention_of(now, limit)
    assert measure(limit)
    make_room(now, limit, guard, retention)
    assert (runs.get(now.db, now.run).paused, limit.alarm, limit.dead_end) == (None, "", "")
    assert measure_bytes(now.folder) <= 0.9 * size
    assert measure_bytes(now.folder) > (0.9 - share) * size - 100_000, "and no run more than that"
    assert ids(now) == done[-len(ids(now)) :], "the oldest go"
    guard.close()
    now.close()


@pytest.mark.sqlite
def test_without_a_run_to_delete_the_limit_itself_ends_the_pause(now: StoreHarness, done: list[str]) -> None:
    for name, size in ((f"output/{done[0]}", 50_000), ("filler", 2_000_000)):
        (now.folder / name).mkdir(parents=True, exist_ok=True)
        (now.folder / name / "file").write_bytes(bytes(size))
    limit = DataLimit(now.folder, measure_bytes(now.folder) - 1)
    guard = DiskGuard(now.context(min_free=0), limit)
    assert measure(limit)
    make_room(now, limit, guard, retention_of(now, limit))
    assert measure_bytes(now.folder) > 0.9 * limit.max_bytes
    assert (ids(now), runs.get(now.db, now.run).paused) == (done[2:], None)
    guard.close()


@pytest.mark.sqlite
def test_a_limit_that_no_deletion_meets_is_a_dead_end(now: StoreHarness, done: list[str]) -> None:
    limit = DataLimit(now.folder, 1_000)
    guard = DiskGuard(now.context(min_free=0), limit)
    make_room(now, limit, guard, retention_of(now, limit))
    assert ids(now) == done[2:]
    assert guard.dead_end.startswith("data directory full: ")
    assert "no run is left to delete; raise max_data" in guard.dead_end
    guard.close()


@pytest.mark.sqlite
def test_a_run_that_cannot_be_deleted_whole_costs_no_other_run(now: StoreHarness, done: list[str]) -> None:
    limit = DataLimit(now.folder, 1_000)
    guard, retention = DiskGuard(now.context(min_free=0), limit), retention_of(now, limit)
    (now.folder / "output" / "current").unlink(missing_ok=True)
    (now.folder / "output" / "current").symlink_to(done[0])
    (now.folder / "output" / ".current.new").mkdir()
    for _ in range(3):
        assert measure(limit)
        guard._checked_at = guard._attempted_at = 0.0
        guard.check()
        guard.record()
        retention.make_room()
    assert ids(now) == done[1:]
    assert [text.partition(":")[0] for text in told(now)][1:] == ["old runs and pages are not deleted now"], "told once"
    guard.close()


@pytest.mark.sqlite
def test_no_job_is_leased_before_and_while_old_runs_are_deleted(
    now: StoreHarness, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease may name a document that no job refers to yet."""
    limit = DataLimit(now.folder, 1_000)
    guard = DiskGuard(now.context(min_free=0), limit)
    retention = retention_of(now, limit)
    assert measure(limit)
    retention.make_room()
    assert ids(now) == done, "nodes do not know of the pause yet"
    guard.check()
    guard.record()
    monkeypatch.setattr(keeper, "_STEP_SECONDS", 5e-5)
    while ids(now) == done:
        retention.make_room()
    limit.max_bytes = 10_000_000  # as if the first steps had made enough room
    assert deleted_runs.list_open(now.db)
    while deleted_runs.list_open(now.db) or runs.get(now.db, now.run).paused:
        assert runs.get(now.db, now.run).paused == "disk"
        retention.make_room()
        guard._checked_at = guard._attempted_at = limit._next_at = 0.0
        guard.check()
        guard.record()
    assert ids(now) == done[1:]
    guard.close()


def test_many_runs_are_listed_once(now: StoreHarness, done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick of the supervisor must not wait for as many lists as there are runs."""
    listed = 0

    def list_once(db: Database) -> list[PastRun]:
        nonlocal listed
        listed += 1
        return list_runs(db)

    monkeypatch.setattr(choice, "list_runs", list_once)
    chosen = choice.choose_runs(now.db, now.folder, Limits(keep=1), 0.0)
    assert [size.past.id for size in chosen] == done[:2]
    assert listed == 1


@pytest.mark.sqlite
def test_files_with_several_names_and_free_space_do_not_count(now: StoreHarness) -> None:
    before = measure_bytes(now.folder)
    (now.folder / "output" / "a").write_bytes(b"x" * 1_000)
    (now.folder / "output" / "b").hardlink_to(now.folder / "output" / "a")
    (now.folder / "output" / "link").symlink_to(now.folder / "output" / "a")
    assert measure_bytes(now.folder) in (before + 1_000, before + 2_000), "a symbolic link counts as its file"
    db = connect(now.folder / CRAWL)
    db.checkpoint(1.0)
    used = measure_bytes(now.folder)
    with db.transaction():
        db.execute("CREATE TABLE junk (data BLOB)")
        db.execute("INSERT INTO junk VALUES (zeroblob(500000))")
    db.checkpoint(1.0)
    assert measure_bytes(now.folder) > used + 400_000
    with db.transaction():
        db.execute("DROP TABLE junk")
    db.checkpoint(1.0)
    assert measure_bytes(now.folder) < used + 50_000
    db.close()
