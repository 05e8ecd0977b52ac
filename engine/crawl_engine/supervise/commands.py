"""Carries out the commands of operators; does not trust the content of their rows."""

import os
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import orjson
from msgspec import Struct

from crawl_engine.errors import UsageError, one_line, plural, suggest
from crawl_engine.model import bounds
from crawl_engine.model.bounds import describe_bounds, is_within
from crawl_engine.model.node import KILLED_BY_OPERATOR, NodeRange, Role
from crawl_engine.runtime.clock import store_time
from crawl_engine.runtime.host_clock import end_rest
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.host import host_control
from crawl_engine.store.tables.host.host_control import HostControl
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.run import commands, nodes, runs
from crawl_engine.store.tables.run.commands import Command
from crawl_engine.store.transactions import logins
from crawl_engine.supervise.nodes.monitored_child import MonitoredChild
from crawl_engine.supervise.nodes.node_pool import NodePool
from crawl_engine.supervise.reload.defs_sync import DefsSync
from crawl_engine.supervise.run_context import RunContext
from crawl_engine.supervise.stages import ExitReason

_MAX_KEYS_LISTED = 1_000


def control_host(run: RunContext, arguments: Mapping[str, Any]) -> tuple[bool, str]:
    """Change the limits of a host; returns whether that was done, and a sentence for the operator.

    `arguments`: `host`, and the changes: `paused`, `delay` (seconds), `concurrency`, or `reset` to the defs' values.
    """
    db, seq, name = run.db, run.seq, arguments["host"]
    changes = {key: arguments[key] for key in ("paused", "delay", "concurrency") if key in arguments}
    problem = _find_problem(changes, reset=arguments.get("reset", False))
    if problem:
        return False, problem
    with db.transaction():
        keys = host_control.find_keys(db, seq, name)
        if len(keys) != 1:
            return False, _describe_miss(db, seq, name, keys)
        now, before = store_time(), host_control.read(db, seq, keys[0])
        if arguments.get("reset"):
            host_control.reset(db, seq, keys[0], now)
        host_control.set_limits(db, seq, keys[0], now, **changes)
        rests = False
        if arguments.get("reset") or changes.get("paused") is False:
            rests = host_control.end_rest(db, seq, keys[0], now)
            logins.ask_host(db, seq, keys[0])
            limited = host_control.read_limited(db, seq, keys[0])
            end_rest(run.folder, os.environ, limited, shared=run.settings.host_clock)
        control = host_control.read(db, seq, keys[0])
        waits = "; a longer wait that has begun ends first" if control.delay < before.delay else ""
        return True, f"{keys[0]}: {_describe(control)}{waits}{'; it is asked again' if rests else ''}"


def _find_problem(changes: Mapping[str, Any], *, reset: bool) -> str:
    if not changes and not reset:
        return "nothing to change: give a delay, a concurrency, pause, resume or reset"
    delay, concurrency = changes.get("delay", 0.0), changes.get("concurrency", 1)
    if not is_within(bounds.DELAY, delay):
        return f"delay {delay:g}: it must be {describe_bounds(bounds.DELAY)} seconds"
    if not is_within(bounds.CONCURRENCY, concurrency):
        return f"concurrency {concurrency}: it must be {describe_bounds(bounds.CONCURRENCY)}; pause the host to stop it"
    return ""


def _describe_miss(db: Database, run: int, name: str, keys: list[str]) -> str:
    if keys:
        return f"{name} has several ports: write one of {', '.join(keys)}"
    return f"no host {quote(name)}{suggest(name, host_control.list_some(db, run, _MAX_KEYS_LISTED))}; write NAME:PORT"


def _describe(control: HostControl) -> str:
    """The limits in force, and why they differ from the set ones."""
    parts = ["paused"] if control.paused else []
    parts += [f"delay {control.delay:g} s", f"concurrency {control.concurrency}"]
    text = ", ".join(parts)
    asked = control.defs_delay if control.operator_delay is None else control.operator_delay
    if control.obeys_robots and control.crawl_delay > asked:
        text += f" (its robots.txt asks for {control.crawl_delay:g} s)"
    elif control.delay > asked:
        text += " (adapted to its latency)"
    changed = control.operator_delay is not None or control.operator_concurrency is not None
    if changed:
        text += f"; the defs say delay {control.defs_delay:g} s, concurrency {control.defs_concurrency}"
    return text


