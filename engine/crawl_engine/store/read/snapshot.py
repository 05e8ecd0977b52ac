"""Reads one consistent snapshot of a run: what the console, `status` and the summary show."""

import time
from typing import Any, NamedTuple

import orjson
from msgspec import Struct, field, json
from msgspec.structs import replace

from crawl_engine.model.job import JobKind
from crawl_engine.model.node import state_word
from crawl_engine.model.record import RejectedCount
from crawl_engine.model.run import NO_JUDGEMENT, NO_RATE, Alarm, Judgement, RunState, SeedingProgress
from crawl_engine.model.step import OUTCOMES
from crawl_engine.runtime.beat_file import NodeBrowsers
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read import host_rows, step_results
from crawl_engine.store.read.data_warnings import DataWarning, find_warnings
from crawl_engine.store.read.host_rows import HostRow
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.row import health, rows
from crawl_engine.store.tables.row.health import DataDefHealth
from crawl_engine.store.tables.run import commands, machines, metrics, runs, supervisors
from crawl_engine.store.tables.run.machines import MachineRow
from crawl_engine.store.tables.run.metrics import GroupTotals
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.store.tables.run.supervisors import HelperRow

_SEQUENCES = """
SELECT s.id, s.grp AS "group", h.key AS host, s.ready, s.delayed, s.taken, s.done, s.failed, s.skipped, s.incomplete,
    s.paused
FROM (SELECT * FROM sequences WHERE run = ? AND kind = 'page' ORDER BY taken DESC, ready DESC, id LIMIT +?) s
JOIN hosts h ON h.id = s.host ORDER BY s.taken DESC, s.ready DESC, s.id
"""
_TOTALS = """
SELECT grp AS "totals.group", sum(done) AS "totals.done", sum(failed) AS "totals.failed",
    sum(skipped) AS "totals.skipped", sum(incomplete) AS "totals.incomplete",
    sum(ready + delayed + taken) AS "totals.left", sum(taken) AS taken, sum(delayed) AS delayed, count(*) AS sequences
FROM sequences WHERE run = ? AND kind = 'page' GROUP BY grp ORDER BY min(id)
"""
_FILES = """
SELECT coalesce(sum(done), 0), coalesce(sum(ready + delayed + taken + incomplete), 0), coalesce(sum(failed), 0),
    coalesce(sum(skipped), 0)
FROM sequences WHERE run = ? AND kind = 'file'
"""
_ANSWERS = """
SELECT coalesce(sum(errors + blocked), 0) AS bad, coalesce(sum(gone), 0) AS gone, coalesce(sum(blocked), 0) AS blocked,
    coalesce(sum(paused), 0) AS paused, count(*) AS hosts
FROM hosts WHERE run = ?
"""
_NODES = """
SELECT n.ended_at IS NULL AS lives, 'n' || n.number AS "row.id", n.role AS "row.role", n.state AS "row.state",
    n.heart AS "row.heart", n.done AS "row.done", n.failed AS "row.failed", p.pid AS "row.pid",
    p.beat_age AS "row.beat_age", coalesce(p.in_flight, 0) AS "row.in_flight", n.rss AS "row.rss", n.lag AS "row.lag",
    coalesce(p.now, '') AS "row.now", 'n' || n.replaces AS "row.replaces", n.reason AS "row.reason",
    n.supervisor IN (SELECT epoch FROM supervisors
        WHERE ended_at IS NOT NULL AND epoch < (SELECT max(epoch) FROM supervisors)) AS "row.past",
    coalesce(p.now_age, 0.0) AS "row.now_age", coalesce(p.now_limit, 0.0) AS "row.now_limit", p.browsers
FROM nodes n LEFT JOIN nodes p ON p.epoch = n.epoch AND p.ended_at IS NULL WHERE n.run = ? ORDER BY n.number
"""
_OUTPUTS = """
SELECT o.data_def, a.epoch IS NOT NULL AND a.ended_at IS NULL AS lives,
    o.appender || '/' || o.data_def AS "row.name", o.type AS "row.type", o.rows AS "row.rows", o.bytes AS "row.bytes",
    o.path AS "row.path", 0 AS "row.backlog", o.dirty AS "row.rebuilding",
    CASE WHEN a.ended_at IS NULL THEN a.pid END AS "row.pid",
    CASE WHEN a.ended_at IS NULL THEN a.beat_age END AS "row.beat_age", a.flush_ms AS "row.flush_ms",
    o.error AS "row.error", o.cursor AS "row.cursor", o.added AS "row.added"
FROM outputs o LEFT JOIN appenders a ON a.epoch = (SELECT max(epoch) FROM appenders WHERE run = o.run)
WHERE o.run = ? ORDER BY o.id
"""
_BACKLOG = """
SELECT d.name, count(*) FROM (SELECT data_def FROM rows WHERE run = ? AND id > ? LIMIT +?) r
JOIN data_defs d ON d.id = r.data_def GROUP BY d.name
"""
_MAX_BACKLOG = 10_001
"""Counts the pending rows of all dataDefs together up to this limit: a snapshot must stay cheap."""

