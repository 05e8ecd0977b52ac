"""Writes the table `hosts`: send times, limits, backoff and robots.txt."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import orjson

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobKind, JobState
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome

ROBOTS_MAX_AGE = 23 * 3600.0
"""Seconds after which a robots.txt is asked for again, so that none in use is older than the 24 hours of RFC 9309."""
_ROBOTS_KEPT = 30 * 86400.0
"""Seconds for which a robots.txt stays in force while it cannot be read again, as RFC 9309 proposes."""


def of_pool(column: str) -> str:
    """SQL: what limits the host `h` now; hosts with one limit together keep it in the row of the first of them."""
    first = f"(SELECT p.{column} FROM hosts p WHERE p.run = h.run AND p.pool = h.pool ORDER BY p.id LIMIT 1)"
    return f"(CASE WHEN h.pool IS NULL THEN h.{column} ELSE {first} END)"


LIMITER, NEXT_AT, BACKOFF_UNTIL = of_pool("id"), of_pool("next_at"), of_pool("backoff_until")
"""SQL: the host whose row has the limits of the host `h`, its next send time, and the end of its rest."""
EFFECTIVE_DELAY = (
    "max(coalesce(h.operator_delay, h.delay), CASE h.robots WHEN 'OFF' THEN 0.0 ELSE h.crawl_delay END,"
    f" {of_pool('pace')} * h.throttle)"
)
"""SQL: seconds between two requests to the host `h`, by the defs or an operator, its robots.txt and its pace."""
LONGEST_DELAY = f"max({EFFECTIVE_DELAY}, CASE WHEN h.operator_delay IS NULL THEN h.delay_max ELSE 0.0 END)"
"""SQL: the longest time between two requests to the host `h`; each is drawn between the two."""
EFFECTIVE_CONCURRENCY = "coalesce(h.operator_concurrency, h.concurrency)"
"""SQL: concurrent requests to the host `h`, by the defs or an operator."""
MAX_PACE = 60.0
NAME = "rtrim(rtrim(key, '0123456789'), ':')"
"""SQL: a host without its port."""
GUARDED = -1
"""In place of the status of a robots.txt: the address guard refused to ask for it."""

_CREATE = """
INSERT INTO hosts (run, key, origin, delay, delay_max, concurrency, robots, throttle, login, pool)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id
"""
_FIND = "SELECT id, robots FROM hosts WHERE run = ? AND key = ?"
_RESERVE = """
WITH r (id, next_at) AS ({values}) UPDATE hosts SET next_at = r.next_at FROM r WHERE hosts.id = r.id
"""
_LIMITER_OF = f"(SELECT {LIMITER} FROM hosts h WHERE h.id = :host)"
_RETURN_TURN = f"UPDATE hosts SET next_at = max(:now, next_at - :seconds) WHERE id = {_LIMITER_OF} AND next_at > :now"
_SET_BACKOFF = f"""
UPDATE hosts SET strikes = strikes + :strike, throttled = throttled + :answered,
    backoff_until = max(coalesce(backoff_until, 0), :until), rest_reason = coalesce(:reason, rest_reason),
    least_pace = CASE WHEN :strike = 1 THEN min(:most, 2 * max(pace, least_pace, :shortest)) ELSE least_pace END,
    pace = CASE WHEN :strike = 1 THEN min(:most, 2 * max(pace, least_pace, :shortest)) ELSE pace END
WHERE id = {_LIMITER_OF}
"""
_COUNT_FAILURE = "UPDATE hosts SET errors = errors + ?, gone = gone + ? WHERE id = ?"
_SHORTEST_STRUCK_PACE = 0.05
"""After an overload, a host gets at most ten requests a second."""
# The average falls by half with each answer and rises at once; a failed request can only slow it.
_ADAPT_PACE = f"""
WITH l (id, answers, latency, failed_latency) AS ({{values}})
UPDATE hosts SET pace = min({MAX_PACE}, max(
    least_pace, CASE WHEN l.failed_latency > pace THEN l.failed_latency ELSE 0.0 END, CASE
    WHEN l.answers > 0 THEN max(l.latency, l.latency + (pace - l.latency) / (1 << min(l.answers, 30))) ELSE pace END))
