"""Writes the table `runs`: create, resume, change state and stage, end."""

import os
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import orjson
from msgspec import Struct, field, json
from msgspec.structs import asdict, replace

from crawl_engine.errors import CrawlError, UsageError
from crawl_engine.model.run import (
    NO_ETA,
    RUN_TRANSITIONS,
    STAGE_TRANSITIONS,
    Alarm,
    Eta,
    Judgement,
    RunState,
    SeedingProgress,
    Stage,
)
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import Database, source_states
from crawl_engine.store.tables.host import refusals

_COLUMNS = """
seq, id, state, stage, defs_version, seeded_version, base_url, paused, seconds, reason, created_at,
takeovers, rates AS judgement, exit_code
"""
_CREATE = """
INSERT INTO runs (id, created_at, base_url, arguments) SELECT ?1, ?2, ?3, ?4
WHERE NOT EXISTS (SELECT 1 FROM deleted_runs WHERE id = ?1) ON CONFLICT DO NOTHING RETURNING seq
"""
_SET_STATE = {
    state: f"UPDATE runs SET state = '{state}', reason = ? "
    f"WHERE seq = ? AND state IN {source_states(RUN_TRANSITIONS, state)}"
    for state in RunState
}
_ENTER_STAGE = {
    stage: f"UPDATE runs SET stage = '{stage}' WHERE seq = ? AND stage IN {source_states(STAGE_TRANSITIONS, stage)}"
    for stage in Stage
}
_SUPERSEDE = """
UPDATE runs SET state = 'KILLED', reason = 'its supervisor died, and a new run was started'
WHERE state IN ('NEW', 'SEEDING', 'READY', 'DRAINING')
"""
_BEGIN = """
UPDATE runs SET stage = ?, started_at = coalesce(started_at, ?), ended_at = NULL, reason = NULL, exit_code = NULL,
    failed_commands = NULL
WHERE seq = ?
"""
_EARLIER_BASELINE = """
SELECT id, baseline FROM runs
WHERE seq < ? AND state = 'DONE' AND baseline ->> '$.seeds' = ? ORDER BY seq DESC LIMIT 1
"""
_LAST_END = """
SELECT ended_at AS at, exit_code FROM runs WHERE exit_code IS NOT NULL AND ended_at IS NOT NULL
ORDER BY ended_at DESC LIMIT 1
"""
_ADD_TIME = "UPDATE runs SET seconds = seconds + ?, rates = ? WHERE seq = ?"
_PAUSE = """
UPDATE runs SET paused = CASE WHEN paused LIKE '%disk' THEN
    CASE WHEN CAST(:why AS TEXT) IS NULL THEN 'disk' ELSE 'operator, disk' END ELSE :why END
WHERE seq = :seq
"""
_HOLD_FOR_DISK = """
UPDATE runs SET paused = CASE WHEN paused LIKE 'operator%' THEN
    CASE WHEN :held = 1 THEN 'operator, disk' ELSE 'operator' END WHEN :held = 1 THEN 'disk' END
WHERE seq = :seq
"""
"""Both may hold a run at once, and each lets go of its own hold alone."""
_ADD_REEXTRACTED = "UPDATE runs SET reextracted = CASE WHEN ? = 1 THEN 0 ELSE reextracted END + ? WHERE seq = ?"
_IS_REEXTRACTING = """
SELECT reextraction IS NOT NULL OR EXISTS (
    SELECT 1 FROM sequences s WHERE s.run = :run AND s.kind = 'extract' AND s.ready + s.delayed + s.taken > 0)
FROM runs WHERE seq = :run
"""
_RECOUNT = """
UPDATE runs SET active_sequences = (
    SELECT count(*) FROM sequences WHERE run = :run AND ready + taken > 0 AND kind <> 'extract')
WHERE seq = :run
"""