DEFAULT_LIMIT = 200
_MAX_PAUSED_NAMES = 5
_ENDED = ("done", "failed", "skipped", "incomplete")


class NodeRow(Struct, frozen=True):
    """A node. Field names and their order are the keys of `status --json`, as in the other rows below."""

    id: str
    role: str
    state: str
    heart: str
    done: int
    failed: int
    pid: int | None
    beat_age: float | None
    in_flight: int
    rss: int
    lag: float
    now: str
    replaces: str | None
    reason: str | None
    past: bool
    """Whether an earlier supervisor started it."""
    now_age: float = 0.0
    """Seconds since the request of `now`, its oldest in flight, was sent."""
    now_limit: float = 0.0
    """Seconds that this request may take; 0: no limit."""
    jobs_per_s: float = 0.0
    browsers: NodeBrowsers | None = None
    """None: it has started none."""

    @property
    def word(self) -> str:
        """The word for its state."""
        return state_word(self.state, self.heart, works=self.in_flight > 0 or self.jobs_per_s > 0)


class SequenceRow(Struct, frozen=True):
    id: int
    group: str
    host: str
    ready: int
    delayed: int
    taken: int
    done: int
    failed: int
    skipped: int
    incomplete: int
    paused: bool


class OutputRow(Struct, frozen=True):
    """An output of the appender, and the process that writes it. `path` is empty if there is no file."""

    name: str
    type: str
    rows: int
    bytes: int
    path: str
    backlog: int
    rebuilding: bool
    pid: int | None
    beat_age: float | None
    flush_ms: float | None
    error: str | None = None
    """Why it cannot be written now."""
    rows_per_s: float = 0.0
    bytes_per_s: float = 0.0
    cursor: int = 0
    """The last row in it."""
    added: int = 0
    """Rows that it got in this run: unlike `rows`, it never falls."""


class _Group(NamedTuple):
    totals: GroupTotals
    taken: int
    delayed: int
    sequences: int


class _HostAnswers(NamedTuple):
    """How the hosts of a run answered, how many are paused, and how many there are."""

    bad: int
    gone: int
    blocked: int
    paused: int
    hosts: int


class _FoundNode(NamedTuple):
    lives: bool
    row: NodeRow
    browsers: str | None


class _FoundOutput(NamedTuple):
    data_def: str
    lives: bool
    """Whether the process that writes it has not ended."""
    row: OutputRow