FROM l WHERE hosts.id = (SELECT {LIMITER} FROM hosts h WHERE h.id = l.id) AND hosts.throttle <> 0
"""
_RESET_STRIKES = f"""
UPDATE hosts SET strikes = 0, rest_reason = NULL
WHERE (strikes > 0 OR rest_reason IS NOT NULL)
    AND id IN (SELECT {LIMITER} FROM json_each(?) i CROSS JOIN hosts h ON h.id = i.value)
    AND coalesce(backoff_until, 0) <= ?
"""
_REUSE_ROBOTS = f"""
UPDATE hosts SET robots = 'KNOWN', robots_status = o.robots_status, robots_text = o.robots_text,
    crawl_delay = o.crawl_delay, robots_fetched_at = o.robots_fetched_at, robots_agent = o.robots_agent,
    content_signal = o.content_signal
FROM (
    SELECT * FROM hosts WHERE key = :key AND origin = :origin AND robots_agent = :agent AND run < :run
        AND robots_fetched_at BETWEEN :now - {ROBOTS_MAX_AGE} AND :now
    ORDER BY robots_fetched_at DESC LIMIT 1
) o WHERE hosts.id = :host RETURNING hosts.id
"""
_SET_ROBOTS = """
UPDATE hosts SET robots = CASE robots WHEN 'OFF' THEN 'OFF' ELSE 'KNOWN' END,
    robots_status = ?, robots_text = ?, crawl_delay = ?, robots_fetched_at = ?, robots_agent = ?, content_signal = ?
WHERE id = ?
"""
_KEEP_ROBOTS = f"""
UPDATE hosts SET robots = CASE robots WHEN 'OFF' THEN 'OFF' ELSE 'KNOWN' END
WHERE id = ? AND robots_fetched_at > ? - {_ROBOTS_KEPT} RETURNING id
"""
_ABANDON_ROBOTS = """
UPDATE hosts SET robots = 'KNOWN', robots_status = CASE WHEN robots_fetched_at IS NULL THEN 0 ELSE robots_status END,
    robots_text = CASE WHEN robots_fetched_at IS NULL THEN 'its node ended during the request' ELSE robots_text END
WHERE run = :run AND robots = 'WANTED' AND origin || '/robots.txt' IN (
    SELECT j.url FROM sequences s CROSS JOIN jobs j ON j.sequence = s.id
    WHERE s.run = :run AND s.kind = 'robots' AND s.failed > 0 AND j.state = 'FAILED')
"""
_ROBOTS = "SELECT robots, robots_status, robots_text, robots_fetched_at FROM hosts WHERE id = ? AND robots <> 'OFF'"
_WANT_STALE_ROBOTS = f"""
UPDATE hosts SET robots = 'WANTED', robots_status = CASE WHEN robots_fetched_at IS NULL THEN NULL ELSE robots_status END
WHERE run = :run AND robots = 'KNOWN'
    AND (robots_fetched_at IS NULL OR robots_fetched_at NOT BETWEEN :now - {ROBOTS_MAX_AGE} AND :now
        OR (CAST(:agent AS TEXT) IS NOT NULL AND robots_agent IS NOT :agent))
    AND EXISTS (SELECT 1 FROM sequences s WHERE s.host = hosts.id AND s.kind IN ('page', 'sitemap', 'file')
        AND s.ready + s.delayed + s.taken > 0)
RETURNING id, key, origin
"""
_WANT_ROBOTS_OF_JOBS = """
UPDATE hosts SET robots = 'WANTED', robots_status = NULL
WHERE robots = 'KNOWN' AND robots_fetched_at IS NULL AND id IN (
    SELECT s.host FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN sequences s ON s.id = j.sequence)
RETURNING id, key, origin
"""
_SHIFT_DEADLINES = """
UPDATE hosts SET next_at = next_at + :shift, backoff_until = backoff_until + :shift
WHERE next_at IS NOT NULL OR backoff_until IS NOT NULL
"""
_APPLY = f"""
UPDATE hosts SET delay = :delay, delay_max = :delay_max, concurrency = :concurrency, throttle = :throttle,
    pool = :pool, robots = CASE
    WHEN :robots = 0 THEN 'OFF' WHEN robots_status = {GUARDED} THEN 'WANTED' WHEN robots <> 'OFF' THEN robots
    WHEN robots_status IS NULL THEN 'WANTED' ELSE 'KNOWN' END