class StaleSearch(Struct, omit_defaults=True):
    """How far the search for stale pages has come. Each number of a job counts the jobs up to it as searched."""

    upto: int = 0
    """The last job to search."""
    at: int = 0
    """Up to here stale pages are queued."""
    counted: int = 0
    """Up to here pages that no link leads to any more are counted."""
    expected: int = 0
    """Stale pages by the counters."""
    found: int = 0
    unlinked: int = 0
    lost: int = 0
    """Stale pages whose document is missing."""
    pruned: dict[str, int] = field(default_factory=dict)
    """Stale pages of groups that keep no documents."""
    before: dict[str, int] = field(default_factory=dict)
    """Rows of the changed dataDefs before."""
    groups: list[str] = field(default_factory=list)
    """Groups whose pages all count as stale."""
    targets: list[str] = field(default_factory=list)
    """Groups to which other links lead now."""


class _StoredJudgement(Judgement, frozen=True):
    """The column `rates`. `eta_at`: boot-time seconds."""

    eta: Eta = NO_ETA
    eta_at: float = 0.0


class Run(Struct, frozen=True):
    seq: int
    id: str
    state: RunState
    stage: Stage
    defs_version: int | None
    seeded_version: int | None
    base_url: str | None
    paused: str | None
    seconds: float
    reason: str | None
    created_at: float
    takeovers: int
    """How often the jobs of a dead node were requeued."""
    judgement: _StoredJudgement
    """What the supervisor judged last; so is `eta`."""
    exit_code: int | None = None
    """With which it ended; None: it has not, or a new run took its place."""
    eta: Eta = NO_ETA
    recorded_at: float = 0.0
    """The boot-time second of that."""


def _read(db: Database, rest: str, parameters: Sequence[Any] = ()) -> Run | None:
    run = db.row(Run, f"SELECT {_COLUMNS} FROM runs {rest}", parameters)
    if run is None:
        return None
    eta, at = run.judgement.eta, run.judgement.eta_at
    return replace(run, eta=_since_then(eta, at), recorded_at=at)


def _since_then(eta: Eta, at: float) -> Eta:
    """An estimate of that boot-time second, as it is now."""
    if not eta.seconds:
        return eta
    return replace(eta, seconds=round(max(1.0, eta.seconds - max(0.0, store_time() - at)), 1))


def _load(db: Database, seq: int, column: str, kind: Any) -> Any:
    """The value of a column with JSON; None where it is null, or the run was deleted."""
    with db.explain_json():
        return json.decode(db.value(f"SELECT {column} FROM runs WHERE seq = ?", (seq,)) or "null", type=kind)


def _store(db: Database, seq: int, column: str, value: Any) -> None:
    """Set a column with JSON."""
    text = None if value is None else json.encode(value).decode()
    db.execute(f"UPDATE runs SET {column} = ? WHERE seq = ?", (text, seq))


def latest(db: Database) -> Run | None:
    return _read(db, "ORDER BY seq DESC LIMIT 1")


def latest_unfinished(db: Database) -> Run | None:
    """The newest run, unless it is DONE."""
    run = latest(db)
    return run if run is not None and run.state is not RunState.DONE else None


def get(db: Database, seq: int) -> Run:
    """A run by its number. Raises UsageError if it was deleted since it was read."""
    run = _read(db, "WHERE seq = ?", (seq,))
    if run is None:
        raise UsageError("the run was deleted meanwhile", "See `crawl-console runs`.")
    return run


def get_by_id(db: Database, id_: str) -> Run | None:
    return _read(db, "WHERE id = ?", (id_,))


def list_ids(db: Database, count: int = 2**62) -> list[str]:
    return db.column("SELECT id FROM runs ORDER BY seq DESC LIMIT +?", (count,))


def oldest_id(db: Database) -> str | None:
    """The id of the oldest run; None: there is no run."""
    return db.value("SELECT id FROM runs ORDER BY seq LIMIT 1")


