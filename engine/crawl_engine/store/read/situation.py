"""Reads the situation of a run: all that its alarms and the estimate of its end are judged by."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
from msgspec import Struct, field

from crawl_engine.model.run import RunState, Stage
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.read import snapshot
from crawl_engine.store.read.data_warnings import DataWarning, find_warnings
from crawl_engine.store.read.snapshot import NodeRow, OutputRow
from crawl_engine.store.tables.host import host_speeds, hosts
from crawl_engine.store.tables.row import health, rows
from crawl_engine.store.tables.run import page_limits, supervisors
from crawl_engine.store.tables.run.runs import Run

_SEQUENCES = """
SELECT id, host,
    paused <> 0 OR absent = 1 OR host IN (SELECT id FROM hosts WHERE run = :run AND paused <> 0) AS paused,
    ready + delayed + taken AS "left", taken, done, failed, skipped + incomplete AS other
FROM sequences WHERE run = :run AND kind = 'page'
"""
_APPENDER_LOST = """
SELECT EXISTS (SELECT 1 FROM appenders WHERE supervisor IN (SELECT epoch FROM supervisors WHERE ended_at IS NULL)
        AND state IN ('DEAD', 'FAILED'))
    AND NOT EXISTS (SELECT 1 FROM appenders WHERE run = ? AND ended_at IS NULL AND beat_age IS NOT NULL)
"""
_HOSTS = f"""
SELECT h.id, h.key, {hosts.EFFECTIVE_DELAY} AS delay, {hosts.BACKOFF_UNTIL} AS backoff_until, h.strikes,
    h.rest_reason, h.paused, h.errors, h.blocked
