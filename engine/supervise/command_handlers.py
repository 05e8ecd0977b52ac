"""Orders: what each command of an operator does to a running supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.model.node import Role
from engine.store.db.connector import Database
from engine.store.tables import runs, sequences
from engine.store.tables.commands import Command
from engine.supervise.child_process import ChildProcess
from engine.supervise.exit_reason import ExitReason

if TYPE_CHECKING:
    from engine.supervise.supervisor import Supervisor

_MAX_NODES = 256


def handle_command(supervisor: Supervisor, command: Command) -> tuple[bool, str] | None:
    """Do it; whether it was done, and a sentence for the operator. None: it is under way, ask again."""
    told = command.arguments
    match command.name:
        case "cancel":
            return _cancel(supervisor)
        case "kill":
            return _kill(supervisor, told.get("node"))
        case "drain":
            return _drain(supervisor, told.get("node"))
        case "restart":
            return _restart(supervisor, told.get("node"))
        case "scale":
            return _scale(supervisor, int(told["count"]))
        case "reload":
            return _reload(supervisor, command.id)
        case "pause" | "resume":
            return _pause(supervisor, command.name == "pause", told.get("sequence"))
    return False, f"unknown command {command.name}"


def _cancel(supervisor: Supervisor) -> tuple[bool, str]:
    if supervisor.exit_reason is not None:
        return True, "it is stopping already; `crawl-console kill` ends it at once"
    supervisor.stop(ExitReason.SIGTERM, "cancelled by command")
    held = sum(map(_jobs_in_flight, supervisor.node_pool.nodes))
    return True, f"cancelling; {held} jobs under way may finish within {supervisor.settings.grace:g} s"


def _kill(supervisor: Supervisor, node: object) -> tuple[bool, str]:
    if node is None:
        supervisor.kill_requested = True
        return True, "the run is killed"
    child = supervisor.node_pool.find_node(node)
    if child is None:
        return False, _unknown_node(supervisor, node)
    child.killed_by_operator = True
    child.kill()
    return True, f"{child.name} killed (pid {child.pid}); another takes its place"


def _drain(supervisor: Supervisor, node: object) -> tuple[bool, str]:
    child = supervisor.node_pool.find_node(node)
    if child is None:
        return False, _unknown_node(supervisor, node)
    if child.stop_requested and not child.restart_after_exit:
        return True, f"{child.name} drains already"
    others = [c for c in supervisor.node_pool.runners if c is not child]
    if child.role is Role.RUNNER and not others and not supervisor.node_pool.pending_runners:
        return False, f"{child.name} is the last runner: `pause` holds the crawl, `cancel` ends it"
    child.restart_after_exit = False
    child.stop()
    return True, f"{child.name} drains: {_jobs_in_flight(child)} jobs may finish within {supervisor.settings.grace:g} s"


def _restart(supervisor: Supervisor, node: object) -> tuple[bool, str]:
    child = supervisor.node_pool.find_node(node)
    if child is None:
        return False, _unknown_node(supervisor, node)
    if supervisor.exit_reason is not None:
        return False, "the run is stopping"
    supervisor.node_pool.restart(child)
    return True, f"{child.name} drains, and another takes its place; {_jobs_in_flight(child)} jobs may finish"


def _scale(supervisor: Supervisor, count: int) -> tuple[bool, str]:
    if supervisor.exit_reason is not None:
        return False, "the run is stopping"
    if not 1 <= count <= _MAX_NODES:
        return False, f"{count} nodes: between 1 and {_MAX_NODES} are possible; `pause` holds the crawl"
    started, drained = supervisor.node_pool.scale(count)
    return True, f"{count} runners: {started} started, {drained} retired"


def _reload(supervisor: Supervisor, command: int) -> tuple[bool, str] | None:
    if supervisor.exit_reason is not None:
        return False, "the run is stopping; `crawl-console extract` brings its pages to the defs on disk afterwards"
    if supervisor.defs_sync.reloader is None:
        return False, "this run has no defs on disk to look at"
    return supervisor.defs_sync.reloader.request(command)


def _pause(supervisor: Supervisor, paused: bool, sequence: object) -> tuple[bool, str]:
    db, run = supervisor.db, supervisor.run.seq
    with db.transaction():
        if sequence is None:
            before = runs.get(db, run).paused or ""
            runs.pause(db, run, "operator" if paused else None)
            return True, "intake paused: jobs under way finish" if paused else _describe_resume(db, run, before)
        count = sequences.pause(db, run, str(sequence), paused)
    if not count:
        return False, f"no sequence {sequence} to {'pause' if paused else 'resume'}: give an id, GROUP or GROUP@HOST"
    return True, f"{_format_sequences(count)} {'paused' if paused else 'resumed'}"


def _describe_resume(db: Database, run: int, before: str) -> str:
    """What `resume` without a sequence did, and what it could not do."""
    told = "intake resumed" if "operator" in before else "intake was not paused by an operator"
    if "disk" in before:
        told += "; the disk is nearly full: the run goes on when there is space"
    count = sequences.count_paused(db, run)
    if count:
        told += f"; {_format_sequences(count)} paused by name: `crawl-console resume SEQ`"
    return told


def _format_sequences(count: int) -> str:
    return f"{count} sequence{'s' if count > 1 else ''}"


def _jobs_in_flight(child: ChildProcess) -> int:
    return child.heartbeat.beat.in_flight if child.heartbeat.beat else 0


def _unknown_node(supervisor: Supervisor, node: object) -> str:
    names = ", ".join(c.name for c in supervisor.node_pool.nodes) or "none"
    return f"no node {node}; running: {names}"
