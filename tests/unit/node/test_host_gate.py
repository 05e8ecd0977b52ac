"""The gate of a host: how many requests, when, and what a backoff calls back."""

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from crawl_engine.node import host_gate
from crawl_engine.node.host_gate import HostBackingOff, HostGate, HostGates
from crawl_engine.runtime.clock import boottime
from crawl_engine.runtime.host_clock import HostClock, machine_path
from tests.unit.node.leased_jobs import change, leased

pytestmark = pytest.mark.asyncio


@pytest.fixture
def gates(tmp_path: Path) -> HostGates:
    return HostGates(HostClock(tmp_path / "hosts.clock", "a"))


@pytest.fixture
def gate(tmp_path: Path) -> HostGate:
    return HostGate(HostClock(tmp_path / "hosts.clock", "a"), "a:80")


async def test_no_more_requests_than_the_concurrency_and_a_freed_slot_is_taken_at_once(gate: HostGate) -> None:
    slots = [(await gate.enter(None, 0.0, 3))[0] for _ in range(3)]
    assert sorted(slots) == [0, 1, 2]
    fourth = asyncio.create_task(gate.enter(None, 0.0, 3))
    await asyncio.sleep(0.05)
    assert not fourth.done()
    gate.release(slots[1])
    assert (await asyncio.wait_for(fourth, 0.5))[0] == slots[1]


async def test_requests_of_a_host_with_a_delay_take_turns(gate: HostGate) -> None:
    times: list[float] = []

    async def send() -> None:
        await gate.enter(None, 0.03, 8)
        times.append(boottime())

    await asyncio.gather(*(send() for _ in range(5)))
    assert times[-1] - times[0] >= 4 * 0.03 - 0.005


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
    slot, _ = await gate.enter(None, 0.0, 1)
    waiting = asyncio.create_task(gate.enter(None, 0.0, 1))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    gate.release(slot)
    assert await asyncio.wait_for(gate.enter(None, 0.0, 1), 0.5) == (slot, 0.0)


async def test_a_job_frees_its_slot_once(tmp_path: Path) -> None:
    gates = HostGates(HostClock(tmp_path / "hosts.clock", "a"))
    job = change(leased(1), concurrency=1)
    await gates.enter(job, "a:80", send_at=None)
    assert gates.gate_of(job) is not None
    gates.exit(job)
    gates.exit(job)
    assert gates.gate_of(job) is None
    await asyncio.wait_for(gates.enter(change(leased(2), concurrency=1), "a:80", send_at=None), 0.5)


async def test_a_job_that_is_late_for_its_own_turn_takes_another(gates: HostGates) -> None:
    slow, other = (change(leased(number), delay=0.1, concurrency=2) for number in (1, 2))
    for job in (slow, other):
        await gates.enter(job, "a:80", send_at=None)
    sent_at = boottime()  # by the other, in its turn
    await gates.wait_turn(other, again=False)
    assert boottime() - sent_at < 0.05
    await gates.wait_turn(slow, again=False)
    assert boottime() - sent_at >= 0.09


async def test_two_leases_of_one_job_hold_slots_of_their_own(gates: HostGates) -> None:
    first = change(leased(1), concurrency=2)
    second = first._replace(lease=2)
    for job in (first, second):
        await gates.enter(job, "a:80", send_at=None)
    gates.exit(first)
    assert gates.gate_of(second) is not None
    await asyncio.wait_for(gates.enter(change(leased(3), concurrency=2), "a:80", send_at=None), 0.5)
    gates.exit(second)


