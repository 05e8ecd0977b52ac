"""Orders: what each command of an operator does to a running supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.store import runs, sequences
from engine.store.commands import Command
from engine.supervise.ending import Ending

if TYPE_CHECKING:
    from engine.supervise.supervisor import Supervisor


def carry_out(supervisor: Supervisor, command: Command) -> tuple[bool, str] | None:
    """Do it; whether it was done, and a sentence for the operator. None: it is under way, ask again."""
    told = command.arguments
    match command.name:
        case "cancel":
            return _cancel(supervisor)
        case "kill":
            return _kill(supervisor, told.get("node"))
        case "drain":
            return _drain(supervisor, str(told.get("node")))
        case "reload":
            return _reload(supervisor, command.id)
        case "pause" | "resume":
            return _pause(supervisor, command.name == "pause", told.get("sequence"))
    return False, f"unknown command {command.name}"


def _cancel(supervisor: Supervisor) -> tuple[bool, str]:
    if supervisor.ending is not None:
        return True, "it is stopping already; `crawl-console kill` ends it at once"
    supervisor.stop(Ending.SIGTERM, "cancelled by command")
    held = sum(node.pulse.beat.in_flight for node in supervisor.crew.nodes if node.pulse.beat)
    return True, f"cancelling; {held} jobs under way may finish within {supervisor.settings.grace:g} s"


def _kill(supervisor: Supervisor, node: object) -> tuple[bool, str]:
    if node is None:
        supervisor.killed = True
        return True, "the run is killed"
    child = next((c for c in supervisor.crew.nodes if c.name == node), None)
    if child is None:
        return False, _unknown(supervisor, node)
    child.ordered_dead = True
    child.kill()
    return True, f"{child.name} killed (pid {child.pid})"


def _drain(supervisor: Supervisor, node: str) -> tuple[bool, str]:
    child = next((c for c in supervisor.crew.nodes if c.name == node), None)
    if child is None:
        return False, _unknown(supervisor, node)
    child.stop()
    return True, f"{child.name} drains"


def _reload(supervisor: Supervisor, command: int) -> tuple[bool, str] | None:
    if supervisor.ending is not None:
        return False, "the run is stopping; `crawl-console extract` brings its pages to the defs on disk afterwards"
    if supervisor.reload is None:
        return False, "this run has no defs on disk to look at"
    return supervisor.reload.order(command)


def _pause(supervisor: Supervisor, paused: bool, sequence: object) -> tuple[bool, str]:
    db, run = supervisor.db, supervisor.run.seq
    with db.transaction():
        if sequence is None:
            runs.pause(db, run, "operator" if paused else None)
            return True, "intake paused" if paused else "intake resumed"
        count = sequences.pause(db, run, int(str(sequence)), paused)
    return bool(count), f"{count} sequences {'paused' if paused else 'resumed'}"


def _unknown(supervisor: Supervisor, node: object) -> str:
    names = ", ".join(c.name for c in supervisor.crew.nodes) or "none"
    return f"no node {node}; running: {names}"
