"""Appender processes and signals."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_engine.runtime.beat_file import read_beat
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.run import nodes, supervisors
from tests.contract.append.harness import KINDS, TYPES, Harness, books, until, wait_started
from tests.process.stopwatch import Stopwatch
from tests.templates import SupervisedProcess

QUICK = ("csv.gz", "jsonl", "sqlite")
"""Of these, plain `just` kills the appender at random."""


@pytest.fixture(params=TYPES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    return Harness(tmp_path, request.param)


@pytest.fixture
def spawned(harness: Harness) -> Iterator[list[SupervisedProcess]]:
    processes: list[SupervisedProcess] = []
    yield processes
    for process in processes:
        process.kill()


@pytest.mark.parametrize(
    "harness",
    [
        *QUICK,
        *(pytest.param(kind, marks=pytest.mark.extended) for kind in TYPES if kind not in QUICK),
        *(pytest.param(kind, marks=pytest.mark.sweep) for kind in KINDS if kind not in QUICK),
    ],
    indirect=True,
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.sweep) for n in range(1, 30))])
def test_kills_at_random_moments_lose_and_double_nothing(
    harness: Harness, spawned: list[SupervisedProcess], seed: int
) -> None:
    rng = random.Random(f"{harness.kind} {seed}")
    stop = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        db, harness.db = harness.db, connect(harness.folder / CRAWL)
        try:
            jobs: list[int] = []
            while not stop.is_set():
                again = rng.choice(jobs) if jobs and rng.random() < 0.2 else None
                jobs.append(harness.add(books(rng.randrange(60), start=len(jobs)), job=again))
                time.sleep(rng.uniform(0, 0.01))
        except BaseException as error:
            errors.append(error)
        finally:
            harness.db, _ = db, harness.db.close()

    worker = threading.Thread(target=work)
    # the worker has its own connection; this thread draws epochs through another one
    own_db = connect(harness.folder / CRAWL)
    epochs = []
    for _ in range(6):
        with own_db.transaction():
            epochs.append(nodes.insert_appender(own_db, harness.run.seq, harness.supervisor, 0.0))
    harness.epoch = lambda: epochs.pop(0)  # type: ignore[method-assign]
    worker.start()
    try:
        for _ in range(5):
            process = harness.spawn()
            spawned.append(process)
            time.sleep(rng.uniform(0.3, 0.9))
            process.send_signal(signal.SIGKILL)
            process.wait()
    finally:
        stop.set()
        worker.join()
    assert not errors
    last = harness.spawn()
    spawned.append(last)
    assert wait_started(harness, 6)
    last.send_signal(signal.SIGTERM)
    assert last.wait(timeout=30) == 0, harness.log()
    assert harness.written() == harness.expected()
    assert not harness.has_backlog()
    own_db.close()


def test_a_drain_writes_everything_and_ends(harness: Harness, spawned: list[SupervisedProcess]) -> None:
    job = harness.add(books(100))
    process = harness.spawn()
    spawned.append(process)
    assert wait_started(harness, 1)
    harness.add(books(100, start=500), job=job)
    harness.add(books(2000, start=1000))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0, harness.log()
    assert harness.written() == harness.expected()
    assert not harness.has_backlog()
    beat = read_beat(harness.folder / "beats" / "a1")
    assert beat is not None
    assert beat.state == "SHUTDOWN"
    assert beat.rows >= 2100
    assert os.readlink(harness.folder / "output" / "latest") == harness.run.id


def test_the_end_of_the_lifeline_ends_the_process(harness: Harness, spawned: list[SupervisedProcess]) -> None:
    process = harness.spawn()
    spawned.append(process)
    assert wait_started(harness, 1)
    watch = Stopwatch()
    process.lifeline.close()
    assert process.wait(timeout=20) == 0
    assert watch.seconds() < 3
    harness.add(books(3))
    harness.drain()
    assert harness.written() == harness.expected()


def test_a_process_whose_epoch_is_over_ends_with_3(harness: Harness, spawned: list[SupervisedProcess]) -> None:
    with harness.db.transaction():
        supervisors.end(harness.db, harness.supervisor, 1.0)
    process = harness.spawn()
    spawned.append(process)
    assert process.wait(timeout=10) == 3
    assert "epoch is over" in harness.log()
    assert "Traceback" not in harness.log()


def test_a_new_appender_waits_for_the_end_of_the_old_one(harness: Harness, spawned: list[SupervisedProcess]) -> None:
    harness.add(books(10))
    old = harness.spawn()
    spawned.append(old)
    assert wait_started(harness, 1)
    assert until(lambda: not harness.has_backlog())  # it holds no transaction now
    old.send_signal(signal.SIGSTOP)
    new = harness.spawn()
    spawned.append(new)
    new_beat = harness.folder / "beats" / "a2"
    assert until(lambda: (beat := read_beat(new_beat)) is not None and beat.number > 3)
    beat = read_beat(new_beat)
    assert beat is not None
    assert beat.state == "STARTING"
    harness.add(books(10, start=50))
    old.send_signal(signal.SIGKILL)
    assert until(lambda: not harness.has_backlog())
    assert harness.written() == harness.expected()
    new.send_signal(signal.SIGTERM)
    assert new.wait(timeout=10) == 0
