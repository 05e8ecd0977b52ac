"""Reads the hosts of a run: their limits, waits, answers and speed."""

from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from crawl_engine.model.host import TROUBLE, HostState, count_by_class
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.db.filter import HostFilter, host_conditions, join_conditions
from crawl_engine.store.tables.host import host_speeds, hosts

_HOSTS = f"""
SELECT h.id, h.key AS "row.host",
    (SELECT coalesce(sum(taken), 0) FROM sequences WHERE host = h.id AND kind <> 'extract') AS "row.running",
    (SELECT coalesce(sum(ready + delayed + taken), 0) FROM sequences WHERE host = h.id AND kind <> 'extract')
        AS "row.waiting",
    {hosts.EFFECTIVE_DELAY} AS "row.delay", {hosts.EFFECTIVE_CONCURRENCY} AS "row.concurrency",
    {hosts.NEXT_AT} AS "row.next_in", {hosts.BACKOFF_UNTIL} AS "row.backoff", h.strikes AS "row.strikes",
    h.throttled AS "row.throttled", h.errors AS "row.errors", h.blocked AS "row.blocked",
    lower(h.robots) AS "row.robots", h.robots_status AS "row.robots_status",
    (SELECT coalesce(sum(done), 0) FROM sequences WHERE host = h.id AND kind = 'page') AS "row.pages",
    (SELECT coalesce(sum(records), 0) FROM host_health WHERE host = h.id AND field = '') AS "row.records",
    (SELECT coalesce(sum(rejected), 0) FROM host_health WHERE host = h.id AND field = '') AS "row.rejected",
    (SELECT coalesce(sum(failed), 0) FROM sequences WHERE host = h.id AND kind = 'page') AS "row.failed",
    h.gone AS "row.gone", coalesce(v.bytes, 0) AS "row.bytes", v.p50 AS "row.p50", v.p95 AS "row.p95",
    coalesce(v.recent_p50, '[]') AS "row.recent_p50", v.eta AS "row.eta", h.paused AS "row.paused",
    h.operator_delay AS "row.operator_delay", h.operator_concurrency AS "row.operator_concurrency",
    lower(h.login) AS "row.login", coalesce(h.content_signal, '{{}}') AS "row.content_signal",
    coalesce(v.state, 'unasked') AS "row.state", coalesce(v.pages_per_s, 0) AS "row.pages_per_s",
    v.silent_since AS "row.silent"
FROM hosts h LEFT JOIN host_speeds v ON v.host = h.id WHERE h.run = ?
"""
_FIRST_HOSTS = f"{_HOSTS} ORDER BY h.id LIMIT +?"
_CHOSEN_HOSTS = f"{_HOSTS} AND h.id IN (SELECT value FROM json_each(?)) ORDER BY h.id"
_BUSY = """
SELECT DISTINCT host FROM sequences WHERE run = ? AND kind <> 'extract' AND {} LIMIT +?
"""
_AT_WORK, _WAITING = _BUSY.format("taken > 0"), _BUSY.format("ready + delayed > 0")
_FIRST_IDS = "SELECT id FROM hosts WHERE run = ? ORDER BY id LIMIT +?"
_SHOWN_STATE = "CASE WHEN h.paused > 0 THEN 'paused' ELSE coalesce(v.state, 'unasked') END"
_IDS = f"""
SELECT h.id, h.key FROM hosts h LEFT JOIN host_speeds v ON v.host = h.id WHERE h.run = ?{{conditions}}
ORDER BY {_SHOWN_STATE} NOT IN ({", ".join(f"'{state}'" for state in TROUBLE)}),
    NOT EXISTS (SELECT 1 FROM sequences WHERE host = h.id AND kind <> 'extract' AND ready + delayed + taken > 0), h.id
"""
_ONE_HOST = f"{_HOSTS} AND h.key = ?"
_RUNNING = f"""
SELECT total(min(taken, concurrency)) FROM (
    SELECT total(s.taken) AS taken, max({hosts.EFFECTIVE_CONCURRENCY}) AS concurrency
    FROM sequences s CROSS JOIN hosts h ON h.id = s.host
    WHERE s.run = ? AND s.taken > 0 AND s.kind <> 'extract' GROUP BY coalesce(h.pool, h.key)) busy
"""


