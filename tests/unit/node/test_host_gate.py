"""The gate of a host: how many requests, when, and what a backoff calls back."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from engine.node.host_gate import HostBackingOff, HostGate, HostGates
from engine.runtime.clock import boottime
from engine.runtime.host_clock import HostClock
from tests.unit.node.leased_jobs import leased

pytestmark = pytest.mark.asyncio


@pytest.fixture
def gate(tmp_path: Path) -> HostGate:
    return HostGate(HostClock(tmp_path / "hosts.clock", "a"), "a:80")


async def test_no_more_requests_than_the_concurrency_and_a_freed_slot_is_taken_at_once(gate: HostGate) -> None:
    slots = [await gate.enter(None, 0.0, 3) for _ in range(3)]
    assert sorted(slots) == [0, 1, 2]
    fourth = asyncio.create_task(gate.enter(None, 0.0, 3))
    await asyncio.sleep(0.05)
    assert not fourth.done()
    gate.release(slots[1])
    assert await asyncio.wait_for(fourth, 0.5) == slots[1]


async def test_requests_of_a_host_with_a_delay_take_turns(gate: HostGate) -> None:
    times: list[float] = []

    async def send() -> None:
        await gate.enter(None, 0.03, 8)
        times.append(boottime())

    await asyncio.gather(*(send() for _ in range(5)))
    assert times[-1] - times[0] >= 4 * 0.03 - 0.005
    assert not gate.is_late(10.0)
    await asyncio.sleep(0.012)
    assert gate.is_late(10.0)


async def test_a_backoff_calls_back_what_waits_for_a_slot_a_turn_or_its_time(gate: HostGate) -> None:
    await gate.enter(None, 0.0, 1)
    waiting = [
        asyncio.create_task(gate.enter(None, 0.0, 1)),
        asyncio.create_task(gate.enter(boottime() + 30, 0.0, 1)),
    ]
    await asyncio.sleep(0.02)
    sent_at = boottime() - 0.1
    assert gate.strike(sent_at, boottime() + 5, boottime())[0]
    assert not gate.strike(sent_at, boottime() + 50, boottime())[0], "an answer of the same burst"
    results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 0.5)
    assert all(isinstance(result, HostBackingOff) for result in results)
    with pytest.raises(HostBackingOff) as caught:
        await gate.enter(None, 0.0, 8)
    assert 4 < caught.value.until - boottime() < 6


async def test_a_cancelled_wait_leaves_nothing_behind(gate: HostGate) -> None:
    slot = await gate.enter(None, 0.0, 1)
    waiting = asyncio.create_task(gate.enter(None, 0.0, 1))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    gate.release(slot)
    assert await asyncio.wait_for(gate.enter(None, 0.0, 1), 0.5) == slot


async def test_a_job_frees_its_slot_once(tmp_path: Path) -> None:
    gates = HostGates(HostClock(tmp_path / "hosts.clock", "a"))
    job = leased(1)
    await gates.enter(job, "a:80", send_at=None, delay=0.0, concurrency=1)
    assert gates.gate_of(job) is not None
    gates.exit(job)
    gates.exit(job)
    assert gates.gate_of(job) is None
    await asyncio.wait_for(gates.enter(leased(2), "a:80", send_at=None, delay=0.0, concurrency=1), 0.5)