WHERE run = :run AND key = :key
"""
_MARK_GUARDED = f"""
UPDATE hosts SET robots = 'KNOWN', robots_status = {GUARDED}, robots_text = NULL, crawl_delay = 0,
    robots_fetched_at = NULL
WHERE id = ? AND robots = 'WANTED'
"""
_WANT_GUARDED_ROBOTS = f"""
UPDATE hosts SET robots = 'WANTED', robots_status = NULL
WHERE id = ? AND robots = 'KNOWN' AND robots_status = {GUARDED} RETURNING id, key, origin
"""
_MARK_NAMED = "UPDATE hosts SET named = 1 WHERE named = 0 AND id IN (SELECT value FROM json_each(?)) RETURNING id, key"
_WITH_SKIPPED = """
SELECT id FROM hosts h WHERE id IN (SELECT value FROM json_each(?))
    AND EXISTS (SELECT 1 FROM sequences s WHERE s.host = h.id AND s.skipped > 0)
"""
# ';' follows ':' in the order of characters: all keys of the name, whatever the port
_IS_NAME_NAMED = """
SELECT EXISTS (SELECT 1 FROM hosts WHERE run = :run AND key >= :name || ':' AND key < :name || ';' AND named = 1)
"""
_BACKOFF = f"SELECT {of_pool('strikes')}, {BACKOFF_UNTIL} FROM hosts h WHERE h.id = ?"
_CROWDED = f"""
SELECT address, count(DISTINCT {NAME}) AS names, min({NAME}) AS first FROM hosts
WHERE run = ? AND address IS NOT NULL AND pool IS NULL GROUP BY address HAVING count(DISTINCT {NAME}) > ?
ORDER BY names DESC, address LIMIT +?
"""
_NAMES = "SELECT id, key FROM hosts WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
_ROBOTS_STATE = "SELECT id, origin, robots FROM hosts WHERE run = ? AND key = ?"


class WantedRobots(NamedTuple):
    """A host whose robots.txt must be asked for."""

    id: int
    key: str
    origin: str


class StoredRobots(NamedTuple):
    status: int
    text: str
    """Of the file, or why it cannot be read."""
    fetched_at: float | None
    """Wall clock, seconds since 1970; None: it could not be read."""

    @property
    def is_guarded(self) -> bool:
        """Whether the address guard refused to ask for it: pages that it lets through must ask first."""
        return self.status == GUARDED


def ensure(db: Database, run: int, key: str, origin: str, policy: HostPolicy) -> tuple[int, bool]:
    """The host's id, and whether its robots.txt must be read. A new host takes over that of an earlier run of today."""
    robots = "WANTED" if policy.robots else "OFF"
    login = "OFF" if policy.login is None else "WANTED"
    limits = policy.delay, policy.delay_max, policy.concurrency, robots, int(policy.throttle), login, policy.pool
    if (found := db.one(_FIND, (run, key))) is not None:
        return int(found[0]), found[1] == "WANTED"
    host = int(db.value(_CREATE, (run, key, origin, *limits)))
    return host, policy.robots and not _reuse_robots(db, host, run, key, origin, policy.agent)


def _reuse_robots(db: Database, host: int, run: int, key: str, origin: str, agent: str) -> bool:
    values = {"host": host, "run": run, "key": key, "origin": origin, "agent": agent, "now": time.time()}
    return bool(db.all(_REUSE_ROBOTS, values))


def find(db: Database, run: int, key: str) -> int | None:
    return db.value(_FIND, (run, key))


def reserve(db: Database, next_at: Mapping[int, float]) -> None:
    """Reserve send times: by the host that has the limits, the boot-time second before which no other may send."""
    db.execute_values(_RESERVE, list(next_at.items()))


def return_turn(db: Database, host: int, seconds: float, now: float) -> None:
    """Let the next lease send so much earlier: the last one reserved a time at which nothing was sent."""
    db.execute(_RETURN_TURN, {"host": host, "seconds": seconds, "now": now})


