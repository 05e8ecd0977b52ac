"""Reads the hosts of a run: their limits, waits, answers and speed."""

from collections.abc import Sequence
from typing import Any

import orjson
from msgspec import Struct, field

from engine.model.host import HostState, count_by_class
from engine.runtime.clock import store_time
from engine.store.db.connector import Database, id_list
from engine.store.tables.host import host_speeds, hosts

_HOSTS = f"""
SELECT h.id, h.key, {hosts.EFFECTIVE_DELAY}, {hosts.EFFECTIVE_CONCURRENCY}, h.next_at, h.backoff_until,
    (SELECT total(taken) FROM sequences WHERE host = h.id AND kind <> 'extract'),
    (SELECT total(ready + delayed) FROM sequences WHERE host = h.id AND kind <> 'extract'),
    (SELECT total(done) FROM sequences WHERE host = h.id AND kind = 'page'),
    (SELECT total(failed) FROM sequences WHERE host = h.id AND kind = 'page'),
    h.strikes, h.throttled, h.errors, h.gone, h.blocked, h.robots, h.robots_status,
    (SELECT total(records) FROM host_health WHERE host = h.id AND field = ''),
    (SELECT total(rejected) FROM host_health WHERE host = h.id AND field = ''),
    coalesce(v.bytes, 0), v.p50, v.p95, v.recent_p50, v.eta, h.paused, h.operator_delay, h.operator_concurrency,
    h.login, h.content_signal, v.state, coalesce(v.pages_per_s, 0), v.silent_since
FROM hosts h LEFT JOIN host_speeds v ON v.host = h.id WHERE h.run = ?
"""
_FIRST_HOSTS = f"{_HOSTS} ORDER BY h.id LIMIT +?"
_CHOSEN_HOSTS = f"{_HOSTS} AND h.id IN (SELECT value FROM json_each(?)) ORDER BY h.id"
_BUSY = """
SELECT DISTINCT host FROM sequences WHERE run = ? AND kind <> 'extract' AND {} LIMIT +?
"""
_AT_WORK, _WAITING = _BUSY.format("taken > 0"), _BUSY.format("ready + delayed > 0")
_FIRST_IDS = "SELECT id FROM hosts WHERE run = ? ORDER BY id LIMIT +?"
_ONE_HOST = f"{_HOSTS} AND h.key = ?"
_RUNNING = f"""
SELECT total(min(taken, concurrency)) FROM (
    SELECT total(s.taken) AS taken, {hosts.EFFECTIVE_CONCURRENCY} AS concurrency
    FROM sequences s CROSS JOIN hosts h ON h.id = s.host
    WHERE s.run = ? AND s.taken > 0 AND s.kind <> 'extract' GROUP BY h.id) busy
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


def list_hosts(db: Database, run: int, limit: int, count: int) -> list[HostRow]:
    """The hosts of a run, in the order in which they were named; if `count`, of all, is above `limit`, the busy ones.

    The first ones take the room that is left.
    """
    if count <= limit:
        return _to_rows(db, db.all(_FIRST_HOSTS, (run, limit)))
    chosen: dict[int, None] = {}
    for query in (_AT_WORK, _WAITING, _FIRST_IDS):
        if len(chosen) < limit:
            chosen |= dict.fromkeys(int(row[0]) for row in db.all(query, (run, limit)))
    return _to_rows(db, db.all(_CHOSEN_HOSTS, (run, id_list(list(chosen)[:limit]))))


def get_host(db: Database, run: int, host: str) -> HostRow | None:
    """One host (`name:port`) of a run."""
    return next(iter(_to_rows(db, db.all(_ONE_HOST, (run, host)))), None)


def _to_rows(db: Database, rows: Sequence[tuple[Any, ...]]) -> list[HostRow]:
    answers = host_speeds.list_answers(db, (row[0] for row in rows))
    return [_to_row(row, answers.get(row[0], {})) for row in rows]


def count_running(db: Database, run: int) -> int:
    """The jobs that are running at all hosts: the sum of `running`."""
    return int(db.value(_RUNNING, (run,)))


def _to_row(row: tuple[Any, ...], answers: dict[int, int]) -> HostRow:
    _, key, delay, concurrency, next_at, backoff, taken, waiting, done, failed, *counts = row
    strikes, throttled, errors, gone, blocked, robots, status, records, rejected, *speed = counts
    received, p50, p95, recent, eta, paused, operator_delay, operator_concurrency, login, signal, *judged = speed
    state, rate, silent_since = judged
    now, running = store_time(), min(int(taken), concurrency)  # spare jobs of nodes wait for their place at the host

    def seconds_until(moment: float | None) -> float | None:
        return None if moment is None or moment <= now else round(moment - now, 3)

    return HostRow(
        host=key, running=running, waiting=int(waiting) + int(taken) - running, delay=delay, concurrency=concurrency,
        next_in=seconds_until(next_at), backoff=seconds_until(backoff), strikes=strikes, throttled=throttled,
        errors=errors, blocked=blocked, robots=robots.lower(), robots_status=status, pages=int(done),
        records=int(records), rejected=int(rejected), failed=int(failed), gone=gone, answers=count_by_class(answers),
        bytes=received, p50=p50, p95=p95, recent_p50=tuple(orjson.loads(recent)) if recent else (), eta=eta,
        paused=bool(paused), operator_delay=operator_delay, operator_concurrency=operator_concurrency,
        login=login.lower(), content_signal=orjson.loads(signal) if signal else {},
        state=HostState(state or "unasked"), pages_per_s=rate,
        silent=None if silent_since is None else max(0.0, round(now - silent_since)),
    )  # fmt: skip