MAX_BYTES = 10_000
"""The longest arguments that are read, as JSON."""
_MAX_QUOTED = 60


_TYPE_NAMES: Mapping[type, str] = MappingProxyType(
    {int: "a whole number", str: "text", float: "a number", bool: "true or false"}
)
_BATCH_SIZE = 100
"""Commands handled in one tick."""
_Answer = tuple[bool, str]
"""Whether the command was carried out, and a sentence for the operator."""


class _Parameter(Struct, frozen=True):
    """One argument: its JSON type, and whether the command needs it."""

    type: type[int] | type[str] | type[float] | type[bool]
    required: bool = True


_PARAMETERS: Mapping[str, Mapping[str, _Parameter]] = MappingProxyType(
    {
        "cancel": {},
        "kill": {"node": _Parameter(str, required=False)},
        "drain": {"node": _Parameter(str)},
        "restart": {"node": _Parameter(str)},
        "scale": {"count": _Parameter(int), "most": _Parameter(int, required=False)},
        "reload": {"saved": _Parameter(str, required=False)},
        "pause": {"sequence": _Parameter(str, required=False)},
        "resume": {"sequence": _Parameter(str, required=False)},
        "stop": {"sequence": _Parameter(str)},
        "host": {
            "host": _Parameter(str),
            "delay": _Parameter(float, required=False),
            "concurrency": _Parameter(int, required=False),
            "paused": _Parameter(bool, required=False),
            "reset": _Parameter(bool, required=False),
        },
    }
)
COMMAND_NAMES = tuple(_PARAMETERS)


def parse_arguments(name: str, text: bytes) -> dict[str, Any]:
    """The arguments of the command `name`, complete and of the right types. `text`: JSON, from the table.

    An unknown argument is an error: `kill` with a misspelled `node` would kill the run. Raises UsageError on an unknown
    command, and on unknown arguments.
    """
    parameters = _PARAMETERS.get(name)
    if parameters is None:
        raise UsageError(f"unknown command {quote(name)}", f"Use one of: {', '.join(COMMAND_NAMES)}.")
    takes = ", ".join(parameters) or "no arguments"
    arguments = _decode_object(name, text)
    for key in arguments:
        if key not in parameters:
            raise UsageError(f"{name}: unknown argument {quote(key)}", f"It takes {takes}.")
    for key, parameter in parameters.items():
        if key not in arguments:
            if parameter.required:
                raise UsageError(f"{name}: lacks the argument {key}", f"It takes {takes}.")
        elif not _has_type(arguments[key], parameter.type):
            raise UsageError(f"{name}: {key} must be {_TYPE_NAMES[parameter.type]}", f"It takes {takes}.")
    return arguments


def _has_type(value: Any, expected: type) -> bool:
    return type(value) is expected or (expected is float and type(value) is int)


def quote(text: str) -> str:
    """Text from a command for an answer: one short line of printable characters."""
    shown = text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…"
    return repr(shown)


def _decode_object(name: str, text: bytes) -> dict[str, Any]:
    if len(text) > MAX_BYTES:
        raise UsageError(f"{name}: its arguments are longer than {MAX_BYTES:,} bytes", "Write them shorter.")
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        raise UsageError(f"{name}: its arguments are not a JSON object", 'Write for example {"node": "n1"}.')
    return arguments


class RunControl(Protocol):
    """The part of the supervisor that commands use."""

    @property
    def exit_reason(self) -> ExitReason | None:
        """Why the run stops; None while it runs."""

    def stop(self, exit_reason: ExitReason, reason: str | None = None) -> None:
        """Stop the run gracefully."""

    def request_kill(self, reason: str) -> None:
        """Kill the run at the next tick."""