class Backoff(Effect):
    """The host is overloaded: send it nothing before this boot-time second."""

    until: float
    throttled: bool = False
    """Whether an answer was 429 or 503."""
    strike: bool = False
    """Whether that answer was the first of its burst: it lengthens the next backoff and lowers the pace for good."""
    reason: str | None = None
    """That answer, such as `HTTP 503` or `challenge (…)`; None: it began with another request."""
    asked_until: float = 0.0
    """Up to which boot-time second the host itself, or the defs, asked for the rest."""


def write_backoffs(commit: Commit, made: Sequence[tuple[JobOutcome, Backoff]]) -> None:
    for outcome, backoff in made:
        set_backoff(commit.db, outcome.job.host, backoff)
        commit.due.add(backoff.until)


def set_backoff(db: Database, host: int, backoff: Backoff) -> None:
    values = {
        "host": host, "until": backoff.until, "answered": backoff.throttled, "strike": backoff.strike,
        "reason": backoff.reason, "most": MAX_PACE, "shortest": _SHORTEST_STRUCK_PACE,
    }  # fmt: skip
    db.execute(_SET_BACKOFF, values)


class HostLatency(NamedTuple):
    """Answers of a host, their mean seconds, and the mean seconds of its failed requests (0: none)."""

    host: int
    answers: int
    latency: float
    failed_latency: float


def adapt_paces(db: Database, latencies: Sequence[HostLatency]) -> None:
    """Have the delay of throttled hosts follow their latency: one request at a time on average."""
    rows = [(host.host, host.answers, host.latency, host.failed_latency) for host in latencies]
    db.execute_values(_ADAPT_PACE, rows)


def reset_strikes(db: Database, hosts: Iterable[int], now: float) -> None:
    """Reset the strikes of hosts that answered successfully, but not by answers on the wire when a backoff began."""
    db.execute(_RESET_STRIKES, (id_list(hosts), now))


class HostAddress(Effect):
    """At which address the host of the job is."""

    address: str


def write_addresses(commit: Commit, made: Sequence[tuple[JobOutcome, HostAddress]]) -> None:
    for outcome, host in made:
        commit.db.execute("UPDATE hosts SET address = ? WHERE id = ?", (host.address, outcome.job.host))


class HostFailure(Effect):
    """A request that its host did not serve."""

    failed: bool = True
    """Whether the answer was bad, or none came."""
    gone: bool = False
    """Whether it was 404 or 410; for a page that the defs name this is a bad answer, too."""
    guarded: str | None = None
    """SKIPPED because the address guard refused this host (`name:port`), which a locator may name meanwhile."""


def write_failures(commit: Commit, made: Sequence[tuple[JobOutcome, HostFailure]]) -> None:
    """Count bad answers, and those that say that a link is gone."""
    for outcome, failure in made:
        if failure.failed or failure.gone:
            is_gone = failure.gone and not (outcome.job.kind is JobKind.PAGE and outcome.state is JobState.FAILED)
            commit.db.execute(_COUNT_FAILURE, (not is_gone, is_gone, outcome.job.host))


def set_robots(
    db: Database, host: int, status: int, text: str, crawl_delay: float, *, agent: str = "",
    fetched_at: float | None = None, content_signal: dict[str, str] | None = None,
) -> None:  # fmt: skip
    """Store a robots.txt, so that the pages of the host can be leased. `crawl_delay`: its minimum delay in seconds.

    `fetched_at` None: it could not be read; then an earlier copy stays in force. `content_signal`: what it says of the
    use of pages, by use.
    """
    if fetched_at is None and db.all(_KEEP_ROBOTS, (host, time.time())):
        return
    signal = orjson.dumps(content_signal).decode() if content_signal else None
    db.execute(_SET_ROBOTS, (status, text, crawl_delay, fetched_at, agent, signal, host))


def mark_guarded(db: Database, host: int) -> None:
    """The address guard refused to ask for the host's robots.txt, as it will refuse the pages; an old copy is kept."""
    if not db.all(_KEEP_ROBOTS, (host, time.time())):
        db.execute(_MARK_GUARDED, (host,))


def want_guarded_robots(db: Database, host: int) -> list[WantedRobots]:
    """Require the robots.txt of a host that was guarded: its id, key and origin; empty if it is required already."""
    return db.rows(WantedRobots, _WANT_GUARDED_ROBOTS, (host,))