def list_done_ids(db: Database) -> list[str]:
    """The DONE runs, the newest first."""
    return db.column("SELECT id FROM runs WHERE state = 'DONE' ORDER BY seq DESC")


def create(
    db: Database, base_url: str | None, now: float, arguments: Mapping[str, str] = MappingProxyType({})
) -> Run:  # fmt: skip
    """Create a run with a new id of 6 hex digits. `arguments`: the values of `-a` by name."""
    while True:
        seq = db.value(_CREATE, (os.urandom(3).hex(), now, base_url, orjson.dumps(dict(arguments)).decode()))
        if seq is not None:
            return get(db, int(seq))


def get_arguments(db: Database, seq: int) -> dict[str, str]:
    """The values of `-a` with which a run was started."""
    return _load(db, seq, "arguments", dict[str, str])


def supersede(db: Database) -> None:
    """Before a new run: mark runs that crashed supervisors left open as KILLED."""
    db.execute(_SUPERSEDE)


def begin(db: Database, seq: int, now: float) -> None:
    """A supervisor starts or resumes the run: its stages start over."""
    db.execute(_BEGIN, (Stage.INIT, now, seq))


def set_state(db: Database, seq: int, state: RunState, reason: str | None = None) -> bool:
    """Change the state if the transition is allowed, else return False."""
    return bool(db.execute(_SET_STATE[state], (reason, seq)).rowcount)


def enter_stage(db: Database, seq: int, stage: Stage) -> None:
    """Enter the next stage. Raises CrawlError if the transition is not allowed, which is a bug."""
    if not db.execute(_ENTER_STAGE[stage], (seq,)).rowcount:
        raise CrawlError(f"run {seq}: no transition from stage {get(db, seq).stage} to {stage}")


class MissedExpectation(NamedTuple):
    """Something that was expected of the rows of a run and not met; of a dataDef, or of all together."""

    text: str
    data_def: str | None = None


def set_seeding(db: Database, run: int, progress: SeedingProgress | None) -> None:
    """Store how far the list of seeds that is read now is read; None: no list is."""
    _store(db, run, "seeding", progress)


def get_seeding(db: Database, run: int) -> SeedingProgress | None:
    """How far a list of seeds is read; None: no list is read now."""
    return _load(db, run, "seeding", SeedingProgress | None)


def set_empty_seeds(db: Database, run: int, group: str, lists: list[str]) -> None:
    """Store which lists of URLs of a group were empty when it was seeded."""
    by_group = (_load(db, run, "empty_seeds", dict[str, list[str]] | None) or {}) | {group: lists}
    _store(db, run, "empty_seeds", {name: empty for name, empty in by_group.items() if empty})


def list_empty_seeds(db: Database, run: int) -> list[tuple[str, str]]:
    """Group and name of each list of URLs that was empty."""
    by_group = _load(db, run, "empty_seeds", dict[str, list[str]] | None) or {}
    return [(group, name) for group, names in by_group.items() for name in names]


class FoundWarning(NamedTuple):
    """A warning that is looked for once: it costs more than counters."""

    code: str
    text: str
    subject: str | None = None


def set_found(db: Database, run: int, finder: str, warnings: list[FoundWarning]) -> None:
    """Store what `finder` found, in place of what it found before."""
    _store(db, run, "found", list_found(db, run) | {finder: warnings})


def list_found(db: Database, run: int) -> dict[str, list[FoundWarning]]:
    """By finder."""
    return _load(db, run, "found", dict[str, list[FoundWarning]] | None) or {}


def add_failed_command(db: Database, run: int, setting: str, problem: str) -> None:
    """Record why the command of a setting failed; a later failure replaces it."""
    _store(db, run, "failed_commands", list_failed_commands(db, run) | {setting: problem})


def list_failed_commands(db: Database, run: int) -> dict[str, str]:
    """By setting, why its command failed last."""
    return _load(db, run, "failed_commands", dict[str, str] | None) or {}