class Snapshot(Struct, frozen=True):
    """The state of a data dir at one moment."""

    run: Run | None
    epoch: supervisors.Epoch | None
    jobs: dict[str, int]
    delayed: int
    rows: dict[str, int]
    rejected: dict[str, int]
    appenders: list[OutputRow]
    nodes: list[NodeRow]
    sequences: list[SequenceRow]
    sequence_count: int
    hosts: list[HostRow]
    metrics: dict[str, Any]
    defs_problems: list[dict[str, Any]] = field(default_factory=list)
    """Why the defs on disk are not in use."""
    defs_saved: dict[str, Any] | None = None
    """Defs on disk that wait to be published: `hash`, `text` (what changes) and `at`."""
    reextraction: tuple[int, int] | None = None
    """Pages re-extracted since the defs changed, and pages found so far that are left; None: no re-extraction."""
    seeding: SeedingProgress | None = None
    """How far a list of seeds is read; None: no list is read now."""
    paused_by: str | None = None
    """Who paused the run over HTTP; None: nobody, or somebody at this machine."""
    paused_sequences: int = 0
    paused_names: tuple[str, ...] = ()
    """The first of them: `GROUP on HOST`."""
    data_defs: dict[str, DataDefHealth] = field(default_factory=dict)
    """How the records of each dataDef were filled."""
    warnings: list[DataWarning] = field(default_factory=list)
    rejected_by: list[RejectedCount] = field(default_factory=list)
    """All that were rejected in the run, repeated ones too."""
    """Signs that the data is not what the user expects."""
    running: int = 0
    """Jobs at work at their hosts. Others that nodes hold wait for their place."""
    host_count: int = 0
    bad_answers: int = 0
    """4xx but `gone`, 5xx, and requests without an answer; `blocked` ones included."""
    gone: int = 0
    """404 and 410 for links."""
    alarms: list[Alarm] = field(default_factory=list)
    """What was wrong when the supervisor judged the run last, the worst first."""
    acknowledged: frozenset[str] = frozenset()
    """The keys of alarms that an operator acknowledged."""
    blocked: int = 0
    """Answers that refused the crawler."""
    paused_hosts: int = 0
    files: dict[str, int] = field(default_factory=dict)
    """The downloads of files, by what became of them; empty: no page named one."""
    waiting_rows: dict[str, int] = field(default_factory=dict)
    """By dataDef: the rows that wait for files."""
    duplicates: dict[str, int] = field(default_factory=dict)
    """By dataDef: the rows whose key another row has; they are not written."""
    helpers: list[HelperRow] = field(default_factory=list)
    """Programs that run beside the crawl, if their supervisor is alive."""
    results: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    """What plugin steps reported: by GROUP/TASK and step, the number of each outcome."""
    machines: list[MachineRow] = field(default_factory=list)
    """Those that share the database; empty in SQLite."""
    lag: float = 0.0
    """Seconds that the database took for this snapshot."""

    @property
    def is_live(self) -> bool:
        """Whether a supervisor is at work."""
        return self.epoch is not None and self.epoch.is_alive

    @property
    def row_count(self) -> int:
        return sum(self.rows.values())

    @property
    def bad_share(self) -> float:
        """Of all answers, the share that is bad."""
        answers = self.jobs["done"] + self.gone + self.bad_answers
        return self.bad_answers / answers if answers else 0.0

    @property
    def waiting(self) -> int:
        """Open pages that are not running."""
        return max(0, self.jobs["ready"] + self.jobs["taken"] - self.running)


_NO_JOBS = {"done": 0, "failed": 0, "skipped": 0, "incomplete": 0, "ready": 0, "taken": 0}
EMPTY_SNAPSHOT = Snapshot(None, None, _NO_JOBS, 0, {}, {}, [], [], [], 0, [], metrics.build_metrics([], [], {}, 0.0, 0))
"""The snapshot of a data dir without a run."""


