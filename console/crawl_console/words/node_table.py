"""The table of a run's processes: nodes, appender, supervisor or machines; what each does."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from crawl_console.crawl.source import PollResult
from crawl_console.format import (
    Span,
    describe_replaced,
    format_age,
    format_count,
    format_rate,
    format_size,
    plural,
    short_url,
)
from crawl_console.words.run_line import backlog_span
from crawl_console.words.table import Column, Row, item_row, named_row
from crawl_engine.model.run import Stage
from crawl_engine.store.read.snapshot import NodeRow
from crawl_engine.store.tables.run.machines import MachineRow
from crawl_engine.store.tables.run.runs import Run

STATE_MARKS = {
    "starting": ("…", "dim"), "ready": ("▶", "good"), "done": ("●", "dim"), "standby": ("○", "accent"),
    "stopping": ("◐", "warn"), "stopped": ("□", "dim"), "stale": ("!", "warn"), "dead": ("✗", "bad"),
}  # fmt: skip
"""The glyph and the role of each word for a state."""
_ROLE_MARKS = {
    "INITIAL": ("… joining", "dim"), "LEADER": ("▶ leader", "good"), "STANDBY": ("○ standby", "accent"),
    "LEAVING": ("◐ leaving", "warn"),
}  # fmt: skip
_LATE_BEAT_SECONDS = 1.5
_LATE_SUPERVISOR_SECONDS = 3.0
"""It beats once a second."""
_SHOWN_AGE_SECONDS = 2.0
"""From here on the age of a request is shown."""
ENDED_STATES = ("TERMINATED", "DEAD", "FAILED")
_MAX_ENDED_SHOWN = 4
_NAME_WIDTH = 10


class ShownNode(NamedTuple):
    node: NodeRow
    replaced_by: str | None
    waits: str
    """Why it has nothing to send."""


def count_runners(nodes: Sequence[NodeRow]) -> int:
    """The nodes that `scale` counts: those that work or begin to."""
    return sum(
        node.role in ("RUNNER", "INITIAL") and node.pid is not None and node.state != "DRAINING" for node in nodes
    )


def node_rows(poll: PollResult) -> list[Row]:
    """The processes: stale nodes first, the dead in one line; ended ones only if no other lives."""
    nodes = poll.snapshot.nodes
    replaced = {node.replaces: node.id for node in nodes if node.replaces}
    dead = [node for node in nodes if node.state in ("DEAD", "FAILED")]
    live = [node for node in nodes if node.state not in ENDED_STATES]
    shown = sorted(live, key=lambda node: node.heart != "ARRHYTHMIA") or nodes[-_MAX_ENDED_SHOWN:]
    waits = _describe_waits(poll)
    rows = []
    for node in shown:
        rows += [_node_row(node, replaced.get(node.id), waits), *_browser_rows(node)]
    if live and dead:
        rows.append(_dead_row(dead, replaced))
    if poll.snapshot.run is not None and (poll.supervisor_pid is not None or poll.snapshot.run.state.is_open):
        rows += [*_appender_rows(poll), *_supervisor_rows(poll, poll.snapshot.run)]
    return rows


def _dead_row(dead: Sequence[NodeRow], replaced: Mapping[str, str]) -> Row:
    """The dead nodes in one line; it stands for the last of them."""
    last = dead[-1]
    if len(dead) == 1:
        return _node_row(last, replaced.get(last.id))
    reasons = ", ".join(f"{node.id} {node.reason or 'unknown reason'}" for node in reversed(dead))
    return _node_row(last, replaced.get(last.id), instead={
        "NODE": (f"{len(dead)} nodes", "dim"), "STATE": ("✗ dead", "dim"), "NOW": (reasons, "dim"),
        "DONE": (format_count(sum(node.done for node in dead)), "dim"),
        "FAILED": (format_count(sum(node.failed for node in dead)), "dim"),
    })  # fmt: skip


def _node_row(
    node: NodeRow, replaced_by: str | None, waits: str = "", instead: Mapping[str, Span] | None = None
) -> Row:
    return item_row(NODE_COLUMNS, node.id, ShownNode(node, replaced_by, waits), node, instead)


def _appender_rows(poll: PollResult) -> list[Row]:
    """The row of the appender; none if the run writes no files."""
    outputs = poll.snapshot.appenders
    run = poll.snapshot.run
    if not outputs or run is None:
        return []
    rows, size = sum(o.rows_per_s for o in outputs), sum(o.bytes_per_s for o in outputs)
    process = outputs[0]
    late = (process.beat_age or 0.0) >= _LATE_BEAT_SECONDS
    writes = rows > 0 or any(output.backlog for output in outputs)
    state: Span = ("▶ writing", "good") if writes else _state_span("done")
    if process.pid is None:
        state = _state_span("dead")
    elif "APPENDER" in run.stage and "STOPPING" in run.stage:
        state = _state_span("stopping")
    elif process.beat_age is None:
        state = _state_span("starting")
    elif late:
        state = _state_span("stale")
    flush = f"  flush {process.flush_ms:.1f} ms" if process.flush_ms is not None else ""
    errors = [output.error for output in outputs if output.error]
    files = errors or [output.name for output in outputs]
    text = (
        f"{format_rate(rows)} rows/s  {format_size(size)}B/s  backlog {backlog_span(outputs)[0]}{flush}  "
        f"{', '.join(files)}"
    )
    beat = (format_age(process.beat_age), "warn" if late else "dim")
    return [_process_row("appender", "appender", state, beat, (text, "bad" if errors else "text"))]


def _process_row(key: str, name: str, state: Span, beat: Span, rest: Span) -> Row:
    return named_row(NODE_COLUMNS, key, {"NODE": (name, "strong"), "STATE": state, "BEAT": beat}, rest)


def _browser_rows(node: NodeRow) -> list[Row]:
    """The browsers of a node, sorted with it."""
    if node.browsers is None:
        return []
    rows = []
    for one in node.browsers.processes:
        more = f" +{one.loading - 1}" if one.loading > 1 else ""
        now = f"{format_age(one.age)} old" + (f" · {short_url(one.urls[0])}{more}" if one.urls else "")
        state: Span = (
            ("▶ loads", "good") if one.loading else ("● idle", "dim") if one.pages else _state_span("starting")
        )
        cells: dict[str, Span] = {
            "NODE": ("└ browser", "dim"), "STATE": state, "DONE": (format_count(one.pages), "text"),
            "HELD": (str(one.loading), "text" if one.loading else "dim"),
            "RSS": (format_size(one.rss) if one.rss else "-", "dim"), "NOW": (now, "text"),
        }  # fmt: skip
        rows.append(named_row(NODE_COLUMNS, f"{node.id} browser {one.pid}", cells))
    if node.browsers.replaced:
        text = describe_replaced(node.browsers), "warn" if node.browsers.is_fault else "dim"
        rows.append(named_row(NODE_COLUMNS, f"{node.id} browsers", {"NODE": ("", "dim")}, text))
    sort_values = _node_row(node, None).sort_values
    return [replace(row, sort_values=sort_values) for row in rows]


def _state_span(word: str) -> Span:
    mark, role = STATE_MARKS[word]
    return f"{mark} {word}", role


def _supervisor_rows(poll: PollResult, run: Run) -> Sequence[Row]:
    machines = poll.snapshot.machines
    if not machines:
        return [_supervisor_row(poll, run)]
    database = f"answers in {poll.snapshot.lag * 1000:.0f} ms  takeovers {run.takeovers or 0}"
    ready = _state_span("ready")
    return [
        *map(_machine_row, machines),
        _process_row("supervisor database", "database", ready, ("", "dim"), (database, "text")),
    ]


def _machine_row(machine: MachineRow) -> Row:
    late = machine.heart >= _LATE_SUPERVISOR_SECONDS
    state = _state_span("stale") if late else _ROLE_MARKS[machine.role]
    text = f"{plural(machine.nodes, 'node')}  {format_count(machine.done)} done"
    if len(machine.name) > _NAME_WIDTH:
        text += f"  {machine.name}"
    beat = (format_age(machine.heart), "warn" if late else "dim")
    return _process_row(f"supervisor {machine.name}", machine.name, state, beat, (text, "text"))


def _supervisor_row(poll: PollResult, run: Run) -> Row:
    beat = poll.supervisor_beat
    late = beat is not None and beat.age >= _LATE_SUPERVISOR_SECONDS
    state = _state_span("stale" if late else "ready")
    text = f"pid {poll.supervisor_pid}  takeovers {run.takeovers or 0}"
    if beat is not None:
        text += f"  tick {beat.tick * 1000:.0f} ms"
    if poll.supervisor_pid is None:
        ended = run.stage == Stage.SHUTDOWN_COMPLETE
        state = _state_span("stopped") if ended else ("✗ lost", "bad")
        text = "its jobs wait for the next one"
    age = (format_age(beat.age if beat is not None else None), "warn" if late else "dim")
    return _process_row("supervisor", "supervisor", state, age, (text, "text"))


def _describe_waits(poll: PollResult) -> str:
    """Why a node has nothing to send: what holds the host that is free first, if all hosts were read."""
    shown = poll.snapshot
    if shown.run is not None and shown.run.paused:
        return "the run is paused"
    left = shown.jobs["ready"] + shown.jobs["taken"] + shown.files.get("left", 0) - shown.running
    waiting = [host for host in shown.hosts if host.waiting]
    if shown.host_count > len(shown.hosts) and left > 0:
        return f"{plural(left, 'job')} waiting"
    if not waiting:
        return "no job is ready"
    first = min(waiting, key=lambda host: (host.paused, max(host.backoff or 0.0, host.next_in or 0.0)))
    if first.paused:
        return f"{first.host} is paused"
    if first.backoff:
        return f"{first.host} rests, next in {format_age(first.backoff)}"
    if first.next_in:
        return f"delay of {first.host}, next in {format_age(first.next_in)}"
    if first.running >= first.concurrency:
        return f"{first.host} is at its concurrency of {first.concurrency}"
    return "takes the next job"


def _activity(shown: ShownNode) -> Span:
    node, replaced_by, waits = shown
    state = node.state
    if state in ("DEAD", "FAILED"):
        return (node.reason or "unknown reason") + (f" · replaced by {replaced_by}" if replaced_by else ""), "dim"
    if state in ("DRAINING", "SHUTDOWN"):
        return f"finishing {plural(node.in_flight, 'job')}", "text"
    if state == "TERMINATED":
        return node.reason or "stopped", "dim"
    if node.heart == "ARRHYTHMIA":
        return f"no beat; {short_url(node.now)}", "text"
    if state == "STANDBY":
        return "replaces a dead runner", "text"
    if state == "STARTING":
        return "starting", "dim"
    if not node.now:
        return waits if node.in_flight else f"idle: {waits}", "text"
    return _request_span(node)


def _request_span(node: NodeRow) -> Span:
    """The oldest request of a node, with its age; amber from half of its deadline."""
    if node.now_age < _SHOWN_AGE_SECONDS:
        return short_url(node.now), "text"
    limit = f" of {node.now_limit:.0f} s" if node.now_limit else ""
    late = bool(node.now_limit) and node.now_age >= node.now_limit / 2
    return f"{short_url(node.now)} · {node.now_age:.0f} s{limit}", "warn" if late else "text"


def _beat_span(shown: ShownNode) -> Span:
    age = shown.node.beat_age
    return format_age(age), "warn" if (age or 0) >= _LATE_BEAT_SECONDS else "dim"


def _rate_span(shown: ShownNode) -> Span:
    node = shown.node
    return ("ended", "dim") if node.state in ENDED_STATES else (format_rate(node.jobs_per_s), "text")


def _count_span(count: int, role: str) -> Span:
    return format_count(count), role if count else "dim"


NODE_COLUMNS: Sequence[Column[ShownNode]] = (
    Column(
        "NODE", _NAME_WIDTH, lambda shown: (shown.node.id, "strong"), lambda shown: int(shown.node.id[1:]), "its name"
    ),
    Column("STATE", 10, lambda shown: _state_span(shown.node.word), lambda shown: shown.node.state, "how it is"),
    Column("BEAT", 5, _beat_span, lambda shown: shown.node.beat_age, "the age of its last heartbeat", right=True),
    Column("JOB/S", 6, _rate_span, lambda shown: shown.node.jobs_per_s, "in the last ten seconds", right=True),
    Column(
        "DONE", 6, lambda shown: (format_count(shown.node.done), "text"), lambda shown: shown.node.done, "jobs",
        right=True,
    ),
    Column(
        "FAILED", 6, lambda shown: _count_span(shown.node.failed, "bad"), lambda shown: shown.node.failed, "jobs",
        right=True,
    ),
    Column(
        "HELD", 4, lambda shown: _count_span(shown.node.in_flight, "text"), lambda shown: shown.node.in_flight,
        "jobs that it has", right=True, min_pane_width=90,
    ),
    Column(
        "RSS", 6, lambda shown: (format_size(shown.node.rss) if shown.node.rss else "-", "dim"),
        lambda shown: shown.node.rss, "its memory", right=True, min_pane_width=84,
    ),
    Column(
        "NOW", 0, _activity, lambda shown: shown.node.now, "its oldest request, or why it sends none",
        keeps_end=True,
    ),
)  # fmt: skip
"""The nodes, then the appender and the supervisor, or the machines that share the database."""