def set_missed(db: Database, run: int, missed: list[MissedExpectation]) -> None:
    """Store what a run that ends did not meet."""
    _store(db, run, "missed", missed)


def list_missed(db: Database, run: int) -> list[MissedExpectation]:
    """What the run did not meet when it last ended."""
    return _load(db, run, "missed", list[MissedExpectation] | None) or []


class Drop(NamedTuple):
    """A field (empty: the rows) of a dataDef that became much rarer during the run; `ended`: it recovered."""

    data_def: str
    field: str
    text: str
    ended: bool
    host: str | None = None
    """The host whose pages lack it; None: those of all, or of several."""
    before: float = 0.0
    """How often it was filled before, in each record: it recovers at half of that."""
    hosts: tuple[int, ...] = ()
    """The hosts, by id, whose pages alone lack it; empty: those of all."""

    @property
    def key(self) -> tuple[str, str, str | None]:
        return self.data_def, self.field, self.host


def set_drops(db: Database, run: int, drops: list[Drop]) -> None:
    _store(db, run, "drops", drops)


def list_drops(db: Database, run: int) -> list[Drop]:
    """What became rarer, in the order in which that was noticed."""
    return _load(db, run, "drops", list[Drop] | None) or []


def set_alarms(db: Database, run: int, alarms: list[Alarm]) -> None:
    _store(db, run, "alarms", alarms)


def list_alarms(db: Database, run: int) -> list[Alarm]:
    """The stored alarms."""
    return _load(db, run, "alarms", list[Alarm] | None) or []


def list_acknowledged(db: Database, run: int) -> frozenset[str]:
    """The keys of the alarms that an operator acknowledged."""
    return _load(db, run, "acknowledged", frozenset[str] | None) or frozenset()


def acknowledge(db: Database, run: int, added: Collection[str], removed: Collection[str] = ()) -> None:
    """Add the keys of alarms to those that an operator acknowledged, and remove others."""
    _store(db, run, "acknowledged", sorted({*list_acknowledged(db, run), *added} - set(removed)))


class GivenRows(NamedTuple):
    """What a dataDef gave in a run: rows, records, and in how many each field was filled."""

    rows: int
    records: int
    filled: dict[str, int]


class Baseline(Struct, frozen=True):
    """What a complete run gave, by dataDef. `seeds`: a hash of what it started from."""

    seeds: str
    data_defs: dict[str, GivenRows]


def set_baseline(db: Database, run: int, baseline: Baseline | None) -> None:
    """Store what a run gave; None where it is not complete."""
    _store(db, run, "baseline", baseline)


def find_comparable(db: Database, run: int) -> tuple[Baseline, str, Baseline] | None:
    """What a run gave; id and baseline of the last complete run before it with the same seeds, if any."""
    baseline = _load(db, run, "baseline", Baseline | None)
    if baseline is None:
        return None
    earlier = db.one(_EARLIER_BASELINE, (run, baseline.seeds))
    return None if earlier is None else (baseline, str(earlier[0]), json.decode(earlier[1], type=Baseline))


def end(db: Database, seq: int, now: float, exit_code: int, reason: str | None) -> None:
    """Record the end of a run, why, and the exit code with which it ends on each machine.

    A resumed run may end again before its state has changed: its reason is that of now.
    """
    db.execute("UPDATE runs SET ended_at = ?, exit_code = ?, reason = ? WHERE seq = ?", (now, exit_code, reason, seq))


def get_ended_at(db: Database, seq: int) -> float | None:
    """When a run ended, wall clock; None: it has not."""
    return db.value("SELECT ended_at FROM runs WHERE seq = ?", (seq,))


def last_success(db: Database) -> float | None:
    """When a run last ended with exit code 0, wall clock; None: no run has."""
    return db.value("SELECT max(ended_at) FROM runs WHERE exit_code = 0")


class LastEnd(Struct, frozen=True):
    """When a run ended, wall clock, and how."""

    at: float
    exit_code: int