class CommandHandlers(Struct):
    """Handles the commands of one supervisor's epoch."""

    run: RunContext
    node_pool: NodePool
    defs_sync: DefsSync | None
    """Of the leader; the other machines get commands that name their nodes."""
    _unrecorded: dict[int, _Answer] = {}
    """Answers by command id that are not in the database yet, so that each command is carried out once."""

    def handle_new(self, control: RunControl) -> None:
        """Carry out every new command and record its answer. Raises DatabaseBusy; the next call continues."""
        for command in commands.list_new(self.run.db, self.run.epoch, limit=_BATCH_SIZE, max_bytes=MAX_BYTES + 1):
            if command.id not in self._unrecorded:
                if (answer := self._handle(control, command)) is None:
                    continue
                self._unrecorded[command.id] = answer
            done, text = self._unrecorded[command.id]
            with self.run.db.transaction():
                commands.end(self.run.db, command.id, done=done, answer=text, now=time.time())
                giver = _giver(command)
                by = f" ({giver})" if giver else ""
                self.run.log("INFO", "command", f"{_event_name(command)}{by}: {text}")
            del self._unrecorded[command.id]

    def _handle(self, control: RunControl, command: Command) -> _Answer | None:
        """Carry out one command. None: it is in progress, ask again at the next tick."""
        try:
            arguments = parse_arguments(command.name, command.arguments)
        except UsageError as error:
            return False, f"{error.message}. {error.remedy}"
        if (node := arguments.get("node")) is not None and self._hand_over(command, node):
            return None
        match command.name:
            case "cancel":
                return self._cancel(control, _giver(command))
            case "kill":
                return self._kill(control, arguments.get("node"), _giver(command))
            case "drain":
                return self._drain(arguments["node"])
            case "restart":
                return self._restart(control, arguments["node"])
            case "scale":
                return self._scale(control, arguments["count"], arguments.get("most", arguments["count"]))
            case "reload":
                return self._reload(control, command.id, arguments.get("saved"))
            case "pause" | "resume":
                return self._pause(command.name == "pause", arguments.get("sequence"))
            case "stop":
                return self._stop(arguments["sequence"])
            case "host":
                return control_host(self.run, arguments)
        raise AssertionError(command.name)

    def _hand_over(self, command: Command, node: str) -> bool:
        """Whether the machine that has this node carries out the command."""
        if self.node_pool.find_node(node) is not None:
            return False
        owners = {f"n{number}": owner for number, owner in nodes.list_owners(self.run.db, self.run.seq).items()}
        if owners.get(node, self.run.epoch) == self.run.epoch:
            return False
        with self.run.db.transaction():
            commands.hand_over(self.run.db, command.id, owners[node])
        return True

    def _cancel(self, control: RunControl, giver: str) -> _Answer:
        if control.exit_reason is not None:
            return True, "the run is already stopping; `crawl-console kill` ends it at once"
        control.stop(ExitReason.SIGTERM, f"cancelled by {giver or 'command'}")
        in_flight = sum(map(_jobs_in_flight, self.node_pool.nodes))
        return True, f"cancelling; {_grant(in_flight, self.run.settings.job_grace)}"

    def _kill(self, control: RunControl, node: str | None, giver: str) -> _Answer:
        if node is None:
            control.request_kill(f"killed by {giver or 'command'}")
            return True, "the run is killed"
        child = self.node_pool.find_node(node)
        if child is None:
            return False, self._unknown_node(node)
        child.killed_by_operator = f"{KILLED_BY_OPERATOR} ({giver})" if giver else KILLED_BY_OPERATOR
        child.kill()
        return True, f"{child.name} killed (pid {child.pid}); a replacement starts"

    def _drain(self, node: str) -> _Answer:
        child = self.node_pool.find_node(node)
        if child is None:
            return False, self._unknown_node(node)
        if child.stop_requested and not child.restart_after_exit:
            return True, f"{child.name} is already draining"
        others = [c for c in self.node_pool.runners if c is not child]
        if child.role is Role.RUNNER and not others and not self.node_pool.pending_runners:
            return False, f"{child.name} is the last runner: `pause` holds the crawl, `cancel` ends it"
        child.restart_after_exit = False
        child.stop()
        return True, f"draining {child.name}: {_grant(_jobs_in_flight(child), self.run.settings.job_grace)}"

    def _restart(self, control: RunControl, node: str) -> _Answer:
        child = self.node_pool.find_node(node)
        if child is None:
            return False, self._unknown_node(node)
        if control.exit_reason is not None:
            return False, "the run is stopping"
        self.node_pool.restart(child)
        in_flight = plural(_jobs_in_flight(child), "job")
        return True, f"draining {child.name}, then a replacement starts; {in_flight} in flight"

    def _scale(self, control: RunControl, least: int, most: int) -> _Answer:
        if control.exit_reason is not None:
            return False, "the run is stopping"
        nodes = NodeRange(least, most)
        if not (is_within(bounds.NODES, least) and is_within(bounds.NODES, most)):
            allowed = describe_bounds(bounds.NODES)
            return False, f"{nodes} nodes: the count must be {allowed}; `pause` holds the crawl"
        if least > most:
            return False, f"{least}-{most} nodes: the least is above the most; write {most}-{least}"
        started, drained = self.node_pool.scale(nodes)
        runners = f"{nodes} runners" if nodes.is_elastic else plural(most, "runner")
        return True, f"{runners}: {started} started, {drained} retired"

    def _reload(self, control: RunControl, command: int, saved: str | None) -> _Answer | None:
        if control.exit_reason is not None:
            return False, "the run is stopping; `crawl-console extract` applies the defs on disk afterwards"
        if self.defs_sync is None or self.defs_sync.reloader is None:
            return False, "this run has no defs on disk to reload"
        return self.defs_sync.reloader.request(command, saved)

    def _pause(self, paused: bool, sequence: str | None) -> _Answer:
        db, run = self.run.db, self.run.seq
        with db.transaction():
            if sequence is None:
                before = runs.get(db, run).paused or ""
                runs.pause(db, run, "operator" if paused else None)
                return True, "intake paused: jobs in flight finish" if paused else _describe_resume(db, run, before)
            count = sequences.pause(db, run, sequence, paused)
        if not count:
            return False, _describe_no_sequence(sequence, "pause" if paused else "resume")
        return True, f"{plural(count, 'sequence')} {'paused' if paused else 'resumed'}"

    def _stop(self, sequence: str) -> _Answer:
        with self.run.db.transaction():
            count, waiting = sequences.stop(self.run.db, self.run.seq, sequence)
        if not count:
            return False, _describe_no_sequence(sequence, "stop")
        jobs = "1 job is" if waiting == 1 else f"{waiting:,} jobs are"
        return True, f"{plural(count, 'sequence')} stopped: {jobs} skipped, and all found later; `resume` lifts it"

    def _unknown_node(self, node: str) -> str:
        names = ", ".join(f"n{number}" for number in nodes.list_owners(self.run.db, self.run.seq)) or "none"
        return f"no node {quote(node)}; running: {names}"


