"""Orders: what each command of an operator does to a running supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.model.node import Role
from engine.store.db.connector import Database
from engine.store.tables import runs, sequences
from engine.store.tables.commands import Command
from engine.supervise.child_process import Child
from engine.supervise.exit_reason import Ending

if TYPE_CHECKING:
    from engine.supervise.supervisor import Supervisor

_MOST_NODES = 256


def carry_out(supervisor: Supervisor, command: Command) -> tuple[bool, str] | None:
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
    if supervisor.ending is not None:
        return True, "it is stopping already; `crawl-console kill` ends it at once"
    supervisor.stop(Ending.SIGTERM, "cancelled by command")
    held = sum(map(_held, supervisor.crew.nodes))
    return True, f"cancelling; {held} jobs under way may finish within {supervisor.settings.grace:g} s"


def _kill(supervisor: Supervisor, node: object) -> tuple[bool, str]:
    if node is None:
        supervisor.killed = True
        return True, "the run is killed"
    child = supervisor.crew.named(node)
    if child is None:
        return False, _unknown(supervisor, node)
    child.ordered_dead = True
    child.kill()
    return True, f"{child.name} killed (pid {child.pid}); another takes its place"


def _drain(supervisor: Supervisor, node: object) -> tuple[bool, str]:
    child = supervisor.crew.named(node)
    if child is None:
        return False, _unknown(supervisor, node)
    if child.told_to_stop and not child.to_be_succeeded:
        return True, f"{child.name} drains already"
    others = [c for c in supervisor.crew.runners if c is not child]
    if child.role is Role.RUNNER and not others and not supervisor.crew.runners_due:
        return False, f"{child.name} is the last runner: `pause` holds the crawl, `cancel` ends it"
    child.to_be_succeeded = False
    child.stop()
    return True, f"{child.name} drains: {_held(child)} jobs may finish within {supervisor.settings.grace:g} s"


def _restart(supervisor: Supervisor, node: object) -> tuple[bool, str]:
    child = supervisor.crew.named(node)
    if child is None:
        return False, _unknown(supervisor, node)
    if supervisor.ending is not None:
        return False, "the run is stopping"
    supervisor.crew.restart(child)
    return True, f"{child.name} drains, and another takes its place; {_held(child)} jobs may finish"


def _scale(supervisor: Supervisor, count: int) -> tuple[bool, str]:
    if supervisor.ending is not None:
        return False, "the run is stopping"
    if not 1 <= count <= _MOST_NODES:
        return False, f"{count} nodes: between 1 and {_MOST_NODES} are possible; `pause` holds the crawl"
    started, drained = supervisor.crew.scale(count)
    return True, f"{count} runners: {started} started, {drained} retired"


def _reload(supervisor: Supervisor, command: int) -> tuple[bool, str] | None:
    if supervisor.ending is not None:
        return False, "the run is stopping; `crawl-console extract` brings its pages to the defs on disk afterwards"
    if supervisor.upkeep.reload is None:
        return False, "this run has no defs on disk to look at"
    return supervisor.upkeep.reload.order(command)


def _pause(supervisor: Supervisor, paused: bool, sequence: object) -> tuple[bool, str]:
    db, run = supervisor.db, supervisor.run.seq
    with db.transaction():
        if sequence is None:
            before = runs.get(db, run).paused or ""
            runs.pause(db, run, "operator" if paused else None)
            return True, "intake paused: jobs under way finish" if paused else _resumed(db, run, before)
        count = sequences.pause(db, run, str(sequence), paused)
    if not count:
        return False, f"no sequence {sequence} to {'pause' if paused else 'resume'}: give an id, GROUP or GROUP@HOST"
    return True, f"{_sequences(count)} {'paused' if paused else 'resumed'}"


def _resumed(db: Database, run: int, before: str) -> str:
    """What `resume` without a sequence did, and what it could not do."""
    told = "intake resumed" if "operator" in before else "intake was not paused by an operator"
    if "disk" in before:
        told += "; the disk is nearly full: the run goes on when there is space"
    count = sequences.paused(db, run)
    if count:
        told += f"; {_sequences(count)} paused by name: `crawl-console resume SEQ`"
    return told


def _sequences(count: int) -> str:
    return f"{count} sequence{'s' if count > 1 else ''}"


def _held(child: Child) -> int:
    return child.pulse.beat.in_flight if child.pulse.beat else 0


def _unknown(supervisor: Supervisor, node: object) -> str:
    names = ", ".join(c.name for c in supervisor.crew.nodes) or "none"
    return f"no node {node}; running: {names}"
