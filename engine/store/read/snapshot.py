"""Reads one consistent snapshot of a run: what the console, `status` and the summary show."""

import time
from typing import Any

import orjson
from msgspec import Struct, field
from msgspec.structs import asdict

from engine.model.job import JobKind
from engine.model.run import NO_JUDGEMENT, NO_RATE, Alarm, Judgement, RunState, SeedingProgress, mean_rate
from engine.model.step import OUTCOMES
from engine.store.db.connector import Database
from engine.store.read import host_rows, step_results
from engine.store.read.data_warnings import DataWarning, find_warnings
from engine.store.read.host_rows import HostRow
from engine.store.tables.job import sequences
from engine.store.tables.row import health, rows
from engine.store.tables.row.health import DataDefHealth
from engine.store.tables.run import machines, metrics, runs, supervisors
from engine.store.tables.run.machines import MachineRow
from engine.store.tables.run.metrics import GroupTotals
from engine.store.tables.run.runs import Run
from engine.store.tables.run.supervisors import HelperRow

_SEQUENCES = """
SELECT s.id, s.grp, h.key, s.ready, s.delayed, s.taken, s.done, s.failed, s.skipped, s.incomplete, s.paused
FROM (SELECT * FROM sequences WHERE run = ? AND kind = 'page' ORDER BY taken DESC, ready DESC, id LIMIT +?) s
JOIN hosts h ON h.id = s.host ORDER BY s.taken DESC, s.ready DESC, s.id
"""
_TOTALS = """
SELECT grp, sum(done), sum(failed), sum(skipped), sum(incomplete), sum(ready + delayed), sum(taken), sum(delayed),
    count(*)
FROM sequences WHERE run = ? AND kind = 'page' GROUP BY grp ORDER BY min(id)
"""
_FILES = """
SELECT total(done), total(ready + delayed + taken + incomplete), total(failed), total(skipped)
FROM sequences WHERE run = ? AND kind = 'file'
"""
_ANSWERS = (
    "SELECT total(errors + blocked), total(gone), total(blocked), total(paused), count(*) FROM hosts WHERE run = ?"
)
_NODES = """
SELECT number, role, state, heart, done, failed, pid, beat_age, in_flight, rss, lag, now, now_age, now_limit, replaces,
    reason, ended_at,
    supervisor IN (SELECT epoch FROM supervisors
        WHERE ended_at IS NOT NULL AND epoch < (SELECT max(epoch) FROM supervisors))
FROM nodes WHERE run = ? ORDER BY number
"""
_OUTPUTS = """
SELECT appender, data_def, type, path, rows, bytes, cursor, dirty, error FROM outputs WHERE run = ? ORDER BY id
"""
_APPENDER = """
SELECT pid, state, beat_age, flush_ms, ended_at FROM appenders WHERE run = ? ORDER BY epoch DESC LIMIT 1
"""
_BACKLOG = """
SELECT d.name, count(*) FROM (SELECT data_def FROM rows WHERE run = ? AND id > ? LIMIT +?) r
JOIN data_defs d ON d.id = r.data_def GROUP BY d.name
"""
_MAX_BACKLOG = 10_001
"""Counts the pending rows of all dataDefs together up to this limit: a snapshot must stay cheap."""

_REPORTED_OUTPUT_KEYS = ("name", "rows", "bytes", "path", "backlog")
_REPORTED_NODE_KEYS = ("id", "role", "state", "heart", "done", "failed")
"""Keys in the summary; `status --json` has all fields."""

DEFAULT_LIMIT = 200
_MAX_PAUSED_NAMES = 5


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
    paused_sequences: int = 0
    paused_names: tuple[str, ...] = ()
    """The first of them: `GROUP on HOST`."""
    data_defs: dict[str, DataDefHealth] = field(default_factory=dict)
    """How the records of each dataDef were filled."""
    warnings: list[DataWarning] = field(default_factory=list)
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
        groups = db.all(_TOTALS, (current.seq,))
        done, failed, skipped, incomplete, ready, taken, delayed, count = (
            sum(int(row[column]) for row in groups) for column in range(1, 9)
        )
        nodes = list_nodes(db, current.seq, current.judgement)
        counts = rows.counts(db, current.seq)
        epoch = supervisors.current(db)
        data_defs = health.read(db, current.seq)
        paused_count, paused_names = 0, tuple[str, ...]()
        if current.state is not RunState.DONE and (paused_count := sequences.count_paused(db, current.seq)):
            paused_names = tuple(sequences.list_paused(db, current.seq, _MAX_PAUSED_NAMES))
        bad_answers, gone, blocked, paused_hosts, host_count = db.all(_ANSWERS, (current.seq,))[0]
        return Snapshot(
            run=current,
            epoch=epoch,
            jobs={
                "done": done, "failed": failed, "skipped": skipped, "incomplete": incomplete, "ready": ready,
                "taken": taken,
            },
            delayed=delayed,
            rows={name: extracted for name, (extracted, _) in counts.items()},
            rejected={name: rejected for name, (_, rejected) in counts.items() if rejected},
            appenders=list_outputs(db, current.seq, current.judgement),
            nodes=nodes,
            sequences=_read_sequences(db, current.seq, limit),
            sequence_count=count,
            hosts=host_rows.list_hosts(db, current.seq, limit, int(host_count)),
            metrics=metrics.build_metrics(
                [GroupTotals(g, d, f, s, i, r + t) for g, d, f, s, i, r, t, *_ in groups],
                metrics.list_fetch_stats(db, current.seq),
                {node.id: node.done + node.failed for node in nodes},
                current.seconds,
                current.takeovers,
            ),
            defs_problems=orjson.loads(supervisors.get_meta(db, "defs_problems") or "[]"),
            defs_saved=orjson.loads(supervisors.get_meta(db, "defs_saved") or "null"),
            reextraction=_reextraction_progress(db, current.seq),
            seeding=runs.get_seeding(db, current.seq),
            data_defs=data_defs,
            warnings=find_warnings(db, current, data_defs),
            running=host_rows.count_running(db, current.seq),
            bad_answers=int(bad_answers),
            host_count=int(host_count),
            gone=int(gone),
            alarms=runs.list_alarms(db, current.seq),
            acknowledged=runs.list_acknowledged(db, current.seq),
            blocked=int(blocked),
            paused_hosts=int(paused_hosts) if current.state is not RunState.DONE else 0,
            paused_sequences=paused_count,
            paused_names=paused_names,
            files=_count_files(db, current.seq),
            waiting_rows=rows.count_waiting(db, current.seq),
            duplicates=rows.count_duplicates(db, current.seq),
            helpers=supervisors.list_helpers(db),
            results=_count_results(db, current.seq),
            machines=machines.list_machines(db, current.seq) if epoch and epoch.heart is not None else [],
            lag=time.monotonic() - begun,
        )  # fmt: skip


