"""Writes the table `runs`: create, resume, change state and stage, end."""

import os
from typing import Literal, NamedTuple

import orjson
from msgspec import Struct
from msgspec.structs import asdict, replace

from engine.errors import CrawlError
from engine.model.run import NO_ETA, RUN_TRANSITIONS, STAGE_TRANSITIONS, Eta, RunState, Stage
from engine.runtime.clock import boottime
from engine.store.db.connector import Database, source_states

_COLUMNS = """
seq, id, state, stage, defs_version, seeded_version, base_url, paused, seconds, reason, max_pages, created_at, rates
"""
_LATEST = f"SELECT {_COLUMNS} FROM runs ORDER BY seq DESC LIMIT 1"
_BY_SEQ = f"SELECT {_COLUMNS} FROM runs WHERE seq = ?"
_BY_ID = f"SELECT {_COLUMNS} FROM runs WHERE id = ?"
_IDS = "SELECT id FROM runs ORDER BY seq DESC LIMIT +?"
_CREATE = "INSERT INTO runs (id, created_at, base_url) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING seq"
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
_BEGIN = "UPDATE runs SET stage = ?, started_at = coalesce(started_at, ?), ended_at = NULL, reason = NULL WHERE seq = ?"
_END = "UPDATE runs SET ended_at = ? WHERE seq = ?"
_SET_EMPTY_SEEDS = "UPDATE runs SET empty_seeds = json_patch(coalesce(empty_seeds, '{}'), ?) WHERE seq = ?"
_EMPTY_SEEDS = "SELECT empty_seeds FROM runs WHERE seq = ?"
_SET_MISSED = "UPDATE runs SET missed = ? WHERE seq = ?"
_MISSED = "SELECT missed FROM runs WHERE seq = ?"
_SET_DROPS = "UPDATE runs SET drops = ? WHERE seq = ?"
_DROPS = "SELECT drops FROM runs WHERE seq = ?"
_SET_BASELINE = "UPDATE runs SET baseline = ? WHERE seq = ?"
_BASELINE = "SELECT baseline FROM runs WHERE seq = ?"
_EARLIER_BASELINE = """
SELECT id, baseline FROM runs
WHERE seq < ? AND state = 'DONE' AND json_extract(baseline, '$.seeds') = ? ORDER BY seq DESC LIMIT 1
"""
_ADD_TIME = "UPDATE runs SET seconds = seconds + ?, rates = ? WHERE seq = ?"
_SLOTS = "UPDATE runs SET slots = ? WHERE seq = ?"
_PAUSE = """
UPDATE runs SET paused = CASE WHEN paused LIKE '%disk' THEN iif(:why IS NULL, 'disk', 'operator, disk') ELSE :why END
WHERE seq = :seq
"""
_HOLD_FOR_DISK = """
UPDATE runs SET paused = CASE WHEN paused LIKE 'operator%' THEN iif(:held, 'operator, disk', 'operator')
    WHEN :held THEN 'disk' END
WHERE seq = :seq
"""
"""Both may hold a run at once, and each lets go of its own hold alone."""
_COUNT_TAKEOVER = "UPDATE runs SET takeovers = takeovers + 1 WHERE seq = ?"
_VERSION = "UPDATE runs SET defs_version = ? WHERE seq = ?"
_MARK_SEEDED = "UPDATE runs SET seeded_version = ? WHERE seq = ? AND defs_version = ?"
_LIMITS = "UPDATE runs SET max_pages = ?, base_url = coalesce(?, base_url) WHERE seq = ?"
_SET_REEXTRACTION = "UPDATE runs SET reextraction = ? WHERE seq = ?"
_REEXTRACTION = "SELECT reextraction, reextracted FROM runs WHERE seq = ?"
_ADD_REEXTRACTED = "UPDATE runs SET reextracted = CASE WHEN ? THEN 0 ELSE reextracted END + ? WHERE seq = ?"
_IS_REEXTRACTING = """
SELECT reextraction IS NOT NULL OR EXISTS (
    SELECT 1 FROM sequences s WHERE s.run = :run AND s.kind = 'extract' AND s.ready + s.delayed + s.taken > 0)
FROM runs WHERE seq = :run
"""
_SET_RELINKING = "UPDATE runs SET relinking = ? WHERE seq = ?"
_EXTRACT_ONLY = "UPDATE runs SET extract_only = ? WHERE seq = ?"
_RECOUNT = """
UPDATE runs SET active_sequences = (
    SELECT count(*) FROM sequences WHERE run = :run AND ready + taken > 0 AND kind <> 'extract')
WHERE seq = :run
"""


