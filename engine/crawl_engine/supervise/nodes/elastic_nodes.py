"""Starts nodes while jobs wait for one, and retires those that are idle, within the range of the run."""

import time
from collections.abc import Mapping

from msgspec import Struct

from crawl_engine.model.node import NodeRange, NodeState, Role
from crawl_engine.runtime.beat_file import Beat
from crawl_engine.runtime.clock import store_time
from crawl_engine.settings import usable_cpus
from crawl_engine.store.transactions.lease import has_leasable_jobs
from crawl_engine.supervise.nodes.node_pool import NodePool
from crawl_engine.supervise.run_context import RunContext

_LOOK_SECONDS = 0.5
"""Seconds between two looks: two beats, so that a working node has reported it."""
_TAKING_STATES = (NodeState.READY, NodeState.DONE)


class PoolLoad(Struct, frozen=True, kw_only=True):
    """The runners of a run: those that take jobs, those that start, and those that are no longer replaced."""

    nodes: Mapping[int, Beat]
    """The last beats of those that take jobs, by number."""
    starting: int = 0
    given_up: int = 0


class ScalingDecision(Struct, frozen=True):
    """Whether to start a node, and the numbers of those to retire."""

    start: bool = False
    retire: tuple[int, ...] = ()


class NodeScaler(Struct, kw_only=True):
    """Judges the load of the runners at each look. Starts no process and reads no clock."""

    wait: float
    """The setting `node_wait`."""
    idle: float
    """The setting `node_idle`."""
    slots: int
    """Of one node."""
    cpus: int
    """That may be used."""
    _load: PoolLoad = PoolLoad(nodes={})
    _range: NodeRange = NodeRange(1, 1)
    _active_at: dict[int, float] = {}
    _wait_began: tuple[float, dict[int, float]] | None = None
    """When jobs began to wait, and the CPU seconds of each node then."""

    def is_cpu_bound(self, load: PoolLoad, nodes: NodeRange) -> bool:
        """Whether one more node is allowed, and has a CPU, and the present ones have more work than theirs can do."""
        return (
            _allows_more(load, nodes)
            and 0 < len(load.nodes) < self.cpus
            and all(beat.is_cpu_bound for beat in load.nodes.values())
        )

    def observe(self, load: PoolLoad, nodes: NodeRange, now: float) -> bool:
        """Note the load. True: one more node is allowed, and the present ones take no more jobs.

        They take none if all slots are full, if each works a job alone, or if no job was leased since the last look.
        Beside a node that takes jobs, one that works a job alone has free slots: it will take more soon.
        """
        before = self._load.nodes
        for number, beat in load.nodes.items():
            earlier = before.get(number)
            if earlier is None or beat.in_flight or _worked_jobs(beat) != _worked_jobs(earlier):
                self._active_at[number] = now
        self._active_at = {number: self._active_at[number] for number in load.nodes}
        is_stalled = _leased_jobs(load) == _leased_jobs(self._load) and before.keys() == load.nodes.keys()
        self._load, self._range = load, nodes
        beats = load.nodes.values()
        is_full = sum(beat.in_flight for beat in beats) >= self.slots * len(beats) or all(
            beat.runs_alone for beat in beats
        )
        return _allows_more(load, nodes) and (is_full or is_stalled)

    def decide(self, *, jobs_wait: bool, now: float) -> ScalingDecision:
        """Decide about the last noted load. `jobs_wait`: whether a further node could lease a job now."""
        if not jobs_wait:
            self._wait_began = None
            return ScalingDecision(retire=self._idle_nodes(now))
        if self._wait_began is None:
            self._wait_began = (now, self._cpu_seconds())
        elif now - self._wait_began[0] >= self.wait:
            if self._has_free_cpu(now):
                return ScalingDecision(start=True)
            self._wait_began = (now, self._cpu_seconds())
        return ScalingDecision()

    def restart_wait(self) -> None:
        """Count the wait of jobs from the next look on: a node was started, or the number of nodes is fixed."""
        self._wait_began = None

    def _idle_nodes(self, now: float) -> tuple[int, ...]:
        """Nodes without a job for long enough, the highest numbers first; the least number of nodes stays."""
        spare = len(self._load.nodes) + self._load.starting - self._range.least
        idle = [number for number, active_at in self._active_at.items() if now - active_at >= self.idle]
        return tuple(sorted(idle, reverse=True)[: max(0, spare)])

    def _has_free_cpu(self, now: float) -> bool:
        """Whether the CPUs have room for one more node like the present ones, by their use while the jobs waited."""
        assert self._wait_began is not None
        began_at, earlier = self._wait_began
        used = [
            min(1.0, max(0.0, beat.cpu - earlier.get(number, 0.0)) / (now - began_at))
            for number, beat in self._load.nodes.items()
        ]
        return not used or sum(used) + sum(used) / len(used) <= self.cpus

    def _cpu_seconds(self) -> dict[int, float]:
        return {number: beat.cpu for number, beat in self._load.nodes.items()}


