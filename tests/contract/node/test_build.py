"""A node built on a real store: it registers, follows its role, leases and shuts down in order."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.model.node import NodeState, Role
from engine.node.build import NodeParts, build_node
from engine.node.process import NodeProcess
from engine.node.registration import Registration
from engine.runtime.beat_file import read_beat
from engine.settings import Settings
from engine.store.tables import nodes
from tests.contract.store.house import House

SETTINGS = replace(Settings(), min_free=0, grace=1.0, nodes=1)


def started(house: House, role: Role = Role.RUNNER) -> int:
    """The epoch of a node that has a row and has not registered."""
    with house.db.transaction():
        return nodes.insert(house.db, house.run, house.supervisor, role, None, 0.0)[0]


def build(house: House, role: Role = Role.RUNNER, settings: Settings = SETTINGS) -> NodeParts:
    epoch = started(house, role)
    return build_node(house.folder, run=house.run, epoch=epoch, number=7, role=role, settings=settings)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(("setting", "pinned"), [("auto", True), ("off", False)])
def test_the_setting_cpu_affinity_decides_on_pinning(house: House, setting: str, pinned: bool) -> None:
    parts = build(house, settings=replace(SETTINGS, cpu_affinity=setting))
    assert (parts.beat._cpu_pinner is not None) == pinned


def test_a_node_works_until_it_is_drained_and_records_its_shutdown(house: House) -> None:
    parts = build(house)
    node = NodeProcess(parts)
    house.seed("http://127.0.0.1:9/")
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(node.run()), daemon=True)
    thread.start()
    path = house.folder / "beats" / f"n{parts.epoch}"
    wait_until(lambda: (beat := read_beat(path)) is not None and beat.state == "DONE")
    parts.doorbells.ring([house.sequence("http://127.0.0.1:9/")])
    wait_until(lambda: house.db.value("SELECT max(attempts) FROM jobs") == 1)
    node.drain()
    thread.join(10)
    assert codes == [0]
    assert nodes.get_state_and_role(house.db, parts.epoch)[0] is NodeState.SHUTDOWN
    beat = read_beat(path)
    assert beat is not None
    assert beat.state == "SHUTDOWN"


def test_a_backup_takes_jobs_once_the_supervisor_makes_it_a_runner(house: House) -> None:
    parts = build(house, Role.BACKUP_RUNNER)
    assert parts.registration.register()
    parts.registration.sync_role()
    assert parts.status.state == "STANDBY"
    assert not parts.leaser.should_dequeue()
    with house.db.transaction():
        nodes.set_role(house.db, parts.epoch, Role.RUNNER)
    parts.registration.sync_role()
    assert parts.status.state == "DONE"
    assert parts.leaser.should_dequeue()


def test_a_node_whose_epoch_is_over_is_fenced_unless_it_drains(house: House) -> None:
    parts, fenced = build(house), []
    registration = Registration(
        house.folder, epoch=parts.epoch, intake=parts.intake, wakeup=threading.Event(),
        on_fenced=lambda: fenced.append(True),
    )  # fmt: skip
    assert registration.register()
    registration.sync_role()
    assert fenced == []
    with house.db.transaction():
        assert nodes.set_state(house.db, parts.epoch, NodeState.DEAD)
    registration.sync_role()
    assert fenced == [True]
    parts.intake.draining.set()
    registration.sync_role()
    assert fenced == [True]
    assert registration.register() is False


def test_a_thread_that_does_not_tick_stops_the_beat(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = build(house, settings=replace(SETTINGS, deadline=30.0))
    parts.status.mark_ticked()
    now = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: now + 34.0)
    assert not parts.status.is_stalled
    monkeypatch.setattr("time.monotonic", lambda: now + 36.0)
    assert parts.status.is_stalled
    for part in (parts.committer, parts.leaser, parts.loop):
        part.ticked_at = now + 36.0
    assert not parts.status.is_stalled
    parts.leaser.ticked_at = now
    assert parts.status.is_stalled
    parts.intake.draining.set()
    assert not parts.status.is_stalled