class Run(Struct, frozen=True):
    """A row of `runs`."""

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
    max_pages: int | None
    created_at: float
    rates: dict[str, float]
    """`pages_per_s` and `rows_per_s` over the last seconds under a supervisor."""
    eta: Eta = NO_ETA
    """As the supervisor estimated it last."""


def _to_run(row: tuple[object, ...] | None) -> Run | None:
    if row is None:
        return None
    seq, id_, state, stage, *rest, rates = row
    parsed = orjson.loads(str(rates))
    eta = _since_then(Eta(**parsed.pop("eta", {})), float(parsed.pop("eta_at", 0.0)))
    return Run(int(str(seq)), str(id_), RunState(str(state)), Stage(str(stage)), *rest, parsed, eta)  # type: ignore[arg-type, call-arg]


def _since_then(eta: Eta, at: float) -> Eta:
    """An estimate of that boot-time second, as it is now."""
    if not eta.seconds:
        return eta
    return replace(eta, seconds=round(max(1.0, eta.seconds - max(0.0, boottime() - at)), 1))


def latest(db: Database) -> Run | None:
    """The newest run."""
    return _to_run(db.one(_LATEST))


def latest_unfinished(db: Database) -> Run | None:
    """The newest run, unless it is DONE."""
    run = latest(db)
    return run if run is not None and run.state is not RunState.DONE else None


def get(db: Database, seq: int) -> Run:
    """The run with that number."""
    run = _to_run(db.one(_BY_SEQ, (seq,)))
    assert run is not None
    return run


def get_by_id(db: Database, id_: str) -> Run | None:
    """The run with that id."""
    return _to_run(db.one(_BY_ID, (id_,)))


def list_ids(db: Database, count: int) -> list[str]:
    """The ids of the newest runs, newest first."""
    return [str(row[0]) for row in db.all(_IDS, (count,))]


def create(db: Database, base_url: str | None, now: float) -> Run:
    """Create a run with a new id of 6 hex digits."""
    while True:
        seq = db.value(_CREATE, (os.urandom(3).hex(), now, base_url))
        if seq is not None:
            return get(db, int(seq))


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


def set_empty_seeds(db: Database, run: int, group: str, lists: list[str]) -> None:
    """Store which lists of URLs of a group were empty when it was seeded."""
    db.execute(_SET_EMPTY_SEEDS, (orjson.dumps({group: lists or None}).decode(), run))


def list_empty_seeds(db: Database, run: int) -> list[tuple[str, str]]:
    """Group and name of each list of URLs that was empty."""
    by_group = orjson.loads(db.value(_EMPTY_SEEDS, (run,)) or "{}")
    return [(group, name) for group, names in by_group.items() for name in names]


def set_missed(db: Database, run: int, missed: list[MissedExpectation]) -> None:
    """Store what a run that ends did not meet."""
    db.execute(_SET_MISSED, (orjson.dumps([list(one) for one in missed]).decode(), run))


def list_missed(db: Database, run: int) -> list[MissedExpectation]:
    """What the run did not meet when it last ended."""
    return [MissedExpectation(*one) for one in orjson.loads(db.value(_MISSED, (run,)) or "[]")]


class Drop(NamedTuple):
    """A field (empty: the rows) of a dataDef that became much rarer during the run; `ended`: it recovered."""

    data_def: str
    field: str
    text: str
    ended: bool


def set_drops(db: Database, run: int, drops: list[Drop]) -> None:
    """Store what became rarer."""
    db.execute(_SET_DROPS, (orjson.dumps([list(drop) for drop in drops]).decode(), run))


def list_drops(db: Database, run: int) -> list[Drop]:
    """What became rarer, in the order in which that was noticed."""
    return [Drop(*drop) for drop in orjson.loads(db.value(_DROPS, (run,)) or "[]")]


class GivenRows(NamedTuple):
    """What a dataDef gave in a run: rows, records, and in how many each field was filled."""

    rows: int
    records: int
    filled: dict[str, int]


class Baseline(NamedTuple):
    """What a complete run gave, by dataDef. `seeds`: a hash of what it started from."""

    seeds: str
    data_defs: dict[str, GivenRows]


