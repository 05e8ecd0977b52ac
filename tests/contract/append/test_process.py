"""Real appender processes, and real signals."""

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.runtime.beat_file import read_beat
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL
from engine.store.tables import nodes, supervisors
from tests.contract.append.house import TYPES, House, books, started, until
from tests.process.stopwatch import Stopwatch


@pytest.fixture(params=TYPES)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, request.param)


@pytest.fixture
def spawned(house: House) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.sweep) for n in range(1, 30))])
def test_kills_at_random_moments_lose_and_double_nothing(
    house: House, spawned: list[subprocess.Popen[bytes]], seed: int
) -> None:
    dice = random.Random(f"{house.type} {seed}")
    enough = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        db, house.db = house.db, Database.open(house.folder / CRAWL)
        try:
            jobs: list[int] = []
            while not enough.is_set():
                again = dice.choice(jobs) if jobs and dice.random() < 0.2 else None
                jobs.append(house.add(books(dice.randrange(60), start=len(jobs)), job=again))
                time.sleep(dice.uniform(0, 0.01))
        except BaseException as error:
            errors.append(error)
        finally:
            house.db, _ = db, house.db.close()

    worker = threading.Thread(target=work)
    # the worker owns a connection of its own; this thread only asks for epochs, through another
    mine = Database.open(house.folder / CRAWL)
    epochs = []
    for _ in range(6):
        with mine.transaction():
            epochs.append(nodes.insert_appender(mine, house.run.seq, house.supervisor, 0.0))
    house.epoch = lambda: epochs.pop(0)  # type: ignore[method-assign]
    worker.start()
    try:
        for _ in range(5):
            process = house.spawn()
            spawned.append(process)
            time.sleep(dice.uniform(0.3, 0.9))
            process.send_signal(signal.SIGKILL)
            process.wait()
    finally:
        enough.set()
        worker.join()
    assert not errors
    last = house.spawn()
    spawned.append(last)
    assert started(house, 6)
    last.send_signal(signal.SIGTERM)
    assert last.wait(timeout=30) == 0, house.log()
    assert house.found() == house.expected()
    assert not house.behind()
    mine.close()


def test_a_drain_writes_everything_and_ends(house: House, spawned: list[subprocess.Popen[bytes]]) -> None:
    job = house.add(books(100))
    process = house.spawn()
    spawned.append(process)
    assert started(house, 1)
    house.add(books(100, start=500), job=job)
    house.add(books(2000, start=1000))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0, house.log()
    assert house.found() == house.expected()
    assert not house.behind()
    beat = read_beat(house.folder / "beats" / "a1")
    assert beat is not None
    assert beat.state == "SHUTDOWN"
    assert beat.rows >= 2100
    assert os.readlink(house.folder / "output" / "latest") == house.run.id


def test_the_end_of_the_lifeline_ends_it(house: House, spawned: list[subprocess.Popen[bytes]]) -> None:
    process = house.spawn()
    spawned.append(process)
    assert started(house, 1)
    assert process.stdin
    watch = Stopwatch()
    process.stdin.close()
    assert process.wait(timeout=20) == 0
    assert watch.seconds() < 3
    house.add(books(3))
    house.drain()
    assert house.found() == house.expected()


def test_a_process_whose_epoch_is_over_ends_with_3(house: House, spawned: list[subprocess.Popen[bytes]]) -> None:
    with house.db.transaction():
        supervisors.end(house.db, house.supervisor, 1.0)
    process = house.spawn()
    spawned.append(process)
    assert process.wait(timeout=10) == 3
    assert "epoch is over" in house.log()
    assert "Traceback" not in house.log()


def test_a_new_one_waits_until_the_old_is_gone(house: House, spawned: list[subprocess.Popen[bytes]]) -> None:
    house.add(books(10))
    old = house.spawn()
    spawned.append(old)
    assert started(house, 1)
    old.send_signal(signal.SIGSTOP)
    new = house.spawn()
    spawned.append(new)
    waits = house.folder / "beats" / "a2"
    assert until(lambda: (beat := read_beat(waits)) is not None and beat.number > 3)
    beat = read_beat(waits)
    assert beat is not None
    assert beat.state == "STARTING"
    house.add(books(10, start=50))
    old.send_signal(signal.SIGKILL)
    assert until(lambda: not house.behind())
    assert house.found() == house.expected()
    new.send_signal(signal.SIGTERM)
    assert new.wait(timeout=10) == 0
