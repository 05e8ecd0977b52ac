"""Nodes start no faster than they register: a great number of them never starts at once."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.model.node import NodeRange
from engine.processes.child import Child
from engine.runtime.beat_file import Beat, BeatWriter
from engine.settings import Settings
from engine.supervise.nodes import node_pool
from engine.supervise.nodes.node_pool import NodePool
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
        store.db, tmp_path, run=store.run, supervisor=store.supervisor, ring=lambda _: None, appender=appender,
        settings=Settings(nodes=NodeRange(10, 10), backups=1),
        spawner=cast(Any, SleepingNodes()),
    )  # fmt: skip
    yield pool
    pool.kill_all()


def beat(pool: NodePool) -> None:
    for child in pool.nodes:
        writer = BeatWriter(child.beat_path)
        writer.write(Beat(number=1, state="READY"))
        writer.close()


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