def read(db: Database, *, run: int | None = None, limit: int = DEFAULT_LIMIT) -> Snapshot:
    """Read a run (None: the newest). Cost: the nodes plus at most `limit` sequences and hosts, never the jobs."""
    begun = time.monotonic()
    with db.snapshot():
        current = runs.latest(db) if run is None else runs.get(db, run)
        if current is None:
            return EMPTY_SNAPSHOT
        groups = db.rows(_Group, _TOTALS, (current.seq,))
        totals, taken = [group.totals for group in groups], sum(group.taken for group in groups)
        nodes = list_nodes(db, current.seq, current.judgement)
        counts = rows.counts(db, current.seq)
        epoch = supervisors.current(db)
        data_defs = health.read(db, current.seq)
        paused_count, paused_names = 0, tuple[str, ...]()
        if current.state is not RunState.DONE and (paused_count := sequences.count_paused(db, current.seq)):
            paused_names = tuple(sequences.list_paused(db, current.seq, _MAX_PAUSED_NAMES))
        (answers,) = db.rows(_HostAnswers, _ANSWERS, (current.seq,))
        fetched = metrics.list_fetch_stats(db, current.seq)
        rendered = any(of_group.rendered for of_group in fetched)
        return Snapshot(
            run=current,
            epoch=epoch,
            jobs={
                **{name: sum(getattr(one, name) for one in totals) for name in _ENDED},
                "ready": sum(one.left for one in totals) - taken,
                "taken": taken,
            },
            delayed=sum(group.delayed for group in groups),
            rows={name: of.rows for name, of in counts.items()},
            rejected={name: of.rejected for name, of in counts.items() if of.rejected},
            rejected_by=rows.list_rejected(db, current.seq),
            appenders=list_outputs(db, current.seq, current.judgement),
            nodes=nodes,
            sequences=db.rows(SequenceRow, _SEQUENCES, (current.seq, limit)),
            sequence_count=sum(group.sequences for group in groups),
            hosts=host_rows.list_hosts(db, current.seq, limit, answers.hosts),
            metrics=metrics.build_metrics(
                totals,
                fetched,
                {node.id: node.done + node.failed for node in nodes},
                current.seconds,
                current.takeovers,
                metrics.list_asking_first(db, current.defs_version) if rendered else (),
            ),
            defs_problems=orjson.loads(supervisors.get_meta(db, "defs_problems") or "[]"),
            defs_saved=orjson.loads(supervisors.get_meta(db, "defs_saved") or "null"),
            reextraction=_reextraction_progress(db, current.seq),
            seeding=runs.get_seeding(db, current.seq),
            data_defs=data_defs,
            warnings=find_warnings(db, current, data_defs),
            running=host_rows.count_running(db, current.seq),
            bad_answers=answers.bad,
            host_count=answers.hosts,
            gone=answers.gone,
            alarms=runs.list_alarms(db, current.seq),
            acknowledged=runs.list_acknowledged(db, current.seq),
            blocked=answers.blocked,
            paused_hosts=answers.paused if current.state is not RunState.DONE else 0,
            paused_by=commands.last_giver(db, "pause") if "operator" in (current.paused or "") else None,
            paused_sequences=paused_count,
            paused_names=paused_names,
            files=_count_files(db, current.seq),
            waiting_rows={name: of.waiting for name, of in counts.items() if of.waiting},
            duplicates={name: of.duplicates for name, of in counts.items() if of.duplicates},
            helpers=supervisors.list_helpers(db),
            results=_count_results(db, current.seq),
            machines=machines.list_machines(db, current.seq) if epoch and epoch.heart is not None else [],
            lag=time.monotonic() - begun,
        )  # fmt: skip


def list_outputs(db: Database, run: int, judgement: Judgement = NO_JUDGEMENT) -> list[OutputRow]:
    """The outputs of a run; those of a dead appender have no rate."""
    backlogs: dict[int, dict[str, int]] = {}
    outputs = []
    for data_def, lives, row in db.rows(_FoundOutput, _OUTPUTS, (run,)):
        if row.cursor not in backlogs:
            backlogs[row.cursor] = dict(db.all(_BACKLOG, (run, row.cursor, _MAX_BACKLOG)))
        backlog = backlogs[row.cursor]
        rate = judgement.outputs.get(row.name, NO_RATE) if lives else NO_RATE
        pending = _MAX_BACKLOG if sum(backlog.values()) == _MAX_BACKLOG else backlog.get(data_def, 0)
        outputs.append(replace(row, backlog=pending, rows_per_s=rate.rows_per_s, bytes_per_s=rate.bytes_per_s))
    return outputs


def _count_files(db: Database, run: int) -> dict[str, int]:
    counts = dict(zip(("done", "left", "failed", "skipped"), *db.all(_FILES, (run,)), strict=True))
    return counts if any(counts.values()) else {}


def _count_results(db: Database, run: int) -> dict[str, dict[str, dict[str, int]]]:
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for group, task, step, outcome, count in step_results.count_by_step(db, run):
        steps = counts.setdefault(f"{group}/{task}", {})
        steps.setdefault(step, dict.fromkeys(OUTCOMES, 0))[outcome] = count
    return counts


def _reextraction_progress(db: Database, run: int) -> tuple[int, int] | None:
    search, done = runs.get_reextraction(db, run)
    left = sequences.count(db, run, "ready", "delayed", "taken", kind=JobKind.EXTRACT)
    return (done, left) if search is not None or left else None


def list_nodes(db: Database, run: int, judgement: Judgement = NO_JUDGEMENT) -> list[NodeRow]:
    """The nodes of a run; those that have ended have no rate."""
    return [
        replace(
            row,
            jobs_per_s=judgement.nodes.get(row.id, 0.0) if lives else 0.0,
            browsers=json.decode(browsers, type=NodeBrowsers) if browsers else None,
        )
        for lives, row, browsers in db.rows(_FoundNode, _NODES, (run,))
    ]