def last_end(db: Database) -> LastEnd | None:
    """The end of the run that ended last; None: none has. A run whose supervisor was killed has not ended."""
    return db.row(LastEnd, _LAST_END)


def get_exit_code(db: Database, seq: int) -> int | None:
    """The exit code of a run that has ended; None: it has not."""
    row = db.one("SELECT exit_code FROM runs WHERE seq = ?", (seq,))
    return None if row is None or row[0] is None else int(row[0])


def add_time(db: Database, seq: int, seconds: float, judgement: Judgement, eta: Eta) -> None:
    """Add time under a supervisor, with what it judges now."""
    stored = _StoredJudgement(**asdict(judgement), eta=eta, eta_at=store_time())
    db.execute(_ADD_TIME, (seconds, json.encode(stored).decode(), seq))


def set_slots(db: Database, seq: int, slots: int) -> None:
    """Set the concurrency of all runners together."""
    db.execute("UPDATE runs SET slots = ? WHERE seq = ?", (slots, seq))


def pause(db: Database, seq: int, why: Literal["operator"] | None) -> None:
    """Pause leases for an operator, or end that pause (None); a pause for a full disk is independent of it."""
    db.execute(_PAUSE, {"why": why, "seq": seq})
    if why is None:
        refusals.stop_clocks(db, seq)


def hold_for_disk(db: Database, seq: int, held: bool) -> None:
    """Pause leases while the disk is nearly full; an operator's pause stays."""
    db.execute(_HOLD_FOR_DISK, {"held": held, "seq": seq})
    if not held:
        refusals.stop_clocks(db, seq)


def count_takeover(db: Database, seq: int) -> None:
    """Count a dead node whose jobs were requeued."""
    db.execute("UPDATE runs SET takeovers = takeovers + 1 WHERE seq = ?", (seq,))


def set_version(db: Database, seq: int, version: int) -> None:
    db.execute("UPDATE runs SET defs_version = ? WHERE seq = ?", (version, seq))


def mark_seeded(db: Database, seq: int, version: int) -> None:
    """Record that all locators of that version have jobs."""
    db.execute("UPDATE runs SET seeded_version = ? WHERE seq = ? AND defs_version = ?", (version, seq, version))


def set_base_url(db: Database, seq: int, base_url: str) -> None:
    db.execute("UPDATE runs SET base_url = ? WHERE seq = ?", (base_url, seq))


def set_reextraction(db: Database, seq: int, search: StaleSearch | None) -> None:
    """Set the search for stale pages; None: the re-extraction is over."""
    _store(db, seq, "reextraction", search)


def get_reextraction(db: Database, seq: int) -> tuple[StaleSearch | None, int]:
    """The value of `set_reextraction`, and the number of pages re-extracted since the defs changed."""
    count = db.value("SELECT reextracted FROM runs WHERE seq = ?", (seq,))
    return _load(db, seq, "reextraction", StaleSearch | None), count


def add_reextracted(db: Database, seq: int, pages: int, *, reset: bool = False) -> None:
    """Add re-extracted pages; `reset`: count from 0."""
    db.execute(_ADD_REEXTRACTED, (int(reset), pages, seq))


def is_reextracting(db: Database, seq: int) -> bool:
    return bool(db.value(_IS_REEXTRACTING, {"run": seq}))


def set_relinking(db: Database, seq: int, relinking: bool) -> None:
    """Start or stop recording which pages the links of processed pages lead to."""
    db.execute("UPDATE runs SET relinking = ? WHERE seq = ?", (int(relinking), seq))


def set_extract_only(db: Database, seq: int, only: bool) -> None:
    """Lease only re-extractions, or (False) all jobs."""
    db.execute("UPDATE runs SET extract_only = ? WHERE seq = ?", (int(only), seq))


def recount(db: Database, seq: int) -> None:
    db.execute(_RECOUNT, {"run": seq})
