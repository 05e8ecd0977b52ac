"""Nodes start no faster than they register: a great number of them never starts at once."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from crawl_engine.model.node import NodeRange, Role
from crawl_engine.processes.child import Child
from crawl_engine.runtime.beat_file import Beat, BeatWriter, NodeBrowsers
from crawl_engine.supervise.nodes import elastic_nodes, node_pool
from crawl_engine.supervise.nodes.node_pool import NodePool
from tests.contract.store.harness import StoreHarness


class SleepingNodes:
    """Starts processes that never beat."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.failure = None

    def spawn(self, *_: object, **__: object) -> Child:
        code = "import time; time.sleep(60)"
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True)
        self.processes.append(process)
        return Child(pid=process.pid)

    def close(self) -> None: ...


@pytest.fixture
def pool(store: StoreHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodePool]:
    monkeypatch.setattr(node_pool, "usable_cpus", lambda: 2)
    (tmp_path / "beats").mkdir()
    appender: Any = SimpleNamespace(watch=lambda: None, child=None, failure=None)
    pool = NodePool(
        replace(store.context(nodes=NodeRange(10, 10), backups=1), folder=tmp_path), lambda _: None, appender,
        cast(Any, SleepingNodes()),
    )  # fmt: skip
    yield pool
    pool.kill_all()


def beat(
    pool: NodePool, number: int = 1, *, is_cpu_bound: bool = False, browsers: NodeBrowsers | None = None
) -> None:  # fmt: skip
    for child in pool.nodes:
        writer = BeatWriter(child.beat_path)
        writer.write(Beat(number=number, state="READY", is_cpu_bound=is_cpu_bound, browsers=browsers))
        writer.close()


def test_browsers_that_were_replaced_are_told_once(pool: NodePool, store: StoreHarness) -> None:
    pool.appender.record_beat = lambda: None  # type: ignore[method-assign]
    name = pool.start_node(Role.RUNNER).name

    def told(number: int, browsers: NodeBrowsers | None) -> list[tuple[str, str]]:
        beat(pool, number, browsers=browsers)
        pool.watch()
        pool.record_beats()
        return store.db.all("SELECT level, text FROM events WHERE text GLOB '*replaced:*' ORDER BY id")

    assert told(1, None) == told(2, NodeBrowsers()) == []
    worn = NodeBrowsers(replaced=1, reason="had loaded 500 pages")
    assert told(3, worn) == [("INFO", f"{name}: 1 browser replaced: had loaded 500 pages")]
    crashed = NodeBrowsers(replaced=3, reason="its process ended (signal 9)", is_fault=True)
    for number in (4, 5):
        [_, told_now] = told(number, crashed)
        assert told_now == ("WARNING", f"{name}: 2 browsers replaced: its process ended (signal 9)")


def test_a_node_starts_when_an_earlier_one_has_beaten(pool: NodePool) -> None:
    counts = []
    pool.start_missing_nodes()
    pool.start_missing_nodes()
    for _ in range(4):
        counts.append((len(pool.nodes), pool.pending_runners))
        pool.watch()
        assert len(pool.nodes) == counts[-1][0], "none has beaten"
        beat(pool)
        pool.watch()
    assert counts == [(4, 6), (8, 2), (11, 0), (11, 0)]


def test_scaling_down_cancels_starts_that_wait(pool: NodePool) -> None:
    pool.start_missing_nodes()
    assert pool.scale(NodeRange(20, 20)) == (10, 0)
    assert (len(pool.nodes), pool.pending_runners) == (4, 16)
    assert pool.scale(NodeRange(4, 4)) == (0, 16)
    assert (len(pool.nodes), pool.pending_runners) == (4, 0)


def test_nodes_that_are_bound_by_cpu_are_helped_at_the_next_tick_while_jobs_wait(
    pool: NodePool, store: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic_nodes, "usable_cpus", lambda: 2)
    pool.range = NodeRange(1, 3)
    elastic = elastic_nodes.ElasticNodes(store.context(), pool)
    pool.start_node(Role.RUNNER)

    def count_after(number: int, *, is_cpu_bound: bool) -> int:
        beat(pool, number, is_cpu_bound=is_cpu_bound)
        pool.watch()
        elastic.tick()
        return len(pool.nodes)

    assert count_after(1, is_cpu_bound=True) == 1, "no job waits"
    store.seed("http://a.test/1", "http://a.test/2")
    assert count_after(2, is_cpu_bound=False) == 1
    assert count_after(3, is_cpu_bound=True) == 2
    assert count_after(4, is_cpu_bound=True) == 2, "each CPU has a node"
    [text] = [text for (text,) in store.db.all("SELECT text FROM events WHERE text GLOB '*starts because*'")]
    assert text.endswith(" starts because jobs wait for a CPU")