async def test_only_the_first_that_waits_polls_and_slots_go_by_order(
    gate: HostGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot, _ = await gate.enter(None, 0.0, 1)
    entered: list[int] = []

    async def enter(number: int) -> None:
        await gate.enter(None, 0.0, 1)
        entered.append(number)

    tasks = [asyncio.create_task(enter(number)) for number in range(30)]
    await asyncio.sleep(0.01)
    polls: list[int] = []
    try_slot = gate._try_slot

    def count(concurrency: int) -> int | None:
        polls.append(1)
        return try_slot(concurrency)

    monkeypatch.setattr(gate, "_try_slot", count)
    await asyncio.sleep(0.05)
    assert 1 <= len(polls) <= 55, "one waiter polls at most once a millisecond"
    tasks[1].cancel()
    for _ in range(4):
        gate.release(slot)
        await asyncio.sleep(0.005)
    assert entered == [0, 2, 3, 4]
    for task in tasks:
        task.cancel()


async def test_a_freed_slot_wakes_each_that_may_take_one(gate: HostGate) -> None:
    for _ in range(3):
        await gate.enter(None, 0.0, 3)
    waiting = [asyncio.create_task(gate.enter(None, 0.0, 3)) for _ in range(3)]
    await asyncio.sleep(0)
    for slot in range(3):
        gate.release(slot)
    await asyncio.wait_for(asyncio.gather(*waiting), 0.5)


async def test_the_record_of_a_host_in_use_is_kept(gates: HostGates, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    monkeypatch.setattr(HostClock, "keep", lambda clock, record: kept.append(record))
    monkeypatch.setattr(host_gate, "_KEEP_SECONDS", 0.0)
    monkeypatch.setattr(host_gate, "_IDLE_SECONDS", 0.02)
    for number in range(3):
        await gates.enter(change(leased(number), concurrency=8), "a:80", send_at=None)
        await asyncio.sleep(0.02)
    assert len(kept) >= 2


async def test_a_turn_that_was_not_reserved_is_asked_for_again(gate: HostGate, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [boottime() - 0.001, 0.0]  # the first passed while the process was stopped
    monkeypatch.setattr(HostClock, "reserve", lambda clock, record, delay: answers.pop(0))
    await gate.wait_turn(0.1)
    assert not answers


async def test_a_host_is_joined_while_its_requests_wait_and_its_record_is_found_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("find", "join", "leave"):
        real = getattr(HostClock, name)
        monkeypatch.setattr(
            HostClock, name, lambda clock, host, name=name, real=real: (calls.append(name), real(clock, host))[1]
        )
    monkeypatch.setattr(host_gate, "_IDLE_SECONDS", 0.0)
    gates = HostGates(HostClock(tmp_path / "hosts.clock", "a"))
    first, second = change(leased(1), concurrency=1), change(leased(2), concurrency=1)

    async def send(host_key: str) -> None:
        await gates.enter(first, host_key, send_at=None)
        gates.exit(first)
        await asyncio.sleep(0.001)

    for host_key in ("a:80", "b:80", "a:80"):
        await send(host_key)
    assert calls == ["find", "find"]
    await gates.enter(first, "a:80", send_at=None)
    waiting = asyncio.create_task(gates.enter(second, "a:80", send_at=None))
    await asyncio.sleep(0.01)
    gates.exit(first)
    await waiting
    gates.exit(second)
    await asyncio.sleep(0.001)
    await send("b:80")
    assert calls == ["find", "find", "join", "leave"]

    monkeypatch.setattr(host_gate, "_MAX_GATES", 1)
    for host_key in ("b:80", "a:80"):
        await send(host_key)
    assert calls.count("find") == 3, "the gate that was used last is kept"


async def test_after_a_backoff_one_request_goes_before_the_others(gate: HostGate) -> None:
    old, _ = await gate.enter(None, 0.0, 8)
    rest_end = boottime() + 0.05
    gate.strike(boottime() - 0.1, rest_end, rest_end)
    await asyncio.sleep(0.06)
    gate.release(old)
    probe, _ = await gate.enter(None, 0.0, 8)
    waiting = [asyncio.create_task(gate.enter(None, 0.0, 8)) for _ in range(7)]
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in waiting)
    gate.note_answer(rest_end - 0.01)
    await asyncio.sleep(0.03)
    assert not any(task.done() for task in waiting), "an answer to a request from before the backoff"
    gate.note_answer(boottime())
    await asyncio.wait_for(asyncio.gather(*waiting), 1)
    assert probe == 0


async def test_a_probe_that_is_refused_keeps_the_others_back_and_one_that_gets_lost_frees_the_next(
    gate: HostGate,
) -> None:
    gate.strike(boottime() - 0.1, boottime() + 0.02, boottime())
    await asyncio.sleep(0.03)
    probe, _ = await gate.enter(None, 0.0, 8)
    waiting = [asyncio.create_task(gate.enter(None, 0.0, 8)) for _ in range(2)]
    await asyncio.sleep(0.03)
    gate.release(probe)  # without an answer
    second, _ = await asyncio.wait_for(waiting[0], 0.5)
    await asyncio.sleep(0.03)
    assert not waiting[1].done()
    gate.strike(boottime(), boottime() + 5, boottime())
    with pytest.raises(HostBackingOff):
        await asyncio.wait_for(waiting[1], 0.5)
    gate.release(second)


async def test_an_operator_ends_the_rest_of_a_host_for_all_crawls_of_the_machine(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    gate = HostGate(HostClock(machine_path(state), "a"), "a:80")
    gate.strike(boottime(), boottime() + 3000, boottime() + 3000)
    with pytest.raises(HostBackingOff):
        gate.check_backoff()
    for data in ("mine", "another"):
        program = "import sys, pathlib as p; from crawl_engine.runtime.host_clock import end_rest; "
        program += "end_rest(p.Path(sys.argv[1]), {'XDG_STATE_HOME': sys.argv[2]}, sys.argv[3], shared=True)"
        host = "a:80" if data == "another" else "b:80"
        arguments = [sys.executable, "-c", program, str(tmp_path / data), state["XDG_STATE_HOME"], host]
        assert (await asyncio.to_thread(subprocess.run, arguments, check=False)).returncode == 0
    assert gate.check_backoff(), "one request goes first"
    gate.note_answer(boottime())
    assert not gate.check_backoff()


async def test_after_the_longest_backoff_all_go_together(gate: HostGate) -> None:
    gate.strike(boottime() - 0.1, boottime() + 0.02, boottime(), probe=False)
    await asyncio.sleep(0.03)
    slots = await asyncio.wait_for(asyncio.gather(*(gate.enter(None, 0.0, 3) for _ in range(3))), 1)
    assert sorted(slot for slot, _ in slots) == [0, 1, 2]
