"""Appenders are killed and the server crashes while rows are written and replaced: the tables stay exact."""

import random
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.run import nodes
from tests.contract.append.harness import book, until
from tests.contract.append.send.postgres_harness import PostgresHarness
from tests.postgres_server import PostgresServer
from tests.sample import sampled
from tests.templates import SupervisedProcess


class _Writer:
    """Adds rows and replaces those of earlier jobs, in a thread, until it is stopped."""

    def __init__(self, harness: PostgresHarness, rng: random.Random, keys: int) -> None:
        self._harness, self._rng, self._keys = harness, rng, keys
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        assert self._failure is None, self._failure

    def _run(self) -> None:
        harness, rng = self._harness, self._rng
        main, harness.db = harness.db, connect(harness.folder / CRAWL)
        jobs: list[int] = []
        try:
            while not self._stopped.is_set():
                again = rng.choice(jobs) if jobs and rng.random() < 0.3 else None
                jobs.append(harness.add([book(rng.randrange(self._keys)) for _ in range(rng.randrange(30))], job=again))
                time.sleep(rng.uniform(0, 0.01))
        except BaseException as error:
            self._failure = error
        finally:
            harness.db, _ = main, harness.db.close()


def _spawn(harness: PostgresHarness, db: Database) -> SupervisedProcess:
    with db.transaction():
        epoch = nodes.insert_appender(db, harness.run.seq, harness.supervisor, 0.0)
    harness.epoch = lambda: epoch  # type: ignore[method-assign]
    return harness.spawn()


CASES = [(seed, key) for seed in range(12) for key in ((), ("title",))]


@pytest.mark.extended
@pytest.mark.sqlite
@pytest.mark.parametrize(("seed", "key"), sampled(CASES, 1))
def test_kills_and_crashes_lose_and_double_nothing(
    tmp_path: Path, database: str, postgres: PostgresServer, seed: int, key: tuple[str, ...]
) -> None:
    rng = random.Random(f"{seed} {key}")
    harness = PostgresHarness(tmp_path, database, key=key)
    with closing(connect(tmp_path / CRAWL)) as db:
        for run in range(2):
            if run:
                harness.begin_run()
            writer = _Writer(harness, rng, keys=rng.choice((20, 400)))
            try:
                for crashes in rng.sample((True, False, False), 3):
                    process = _spawn(harness, db)
                    try:
                        time.sleep(rng.uniform(0.3, 0.8))
                        if crashes:
                            postgres.stop("immediate")
                            time.sleep(rng.uniform(0, 0.3))
                            postgres.start()
                            time.sleep(rng.uniform(0, 1.5))
                    finally:
                        process.kill()
                        process.wait()
            finally:
                writer.stop()
            process = _spawn(harness, db)
            try:
                assert until(lambda: not harness.has_backlog(), 60), harness.log()
                process.send_signal(signal.SIGTERM)
                assert process.wait(timeout=30) == 0, harness.log()
            finally:
                process.kill()
            assert harness.table() == harness.current()
            assert "Traceback" not in harness.log()
