"""Takes over from dead nodes and machines: requeues their jobs; page limits count unsettled requests."""

import time
from collections.abc import Collection

from crawl_engine.errors import plural
from crawl_engine.model.node import HeartbeatState, NodeState, Role
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.job import jobs, sequences
from crawl_engine.store.tables.run import events, machines, nodes, page_limits, runs, supervisors
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.tables.run.machines import LeaderLease, SeenMachine
from crawl_engine.store.transactions import claims, logins


def requeue_jobs(db: Database, run: int, node: int, reason: str, *, crashed: bool) -> int:
    """Make the jobs of a dead node (its epoch) READY again, or FAILED after too many node deaths; returns how many.

    `crashed`: the node was not stopped on purpose, so one of its jobs may be the cause. A warning tells how much of a
    page limit is lost: which requests the node sent is unknown.
    """
    unsettled = page_limits.count_unsettled(db, node)
    freed = jobs.release(db, node, reason, crashed=crashed)
    if unsettled:
        text = f"{reason}; the page limits count {plural(unsettled, 'request')} that it may not have sent"
        events.add(db, run, [Event(time.time(), "WARNING", "supervisor", "node", text)])
    return freed


def give_up_gates(db: Database, run: int) -> None:
    """Have no page wait for a robots.txt or a login whose job failed with its nodes."""
    hosts.abandon_robots(db, run)
    logins.abandon_failed(db, run)


def end_processes(db: Database, supervisor: int | None, reason: str, now: float) -> None:
    """Fence the nodes and appenders of a supervisor (None: of all), and requeue their jobs."""
    left = nodes.list_left_over(db, supervisor)
    for run, epoch, number, _ in left:
        nodes.set_state(db, epoch, NodeState.DEAD)
        nodes.set_heart(db, epoch, HeartbeatState.ASYSTOLE)
        _, role = nodes.get_state_and_role(db, epoch)
        nodes.set_role(db, epoch, Role.DEAD_RUNNER if role is Role.RUNNER else Role.DEAD_BACKUP_RUNNER)
        nodes.end(db, epoch, reason, now)
        requeue_jobs(db, run, epoch, f"n{number}: {reason}", crashed=False)
    if supervisor is not None:
        claims.leave(db, supervisor, store_time())
    for epoch, _ in nodes.list_left_over_appenders(db, supervisor):
        nodes.end_appender(db, epoch, NodeState.DEAD, now)
    for run in {node.run for node in left}:
        sequences.recount_taken(db, run)


def end_machine(db: Database, epoch: int, now: float) -> None:
    """In the open transaction: a machine leaves; what its nodes hold is for others."""
    supervisors.end(db, epoch, now)
    end_processes(db, epoch, "its machine left", now)


def end_silent(db: Database, silent: Collection[SeenMachine], run: int | None, now: float) -> list[SeenMachine]:
    """In the open transaction: end machines that have not beaten since they were seen so; returns them."""
    ended = [machine for machine in silent if machines.end_silent(db, machine, now)]
    for machine in ended:
        end_processes(db, machine.epoch, "its machine fell silent", now)
        if run is not None:
            runs.count_takeover(db, run)
            text = f"machine {machine.name} fell silent: its jobs are for others"
            events.add(db, run, [Event(now, "ERROR", "supervisor", "machine", text)])
    return ended


def take_lead(
    db: Database, epoch: int, seen: LeaderLease, silent: Collection[SeenMachine], run: int | None, now: float
) -> LeaderLease | None:
    """Take the lead from a machine that has ended or is silent; None: what was seen is not true any more.

    `run`: which the machine works on; nobody leads a run that has ended. Raises Fenced, DatabaseBusy.
    """
    with db.transaction():
        machines.check_member(db, epoch)
        if machines.get_lease(db) != seen or (run is not None and runs.get_exit_code(db, run) is not None):
            return None
        end_silent(db, silent, run, now)
        if any(machine.epoch == seen.epoch for machine in machines.read_view(db, None).machines):
            return None
        machines.set_role(db, epoch, "LEADER")
        return machines.set_leader(db, epoch)
