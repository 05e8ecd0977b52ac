"""Starts nodes while jobs wait for one, and retires those that are idle, within the range of the run."""

import time

from engine.model.node import NodeState, Role
from engine.runtime.clock import boottime
from engine.settings import Settings, usable_cpus
from engine.store.db.connector import Database
from engine.store.tables import events
from engine.store.tables.events import Event
from engine.store.transactions.leasable import has_leasable_jobs
from engine.supervise.child_process import ChildProcess
from engine.supervise.node_pool import NodePool
from engine.supervise.node_scaling import NodeLoad, NodeScaler, PoolLoad

_LOOK_SECONDS = 0.5
"""The time between two looks: two beats, so that a node that works has reported it."""
_TAKING_STATES = (NodeState.READY, NodeState.DONE)


class ElasticNodes:
    """Scales the runners of one pool. Does nothing where their number is fixed."""

    def __init__(self, db: Database, run: int, node_pool: NodePool, settings: Settings) -> None:
        self._db = db
        self._run = run
        self._node_pool = node_pool
        self._slots = settings.concurrency
        self._idle = settings.node_idle
        self._scaler = NodeScaler(
            wait=settings.node_wait, idle=settings.node_idle, slots=settings.concurrency, cpus=usable_cpus()
        )
        self._next_at = 0.0

    def tick(self) -> None:
        """Start or retire what is due. Raises DatabaseBusy; a later tick retries."""
        now = time.monotonic()
        if now < self._next_at:
            return
        if not self._node_pool.range.is_elastic:
            self._scaler.restart_wait()
            return
        self._next_at = now + _LOOK_SECONDS
        jobs_wait = self._scaler.observe(_read_load(self._node_pool), self._node_pool.range, now) and (
            has_leasable_jobs(self._db, self._run, boottime(), more_slots=self._slots)
        )
        decision = self._scaler.decide(jobs_wait=jobs_wait, now=now)
        if decision.start:
            child = self._node_pool.start_node(Role.RUNNER)
            self._scaler.restart_wait()
            self._add_event(f"{child.name} starts because jobs wait for a free slot")
        for number in decision.retire:
            name = f"n{number}"
            if (idle := self._node_pool.find_node(name)) is not None:
                idle.stop()
                self._add_event(f"{name} is retired: no job for {self._idle:g} s")

    def _add_event(self, text: str) -> None:
        event = Event(time.time(), "INFO", "supervisor", "node", text)
        self._db.best_effort_write(lambda: events.add(self._db, self._run, [event]))


def _read_load(node_pool: NodePool) -> PoolLoad:
    loads = [load for child in node_pool.runners if (load := _node_load(child)) is not None]
    return PoolLoad(
        nodes=loads,
        starting=len(node_pool.runners) - len(loads) + node_pool.pending_runners,
        given_up=node_pool.given_up,
    )


def _node_load(child: ChildProcess) -> NodeLoad | None:
    """The load of a node; None until it takes jobs."""
    beat = child.heartbeat.beat
    if beat is None or beat.state not in _TAKING_STATES:
        return None
    return NodeLoad(
        number=child.number, held=beat.in_flight, runs_alone=beat.runs_alone, worked=beat.done + beat.failed,
        cpu=beat.cpu,
    )  # fmt: skip