def abandon_robots(db: Database, run: int) -> None:
    """Treat robots.txt files whose job failed as unreadable, so that their hosts' pages do not wait forever."""
    db.execute(_ABANDON_ROBOTS, {"run": run})


def want_stale_robots(db: Database, run: int, now: float, agent: str | None = None) -> list[WantedRobots]:
    """Require a new robots.txt where pages are open and the last one is too old, unreadable or of another crawler.

    `now`: wall clock. `agent`: today's product token, to which the crawl delay applies; None: it has not changed.
    Returns id, key and origin of the hosts; an old copy is kept until a new one replaces it.
    """
    return db.rows(WantedRobots, _WANT_STALE_ROBOTS, {"run": run, "now": now, "agent": agent})


def want_robots_of_jobs(db: Database, ids: Iterable[int]) -> list[WantedRobots]:
    """Require a new robots.txt of the hosts of these jobs where it could not be read: id, key and origin of each."""
    return db.rows(WantedRobots, _WANT_ROBOTS_OF_JOBS, (id_list(ids),))


def get_robots(db: Database, host: int) -> StoredRobots | Literal["OFF"] | None:
    """Its robots.txt; None: not read yet; OFF: it does not apply."""
    row = db.one(_ROBOTS, (host,))
    if row is None:
        return "OFF"
    state, status, text, fetched_at = row
    if status is None or (state == "WANTED" and fetched_at is None):
        return None
    return StoredRobots(int(status), str(text or ""), fetched_at)


def get_backoff(db: Database, host: int) -> tuple[int, float | None]:
    """Consecutive strikes, and the boot-time second at which the backoff ends."""
    row = db.one(_BACKOFF, (host,))
    return (0, None) if row is None else (int(row[0]), row[1])


def mark_named(db: Database, hosts: Iterable[int]) -> list[str]:
    """Record that locators name these hosts; returns those (`name:port`) that were not named and skipped jobs."""
    named = dict(db.all(_MARK_NAMED, (id_list(hosts),)))
    return [named[id_] for (id_,) in db.all(_WITH_SKIPPED, (id_list(named),))] if named else []


def is_named(db: Database, run: int, key: str) -> bool:
    """Whether a locator of the run names this host (`name:port`)."""
    return bool(db.value("SELECT named FROM hosts WHERE run = ? AND key = ?", (run, key)))


def is_name_named(db: Database, run: int, name: str) -> bool:
    """Whether a locator of the run names this host, with whatever port."""
    return bool(db.value(_IS_NAME_NAMED, {"run": run, "name": name}))


def list_names(db: Database, hosts: Iterable[int]) -> dict[int, str]:
    """The names (`name:port`) of hosts, by id."""
    return dict(db.all(_NAMES, (id_list(hosts),)))


class CrowdedAddress(NamedTuple):
    """An address at which many hosts are that have limits of their own."""

    address: str
    names: int
    first: str
    """One of the names."""


def list_crowded(db: Database, run: int, names: int, limit: int) -> list[CrowdedAddress]:
    """Addresses with more than so many names, at most `limit`: those with most first."""
    return db.rows(CrowdedAddress, _CROWDED, (run, names, limit))


def list_keys(db: Database, run: int) -> list[str]:
    return db.column("SELECT key FROM hosts WHERE run = ?", (run,))


def apply_policy(db: Database, run: int, key: str, policy: HostPolicy) -> tuple[int, str, tuple[str, str]]:
    """Set new limits for an existing host; its robots.txt is kept, even while it does not apply.

    Returns its id and origin, and the old and new state of its robots.txt: OFF, WANTED, KNOWN.
    """
    limits = {
        "delay": policy.delay, "delay_max": policy.delay_max, "concurrency": policy.concurrency,
        "robots": int(policy.robots), "throttle": int(policy.throttle), "pool": policy.pool,
    }  # fmt: skip
    before = db.one(_ROBOTS_STATE, (run, key))
    db.execute(_APPLY, {**limits, "run": run, "key": key})
    after = db.one(_ROBOTS_STATE, (run, key))
    assert before is not None
    assert after is not None
    return int(after[0]), str(after[1]), (str(before[2]), str(after[2]))


def shift_deadlines(db: Database, shift: float) -> None:
    """After a reboot: move every deadline by `shift` seconds."""
    db.execute(_SHIFT_DEADLINES, {"shift": shift})