class HostRow(Struct, frozen=True):
    """A host. Field names and their order are the keys of `status --json`; durations are in seconds."""

    host: str
    running: int
    waiting: int
    delay: float
    concurrency: int
    next_in: float | None
    """Until its next request may be sent; None: now. So is `backoff`."""
    backoff: float | None
    strikes: int
    throttled: int
    errors: int
    """Bad answers besides `blocked`."""
    blocked: int
    """Answers that refused the crawler, 429 and 503 included."""
    robots: str
    robots_status: int | None
    pages: int
    records: int
    rejected: int
    failed: int = 0
    """Pages."""
    gone: int = 0
    """404 and 410 for links."""
    answers: dict[str, int] = field(default_factory=dict)
    """By class of status, in the order of STATUS_CLASSES; classes without answers are left out."""
    bytes: int = 0
    p50: float | None = None
    """Of its answers in the last minute it had some; so is `p95`."""
    p95: float | None = None
    recent_p50: tuple[float | None, ...] = ()
    """Of each of the last intervals of five seconds; None: no answer."""
    eta: float | None = None
    """Estimated until its pages have ended."""
    paused: bool = False
    """Whether an operator paused it; the next two: what an operator set in place of the defs' values."""
    operator_delay: float | None = None
    operator_concurrency: int | None = None
    login: str = "off"
    """off, wanted (its pages wait for it), done or failed."""
    content_signal: dict[str, str] = field(default_factory=dict)
    """What its robots.txt says of the use of pages: by use, `yes` or `no`."""

    state: HostState = HostState.UNASKED
    """As the supervisor judged it last."""
    pages_per_s: float = 0.0
    silent: float | None = None
    """Seconds since it answered last, or was asked first, if its state is `silent`."""

    @property
    def bad_answers(self) -> int:
        return self.errors + self.blocked

    @property
    def bad_share(self) -> float | None:
        """Of all answers, the share that is bad; None without answers."""
        answers = self.pages + self.gone + self.bad_answers
        return self.bad_answers / answers if answers else None

    @property
    def is_controlled(self) -> bool:
        return self.paused or self.operator_delay is not None or self.operator_concurrency is not None


class _Found(NamedTuple):
    id: int
    row: HostRow
    """With moments of the clock in place of durations, and all jobs that nodes hold as running."""


def list_hosts(db: Database, run: int, limit: int, count: int) -> list[HostRow]:
    """The hosts of a run, in the order in which they were named; if `count`, of all, is above `limit`, the busy ones.

    The first ones take the room that is left.
    """
    if count <= limit:
        return _read(db, _FIRST_HOSTS, run, limit)
    chosen: dict[int, None] = {}
    for query in (_AT_WORK, _WAITING, _FIRST_IDS):
        if len(chosen) < limit:
            chosen |= dict.fromkeys(db.column(query, (run, limit)))
    return _read(db, _CHOSEN_HOSTS, run, id_list(list(chosen)[:limit]))


def find_hosts(db: Database, run: int, host_filter: HostFilter, offset: int, limit: int) -> tuple[list[HostRow], int]:
    """A page of the hosts that match, and how many match: those in trouble first, then those with work.

    Raises UsageError if a search's pattern is too slow.
    """
    sql, values = join_conditions(host_conditions(host_filter, _SHOWN_STATE))
    with db.snapshot():
        found = db.all(_IDS.format(conditions=sql), (run, *values))
        ids = [id_ for id_, key in found if host_filter.accepts(key)]
        chosen = ids[offset : offset + limit]
        rows = {row.host: row for row in _read(db, _CHOSEN_HOSTS, run, id_list(chosen))}
    names = dict(found)
    return [rows[names[id_]] for id_ in chosen], len(ids)


def get_host(db: Database, run: int, host: str) -> HostRow | None:
    """One host (`name:port`) of a run."""
    return next(iter(_read(db, _ONE_HOST, run, host)), None)


def _read(db: Database, sql: str, *parameters: Any) -> list[HostRow]:
    found = db.rows(_Found, sql, parameters)
    answers = host_speeds.list_answers(db, (host.id for host in found))
    return [_as_now(host.row, answers.get(host.id, {})) for host in found]


def count_running(db: Database, run: int) -> int:
    """The jobs that are running at all hosts: the sum of `running`."""
    return int(db.value(_RUNNING, (run,)))


def _as_now(row: HostRow, answers: dict[int, int]) -> HostRow:
    """A host whose moments become seconds from now, and whose jobs beyond its concurrency wait for their place."""
    now, running = store_time(), min(row.running, row.concurrency)

    def seconds_until(moment: float | None) -> float | None:
        return None if moment is None or moment <= now else round(moment - now, 3)

    return replace(
        row, running=running, waiting=row.waiting - running, next_in=seconds_until(row.next_in),
        backoff=seconds_until(row.backoff), answers=count_by_class(answers),
        silent=None if row.silent is None else max(0.0, round(now - row.silent)),
    )  # fmt: skip