FROM json_each(?) i CROSS JOIN hosts h ON h.id = i.value
"""


class HostWork(Struct, omit_defaults=True):
    """The pages of a host, and how it answered."""

    left: float = 0.0
    """Those that limits still allow, without those of paused sequences and of groups that the defs lack."""
    ended: int = 0
    key: str = ""
    """Empty: nothing changed since it was judged last, and what follows was not read."""
    delay: float = 0.0
    backoff_until: float | None = None
    """Boot-time seconds."""
    strikes: int = 0
    rest_reason: str | None = None
    """What it answered when its last rest began; None: it has served a page since."""
    silent: float = 0.0
    """Seconds since it answered last, or was asked first since then, while requests are in flight."""
    waiting: int = 0
    """All its pages that have not ended."""
    paused_pages: int = 0
    """Those of them that wait for an operator, or for defs that have their group."""
    paused: bool = False
    """Whether an operator paused it, or a lost login did."""
    answers: dict[int, int] = field(default_factory=dict)
    """Its answers so far, by status; 0: requests without an answer."""
    bad: int = 0
    """Those of them that are bad; `refused` ones are among them."""
    refused: int = 0
    done: int = 0
    """Of the ended pages."""

    def rest(self, now: float) -> float:
        """Seconds until it may be asked again. `now`: boot-time seconds."""
        return max(0.0, (self.backoff_until or 0.0) - now)


class Situation(Struct, omit_defaults=True):
    """A run at a moment. It can be stored as JSON, to be judged again."""

    at: float
    """Boot-time seconds."""
    state: RunState = RunState.READY
    stage: Stage = Stage.RUNNING
    paused: str | None = None
    reason: str | None = None
    max_pages: int | None = None
    hosts: dict[int, HostWork] = field(default_factory=dict)
    """By id."""
    total: int = 0
    """All its pages so far."""
    waiting: int = 0
    """Those that have not ended."""
    paused_pages: int = 0
    """Pages of paused sequences and hosts."""
    open_sequences: dict[int, int] = field(default_factory=dict)
    """Those with pages left, by id: all their pages so far."""
    run_room: float | None = None
    """Pages that the limit of the run still allows, with those that are asked for now."""
    max_time_left: float | None = None
    """Seconds until `max_time`."""
    deadline: float = 0.0
    """Seconds that a request may take."""
    disk: str = ""
    """The nearly full disk."""
    nodes: list[NodeRow] = field(default_factory=list)
    outputs: list[OutputRow] = field(default_factory=list)
    newest_row: int = 0
    """Its id; 0: there is none."""
    appender_lost: bool = False
    """Whether the appender died, and the next one is not at work yet."""
    warnings: list[DataWarning] = field(default_factory=list)
    defs_problems: list[dict[str, Any]] = field(default_factory=list)
    """Why the defs on disk are not in use."""
    defs_saved: dict[str, Any] | None = None
    """Defs on disk that wait to be published."""


class _SequencePages(NamedTuple):
    id: int
    host: int
    paused: bool
    left: int
    taken: int
    done: int
    failed: int
    other: int


class _HostRow(NamedTuple):
    id: int
    key: str
    delay: float
    backoff_until: float | None
    strikes: int
    rest_reason: str | None
    paused: bool
    errors: int
    blocked: int


def read(db: Database, run: Run, settled: Mapping[int, int] = MappingProxyType({})) -> Situation:
    """The situation of a run, from its counters.

    `settled`: hosts without a page left, by id; one that still has so many ended pages is not read again.
    """
    situation = Situation(
        store_time(), run.state, run.stage, run.paused, run.reason,
        nodes=snapshot.list_nodes(db, run.seq), outputs=snapshot.list_outputs(db, run.seq),
        newest_row=rows.last_id_of_all_runs(db), appender_lost=bool(db.value(_APPENDER_LOST, (run.seq,))),
        warnings=find_warnings(db, run, health.read(db, run.seq)),
        defs_problems=orjson.loads(supervisors.get_meta(db, "defs_problems") or "[]"),
        defs_saved=orjson.loads(supervisors.get_meta(db, "defs_saved") or "null"),
    )  # fmt: skip
    _count_pages(db, run, situation)
    _read_hosts(db, situation, settled)
    return situation


def _count_pages(db: Database, run: Run, situation: Situation) -> None:
    open_parts: dict[int, tuple[HostWork, _SequencePages]] = {}
    taken = 0
    for pages in db.rows(_SequencePages, _SEQUENCES, {"run": run.seq}):
        of_host = situation.hosts.setdefault(pages.host, HostWork())
        of_host.ended += pages.done + pages.failed
        of_host.done += pages.done
        of_host.waiting += pages.left
        total = pages.left + pages.done + pages.failed + pages.other
        situation.total += total
        situation.waiting += pages.left
        if pages.left:
            situation.open_sequences[pages.id] = total
        if pages.paused:
            situation.paused_pages += pages.left
            of_host.paused_pages += pages.left
            continue
        open_parts[pages.id] = of_host, pages
        taken += pages.taken
    rooms = {(room.code, room.name): room for room in page_limits.list_rooms(db, run.seq)}
    has_members = any(not room.limit.ends_run for room in rooms.values())
    members: dict[tuple[str, str], list[int]] = {}
    for sequence, code, name in page_limits.list_members(db, run.seq) if has_members else ():
        if sequence in open_parts:
            members.setdefault((code, name), []).append(sequence)
    shares = dict.fromkeys(open_parts, 1.0)
    for limit, ids in members.items():
        members_left = [open_parts[id_][1] for id_ in ids]
        waiting = sum(pages.left for pages in members_left)
        allowed = rooms[limit].left + sum(pages.taken for pages in members_left)  # what is asked for now is reserved
        for id_ in ids if waiting else ():
            shares[id_] = min(shares[id_], allowed / waiting)
    for id_, (of_host, pages) in open_parts.items():
        of_host.left += pages.left * shares[id_]
    for room in rooms.values():
        if room.limit.ends_run:
            situation.max_pages, situation.run_room = room.most, room.left + taken


def _read_hosts(db: Database, situation: Situation, settled: Mapping[int, int]) -> None:
    """What hosts answered, but for those that are as they were."""
    ids = [id_ for id_, work in situation.hosts.items() if work.waiting or settled.get(id_) != work.ended]
    answers = host_speeds.list_answers(db, ids)
    for host in db.rows(_HostRow, _HOSTS, (id_list(ids),)):
        work = situation.hosts[host.id]
        work.key, work.delay, work.backoff_until, work.paused = host.key, host.delay, host.backoff_until, host.paused
        work.strikes, work.rest_reason = host.strikes, host.rest_reason
        work.answers, work.bad, work.refused = answers.get(host.id, {}), host.errors + host.blocked, host.blocked