def set_baseline(db: Database, run: int, baseline: Baseline | None) -> None:
    """Store what a run gave; None where it is not complete."""
    text = None
    if baseline is not None:
        given = {name: list(of_data_def) for name, of_data_def in baseline.data_defs.items()}
        text = orjson.dumps({"seeds": baseline.seeds, "data_defs": given}).decode()
    db.execute(_SET_BASELINE, (text, run))


def find_comparable(db: Database, run: int) -> tuple[Baseline, str, Baseline] | None:
    """What a run gave; id and baseline of the last complete run before it with the same seeds; None: there is none."""
    own = db.value(_BASELINE, (run,))
    if own is None:
        return None
    baseline = _to_baseline(own)
    earlier = db.one(_EARLIER_BASELINE, (run, baseline.seeds))
    return None if earlier is None else (baseline, str(earlier[0]), _to_baseline(earlier[1]))


def _to_baseline(text: str) -> Baseline:
    parsed = orjson.loads(text)
    return Baseline(parsed["seeds"], {name: GivenRows(*given) for name, given in parsed["data_defs"].items()})


def end(db: Database, seq: int, now: float) -> None:
    """Record when the run stopped, for good or until it is resumed."""
    db.execute(_END, (now, seq))


def add_time(db: Database, seq: int, seconds: float, rates: dict[str, float], eta: Eta) -> None:
    """Add time under a supervisor, with the rates of the last seconds, and the estimate of its end."""
    db.execute(_ADD_TIME, (seconds, orjson.dumps({**rates, "eta": asdict(eta), "eta_at": boottime()}).decode(), seq))


def set_slots(db: Database, seq: int, slots: int) -> None:
    """Set the concurrency of all runners together."""
    db.execute(_SLOTS, (slots, seq))


def pause(db: Database, seq: int, why: Literal["operator"] | None) -> None:
    """Pause leases for an operator, or end that pause (None); a pause for a full disk is independent of it."""
    db.execute(_PAUSE, {"why": why, "seq": seq})


def hold_for_disk(db: Database, seq: int, held: bool) -> None:
    """Pause leases while the disk is nearly full; an operator's pause stays."""
    db.execute(_HOLD_FOR_DISK, {"held": held, "seq": seq})


def count_takeover(db: Database, seq: int) -> None:
    """Count a dead node whose jobs were requeued."""
    db.execute(_COUNT_TAKEOVER, (seq,))


def set_version(db: Database, seq: int, version: int) -> None:
    """Set the def version for new leases."""
    db.execute(_VERSION, (version, seq))


def mark_seeded(db: Database, seq: int, version: int) -> None:
    """Record that all locators of that version have jobs."""
    db.execute(_MARK_SEEDED, (version, seq, version))


def set_limits(db: Database, seq: int, max_pages: int | None, base_url: str | None) -> None:
    """Set the options of this start of the run."""
    db.execute(_LIMITS, (max_pages, base_url, seq))


def set_reextraction(db: Database, seq: int, search: str | None) -> None:
    """Set the progress of the search for stale pages, as JSON; None: the re-extraction is over."""
    db.execute(_SET_REEXTRACTION, (search, seq))


def get_reextraction(db: Database, seq: int) -> tuple[str | None, int]:
    """The value of `set_reextraction`, and the number of pages re-extracted since the defs changed."""
    row = db.one(_REEXTRACTION, (seq,))
    assert row is not None
    return row[0], int(row[1])


def add_reextracted(db: Database, seq: int, pages: int, *, reset: bool = False) -> None:
    """Add re-extracted pages; `reset`: count from 0."""
    db.execute(_ADD_REEXTRACTED, (int(reset), pages, seq))


def is_reextracting(db: Database, seq: int) -> bool:
    """Whether a re-extraction is in progress."""
    return bool(db.value(_IS_REEXTRACTING, {"run": seq}))


def set_relinking(db: Database, seq: int, relinking: bool) -> None:
    """Start or stop recording which pages the links of processed pages lead to."""
    db.execute(_SET_RELINKING, (int(relinking), seq))


def set_extract_only(db: Database, seq: int, only: bool) -> None:
    """Lease only re-extractions, or (False) all jobs."""
    db.execute(_EXTRACT_ONLY, (int(only), seq))


def recount(db: Database, seq: int) -> None:
    """Recount the active sequences."""
    db.execute(_RECOUNT, {"run": seq})
