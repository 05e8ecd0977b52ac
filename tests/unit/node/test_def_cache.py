"""The cache of defs serves several threads over one connection, one thread at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from crawl_engine.model.definition import Definitions
from crawl_engine.node.def_cache import DefCache
from crawl_engine.settings import Settings
from crawl_engine.store.tables.run import versions


class SlowStore:
    """Replaces the reads of the store; fails where two threads read at once."""

    def __init__(self) -> None:
        self.reads: list[int] = []
        self._reading = threading.Lock()

    def read(self, db: Any, version: int) -> Definitions:
        assert self._reading.acquire(blocking=False), "two threads used the connection at once"
        time.sleep(0.01)
        self.reads.append(version)
        self._reading.release()
        return Definitions(base_url=f"http://a/{version}")

    def current(self, db: Any, run: int) -> int:
        return 1 if self.read(db, 0) else 0


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> SlowStore:
    store = SlowStore()
    monkeypatch.setattr(versions, "read", store.read)
    monkeypatch.setattr(versions, "current", store.current)
    return store


def test_threads_take_turns_and_each_version_is_read_once(store: SlowStore) -> None:
    db: Any = None
    cache = DefCache(db, Settings(), run=1)
    with ThreadPoolExecutor(6) as threads:
        results = list(threads.map(cache.definitions, [1, 2, 3, 1, 2, 3, 1, 2, 3]))
    assert [defs.base_url for defs in results] == [f"http://a/{version}" for version in [1, 2, 3] * 3]
    assert sorted(store.reads) == [1, 2, 3]


def test_the_current_version_is_read_in_turn_too(store: SlowStore) -> None:
    db: Any = None
    cache = DefCache(db, Settings(), run=1)
    with ThreadPoolExecutor(6) as threads:
        current = [threads.submit(cache.current) for _ in range(5)]
        version = threads.submit(cache.definitions, 2)
    assert {future.result().base_url for future in current} == {"http://a/1"}
    assert version.result().base_url == "http://a/2"
