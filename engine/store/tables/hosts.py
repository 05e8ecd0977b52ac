"""Writes the table `hosts`: send times, limits, backoff and robots.txt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.store.db.connector import Database, id_list

EFFECTIVE_DELAY = "max(h.delay, h.crawl_delay * (h.robots <> 'OFF'), h.pace * h.throttle)"
"""SQL: seconds between two requests to the host `h`, by the defs, its robots.txt and its pace."""
MAX_PACE = 60.0

_ENSURE = """
INSERT INTO hosts (run, key, origin, delay, concurrency, robots, throttle) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, key) DO NOTHING RETURNING id
"""
_FIND = "SELECT id FROM hosts WHERE run = ? AND key = ?"
_RESERVE = "UPDATE hosts SET next_at = ? WHERE id = ?"
_SET_BACKOFF = """
UPDATE hosts SET strikes = strikes + :strike, throttled = throttled + :answered,
    backoff_until = max(coalesce(backoff_until, 0), :until),
    least_pace = CASE WHEN :strike THEN min(:most, 2 * max(pace, least_pace, :shortest)) ELSE least_pace END,
    pace = CASE WHEN :strike THEN min(:most, 2 * max(pace, least_pace, :shortest)) ELSE pace END
WHERE id = :host
"""
_SHORTEST_STRUCK_PACE = 0.05
"""A host that overloads is asked no more often than ten times a second from then on."""
# The average falls by half with each answer and rises at once; a failed request can only slow it.
_ADAPT_PACE = f"""
WITH l (id, answers, latency, failed_latency) AS ({{values}})
UPDATE hosts SET pace = min({MAX_PACE}, max(least_pace, l.failed_latency * (l.failed_latency > pace), CASE
    WHEN l.answers THEN max(l.latency, l.latency + (pace - l.latency) / (1 << min(l.answers, 30))) ELSE pace END))
FROM l WHERE hosts.id = l.id AND hosts.throttle
"""
_RESET_STRIKES = """
UPDATE hosts SET strikes = 0
WHERE strikes > 0 AND id IN (SELECT value FROM json_each(?)) AND coalesce(backoff_until, 0) <= ?
"""
_ADD_ERRORS = "UPDATE hosts SET errors = errors + ? WHERE id = ?"
_SET_ROBOTS = """
UPDATE hosts SET robots = CASE robots WHEN 'OFF' THEN 'OFF' ELSE 'KNOWN' END,
    robots_status = ?, robots_text = ?, crawl_delay = ? WHERE id = ?
"""
_ABANDON_ROBOTS = """
UPDATE hosts SET robots = 'KNOWN', robots_status = 0, robots_text = '', crawl_delay = 0
WHERE run = ? AND robots = 'WANTED' AND id IN (
    SELECT host FROM sequences WHERE run = hosts.run AND kind = 'robots' AND failed > 0)
"""
_ROBOTS = "SELECT robots_status, robots_text FROM hosts WHERE id = ? AND robots = 'KNOWN'"
_BACKOFF = "SELECT strikes, backoff_until FROM hosts WHERE id = ?"
_SHIFT_DEADLINES = """
UPDATE hosts SET next_at = next_at + :shift, backoff_until = backoff_until + :shift
WHERE next_at IS NOT NULL OR backoff_until IS NOT NULL
"""
_APPLY = """
UPDATE hosts SET delay = :delay, concurrency = :concurrency, throttle = :throttle, robots = CASE
    WHEN NOT :robots THEN 'OFF' WHEN robots <> 'OFF' THEN robots
    WHEN robots_status IS NULL THEN 'WANTED' ELSE 'KNOWN' END
WHERE run = :run AND key = :key
"""
_ROBOTS_STATE = "SELECT id, origin, robots FROM hosts WHERE run = ? AND key = ?"
_KEYS = "SELECT key FROM hosts WHERE run = ?"


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """Limits of a host: seconds between requests, concurrent requests, whether robots.txt applies.

    `throttle`: whether the delay follows the host's latency.
    """

    delay: float
    concurrency: int
    robots: bool
    throttle: bool = False


def ensure(db: Database, run: int, key: str, origin: str, policy: HostPolicy) -> tuple[int, bool]:
    """The host's id, and whether it is new."""
    robots = "WANTED" if policy.robots else "OFF"
    created = db.value(_ENSURE, (run, key, origin, policy.delay, policy.concurrency, robots, int(policy.throttle)))
    if created is not None:
        return int(created), True
    return int(db.value(_FIND, (run, key))), False


def reserve(db: Database, host: int, next_at: float) -> None:
    """Reserve send times: no other lease may send before `next_at` (boot-time seconds)."""
    db.execute(_RESERVE, (next_at, host))


def set_backoff(db: Database, host: int, until: float, *, answered: bool = True, strike: bool = True) -> None:
    """The host is overloaded: send it nothing before `until` (boot-time seconds).

    `answered`: it answered 429 or 503. `strike`: as the first of a burst, which lengthens the next backoff and lowers
    the pace of a throttled host for good.
    """
    values = {"host": host, "until": until, "answered": int(answered), "strike": int(strike)}
    db.execute(_SET_BACKOFF, {**values, "most": MAX_PACE, "shortest": _SHORTEST_STRUCK_PACE})


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


def add_errors(db: Database, host: int, count: int) -> None:
    """Count failed requests."""
    db.execute(_ADD_ERRORS, (count, host))


def set_robots(db: Database, host: int, status: int, text: str, crawl_delay: float) -> None:
    """Store a robots.txt, so that the pages of the host can be leased. `crawl_delay`: its minimum delay in seconds."""
    db.execute(_SET_ROBOTS, (status, text, crawl_delay, host))


def abandon_robots(db: Database, run: int) -> None:
    """Treat robots.txt files whose job failed as unreachable, so that their hosts' pages do not wait forever."""
    db.execute(_ABANDON_ROBOTS, (run,))


def get_robots(db: Database, host: int) -> tuple[int, str] | None:
    """Status and text of its robots.txt; None if unknown or not required."""
    row = db.one(_ROBOTS, (host,))
    return None if row is None else (int(row[0]), str(row[1]))


def get_backoff(db: Database, host: int) -> tuple[int, float | None]:
    """Consecutive strikes, and the boot-time second at which the backoff ends."""
    row = db.one(_BACKOFF, (host,))
    return (0, None) if row is None else (int(row[0]), row[1])


def list_keys(db: Database, run: int) -> list[str]:
    """Every host (`name:port`) of a run."""
    return [str(row[0]) for row in db.all(_KEYS, (run,))]


def apply_policy(db: Database, run: int, key: str, policy: HostPolicy) -> tuple[int, str, tuple[str, str]]:
    """Set new limits for an existing host; its robots.txt is kept, even while it does not apply.

    Returns its id and origin, and the old and new state of its robots.txt: OFF, WANTED, KNOWN.
    """
    limits = {
        "delay": policy.delay, "concurrency": policy.concurrency, "robots": int(policy.robots),
        "throttle": int(policy.throttle),
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