def _allows_more(load: PoolLoad, nodes: NodeRange) -> bool:
    return not load.starting and len(load.nodes) + load.given_up < nodes.most


def _leased_jobs(load: PoolLoad) -> int:
    return sum(beat.in_flight + _worked_jobs(beat) for beat in load.nodes.values())


def _worked_jobs(beat: Beat) -> int:
    return beat.done + beat.failed


class ElasticNodes:
    """Scales the runners of one pool. Does nothing if their number is fixed."""

    def __init__(self, run: RunContext, node_pool: NodePool) -> None:
        self._run = run
        self._node_pool = node_pool
        settings = run.settings
        self._scaler = NodeScaler(
            wait=settings.node_wait, idle=settings.node_idle, slots=settings.concurrency, cpus=usable_cpus()
        )
        self._next_at = 0.0

    def tick(self) -> None:
        """Start or retire nodes. Raises DatabaseBusy; a later tick retries."""
        now, nodes = time.monotonic(), self._node_pool.range
        if not nodes.is_elastic:
            self._scaler.restart_wait()
            return
        load = _read_load(self._node_pool)
        if self._scaler.is_cpu_bound(load, nodes) and self._has_jobs(shared=True):
            self._start("jobs wait for a CPU")
            return
        if now < self._next_at:
            return
        self._next_at = now + _LOOK_SECONDS
        jobs_wait = self._scaler.observe(load, nodes, now) and self._has_jobs(shared=False)
        decision = self._scaler.decide(jobs_wait=jobs_wait, now=now)
        if decision.start:
            self._start("jobs wait for a free slot")
        for number in decision.retire:
            name = f"n{number}"
            if (idle := self._node_pool.find_node(name)) is not None:
                idle.stop()
                self._add_event(f"{name} is retired: no job for {self._run.settings.node_idle:g} s")

    def _has_jobs(self, *, shared: bool) -> bool:
        return has_leasable_jobs(
            self._run.db, self._run.seq, store_time(), more_slots=self._run.settings.concurrency, shared=shared
        )

    def _start(self, reason: str) -> None:
        child = self._node_pool.start_node(Role.RUNNER)
        self._scaler.restart_wait()
        self._add_event(f"{child.name} starts because {reason}")

    def _add_event(self, text: str) -> None:
        self._run.db.best_effort_write(lambda: self._run.log("INFO", "node", text))


def _read_load(node_pool: NodePool) -> PoolLoad:
    beats = {child.number: child.heartbeat.beat for child in node_pool.runners}
    taking = {number: beat for number, beat in beats.items() if beat is not None and beat.state in _TAKING_STATES}
    starting = len(beats) - len(taking) + node_pool.pending_runners
    return PoolLoad(nodes=taking, starting=starting, given_up=node_pool.given_up)
