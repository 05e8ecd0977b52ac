"""A node built on a real store: it registers, follows its role, leases and shuts down in order."""

import threading
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from crawl_engine.model.node import NodeState, Role
from crawl_engine.node.beat_thread import NodeBeatThread, Registration
from crawl_engine.node.build import NodeParts, build_node
from crawl_engine.node.process import NodeProcess
from crawl_engine.runtime.beat_file import read_beat
from crawl_engine.settings import Settings
from crawl_engine.store.tables.run import nodes
from tests.contract.store.harness import StoreHarness
from tests.templates import template

SETTINGS = replace(Settings(), min_free=0, grace=1.0)


def started(store: StoreHarness, role: Role = Role.RUNNER) -> int:
    """The epoch of a node that has a row and has not registered."""
    with store.db.transaction():
        return nodes.insert(store.db, store.run, store.supervisor, role, None, 0.0)[0]


def build(store: StoreHarness, role: Role = Role.RUNNER, settings: Settings = SETTINGS) -> NodeParts:
    epoch = started(store, role)
    return build_node(store.folder, run=store.run, epoch=epoch, number=7, role=role, settings=settings, link=template())


def registration_of(parts: NodeParts) -> Registration:
    return Registration(parts.node, parts.intake, parts.wakeup)


def beat_of(parts: NodeParts) -> NodeBeatThread:
    return NodeBeatThread(parts, registration_of(parts))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(("setting", "pinned"), [("auto", True), ("off", False)])
def test_the_setting_cpu_affinity_decides_on_pinning(store: StoreHarness, setting: str, pinned: bool) -> None:
    parts = build(store, settings=replace(SETTINGS, cpu_affinity=setting))
    assert (beat_of(parts)._cpu_pinner is not None) == pinned


def test_a_node_works_until_it_is_drained_and_records_its_shutdown(store: StoreHarness) -> None:
    parts = build(store)
    node = NodeProcess(parts)
    store.seed("http://127.0.0.1:9/")
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(node.run()), daemon=True)
    thread.start()
    path = store.folder / "beats" / f"n{parts.node.epoch}"
    wait_until(lambda: (beat := read_beat(path)) is not None and beat.state == "DONE")
    parts.doorbells.ring()
    wait_until(lambda: store.db.value("SELECT max(attempts) FROM jobs") == 1)
    node.drain()
    thread.join(10)
    assert codes == [0]
    assert nodes.get_state_and_role(store.db, parts.node.epoch)[0] is NodeState.SHUTDOWN
    beat = read_beat(path)
    assert beat is not None
    assert beat.state == "SHUTDOWN"


def test_a_backup_takes_jobs_once_the_supervisor_makes_it_a_runner(store: StoreHarness) -> None:
    parts = build(store, Role.BACKUP_RUNNER)
    registration = registration_of(parts)
    assert registration.register()
    registration.sync_role()
    beat = beat_of(parts)
    assert beat.state == "STANDBY"
    assert not parts.leaser.should_dequeue()
    with store.db.transaction():
        nodes.set_role(store.db, parts.node.epoch, Role.RUNNER)
    registration.sync_role()
    assert beat.state == "DONE"
    assert parts.leaser.should_dequeue()


def test_a_node_whose_epoch_is_over_is_fenced_unless_it_drains(store: StoreHarness) -> None:
    parts, fenced = build(store), []
    node = replace(parts.node, on_fenced=lambda: fenced.append(True))
    registration = Registration(node, parts.intake, threading.Event())
    assert registration.register()
    registration.sync_role()
    assert fenced == []
    with store.db.transaction():
        assert nodes.set_state(store.db, parts.node.epoch, NodeState.DEAD)
    registration.sync_role()
    assert fenced == [True]
    parts.intake.draining.set()
    registration.sync_role()
    assert fenced == [True]
    assert registration.register() is False


def test_a_thread_that_does_not_tick_stops_the_beat(store: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = build(store, settings=replace(SETTINGS, deadline=30.0))
    beat = beat_of(parts)
    beat.mark_ticked()
    now = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: now + 34.0)
    assert not beat.is_stalled
    monkeypatch.setattr("time.monotonic", lambda: now + 36.0)
    assert beat.is_stalled
    for part in (parts.committer, parts.leaser, parts.loop):
        part.ticked_at = now + 36.0
    assert not beat.is_stalled
    parts.leaser.ticked_at = now
    assert beat.is_stalled
    parts.intake.draining.set()
    assert not beat.is_stalled