def _giver(command: Command) -> str:
    """Who gave a command over HTTP; empty for a local one."""
    return one_line(command.given_by)[:_MAX_QUOTED] if command.given_by is not None else ""


def _event_name(command: Command) -> str:
    return command.name if command.name in COMMAND_NAMES else "command"


def _describe_resume(db: Database, run: int, before: str) -> str:
    """The sequences that `resume` without a sequence resumed, and those that stay paused."""
    text = "intake resumed" if "operator" in before else "intake was not paused by an operator"
    if "disk" in before:
        text += "; the disk is nearly full: the run resumes when there is space"
    count = sequences.count_paused(db, run)
    if count:
        text += f"; {plural(count, 'sequence')} paused by name: `crawl-console resume SEQ`"
    hosts = host_control.count_paused(db, run)
    if hosts:
        text += f"; {plural(hosts, 'host')} paused: `crawl-console host NAME --resume`"
    return text


def _describe_no_sequence(sequence: str, verb: str) -> str:
    return f"no sequence {quote(sequence)} to {verb}: use an id, GROUP or GROUP@HOST"


def _grant(jobs: int, grace: float) -> str:
    return f"{plural(jobs, 'job')} in flight {'has' if jobs == 1 else 'have'} {grace:g} s to finish"


def _jobs_in_flight(child: MonitoredChild) -> int:
    return child.heartbeat.beat.in_flight if child.heartbeat.beat else 0
