"""Carries out the command `host`: an operator pauses a host, or changes its delay and concurrency, at run time."""

import math
from collections.abc import Mapping
from typing import Any

from engine.errors import suggest
from engine.runtime.clock import boottime
from engine.store.db.connector import Database
from engine.store.tables import host_control
from engine.store.tables.host_control import HostControl
from engine.supervise.command_arguments import quote

_MAX_DELAY, _MAX_CONCURRENCY = 7_200.0, 1_000
"""Seconds: the host clock takes a longer time for damage."""
_MAX_KEYS_LISTED = 1_000


def control_host(db: Database, run: int, arguments: Mapping[str, Any]) -> tuple[bool, str]:
    """Change what applies to a host; returns whether that was done, and a sentence for the operator.

    `arguments`: `host`, and what to change: `paused`, `delay` (seconds), `concurrency`, or `reset` to the defs' values.
    """
    name = arguments["host"]
    changes = {key: arguments[key] for key in ("paused", "delay", "concurrency") if key in arguments}
    problem = _find_problem(changes, reset=arguments.get("reset", False))
    if problem:
        return False, problem
    with db.transaction():
        keys = host_control.find_keys(db, run, name)
        if len(keys) != 1:
            return False, _describe_miss(db, run, name, keys)
        now, before = boottime(), host_control.read(db, run, keys[0])
        if arguments.get("reset"):
            host_control.reset(db, run, keys[0], now)
        host_control.set_limits(db, run, keys[0], now, **changes)
        control = host_control.read(db, run, keys[0])
        waits = "; a longer wait that has begun ends first" if control.delay < before.delay else ""
        return True, f"{keys[0]}: {_describe(control)}{waits}"


def _find_problem(changes: Mapping[str, Any], *, reset: bool) -> str:
    if not changes and not reset:
        return "nothing to change: give a delay, a concurrency, pause, resume or reset"
    delay, concurrency = changes.get("delay", 0.0), changes.get("concurrency", 1)
    if not (math.isfinite(delay) and 0 <= delay <= _MAX_DELAY):
        return f"delay {delay:g}: it must be between 0 and {_MAX_DELAY:,.0f} seconds"
    if not 1 <= concurrency <= _MAX_CONCURRENCY:
        return f"concurrency {concurrency}: it must be between 1 and {_MAX_CONCURRENCY:,}; pause the host to stop it"
    return ""


def _describe_miss(db: Database, run: int, name: str, keys: list[str]) -> str:
    if keys:
        return f"{name} has several ports: write one of {', '.join(keys)}"
    return f"no host {quote(name)}{suggest(name, host_control.list_some(db, run, _MAX_KEYS_LISTED))}; write NAME:PORT"


def _describe(control: HostControl) -> str:
    """What applies now, and why it differs from what was set."""
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