def list_outputs(db: Database, run: int, judgement: Judgement = NO_JUDGEMENT) -> list[OutputRow]:
    """The outputs of a run; those of a dead appender have no rate."""
    process = db.one(_APPENDER, (run,))
    alive = process is not None and process[4] is None
    backlogs: dict[int, dict[str, int]] = {}
    outputs = []
    for appender, data_def, kind, path, written, size, cursor, dirty, error in db.all(_OUTPUTS, (run,)):
        if cursor not in backlogs:
            backlogs[cursor] = dict(db.all(_BACKLOG, (run, cursor, _MAX_BACKLOG)))
        backlog, name = backlogs[cursor], f"{appender}/{data_def}"
        rate = judgement.outputs.get(name, NO_RATE) if alive else NO_RATE
        truncated = sum(backlog.values()) == _MAX_BACKLOG
        outputs.append(
            OutputRow(
                name=name,
                type=kind,
                rows=written,
                bytes=size,
                path=path,
                backlog=_MAX_BACKLOG if truncated else backlog.get(data_def, 0),
                rebuilding=bool(dirty),
                pid=process[0] if alive and process else None,
                beat_age=process[2] if alive and process else None,
                flush_ms=process[3] if process else None,
                error=error,
                rows_per_s=rate.rows_per_s,
                bytes_per_s=rate.bytes_per_s,
                cursor=cursor,
            )
        )
    return outputs


def _count_files(db: Database, run: int) -> dict[str, int]:
    counts = [int(count) for count in db.all(_FILES, (run,))[0]]
    return dict(zip(("done", "left", "failed", "skipped"), counts, strict=True)) if any(counts) else {}


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
        NodeRow(
            id=f"n{number}", role=role, state=state, heart=heart, done=done, failed=failed,
            pid=pid if ended is None else None, beat_age=age if ended is None else None,
            in_flight=held if ended is None else 0, rss=rss, lag=lag, now=now if ended is None else "",
            replaces=None if replaces is None else f"n{replaces}", reason=reason, past=bool(past),
            now_age=now_age if ended is None else 0.0, now_limit=now_limit if ended is None else 0.0,
            jobs_per_s=judgement.nodes.get(f"n{number}", 0.0) if ended is None else 0.0,
        )
        for number, role, state, heart, done, failed, pid, age, held, rss, lag, now, now_age, now_limit, replaces,
        reason, ended, past in db.all(_NODES, (run,))
    ]  # fmt: skip


def _read_sequences(db: Database, run: int, limit: int) -> list[SequenceRow]:
    return [SequenceRow(*(*row, bool(paused))) for *row, paused in db.all(_SEQUENCES, (run, limit))]


def build_report(snapshot: Snapshot, *, exit_code: int | None) -> dict[str, Any]:
    """The object `--no-ui --json` prints: a run as it stands, or as it ended."""
    run = snapshot.run
    seconds = run.seconds if run else 0.0
    return {
        "run": run.id if run else None,
        "state": run.state if run else None,
        "exit_code": exit_code,
        "seconds": round(seconds, 3),
        "pages_per_s": mean_rate(snapshot.jobs["done"], seconds),
        "jobs": snapshot.jobs,
        "rows": snapshot.rows,
        "appenders": [{key: getattr(output, key) for key in _REPORTED_OUTPUT_KEYS} for output in snapshot.appenders],
        "nodes": [{key: getattr(node, key) for key in _REPORTED_NODE_KEYS} for node in snapshot.nodes],
        "defs_version": run.defs_version if run else None,
        "rejected": snapshot.rejected,
        "duplicates": snapshot.duplicates,
        "warnings": [asdict(warning) for warning in snapshot.warnings],
        "fields": {name: _report_fields(data_def) for name, data_def in snapshot.data_defs.items()},
        "results": snapshot.results,
    }


def read_summary(db: Database, run: int, *, exit_code: int | None) -> str:
    """What `build_report` gives for a run now, as JSON."""
    return orjson.dumps(build_report(read(db, run=run), exit_code=exit_code)).decode()


def _report_fields(data_def: DataDefHealth) -> dict[str, dict[str, int]]:
    records = data_def.records
    return {name: {"filled": records - missing, "of": records} for name, missing in data_def.missing.items()}
