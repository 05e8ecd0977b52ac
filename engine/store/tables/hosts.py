"""Writes the table `hosts`: send times, limits, backoff and robots.txt."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.store.db.connector import Database, id_list

_ENSURE = """
INSERT INTO hosts (run, key, origin, delay, concurrency, robots) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run, key) DO NOTHING RETURNING id
"""
_FIND = "SELECT id FROM hosts WHERE run = ? AND key = ?"
_RESERVE = "UPDATE hosts SET next_at = ? WHERE id = ?"
_SET_BACKOFF = """
UPDATE hosts SET strikes = strikes + 1, throttled = throttled + 1,
    backoff_until = max(coalesce(backoff_until, 0), ?)
WHERE id = ?
"""
_RESET_STRIKES = "UPDATE hosts SET strikes = 0 WHERE strikes > 0 AND id IN (SELECT value FROM json_each(?))"
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
UPDATE hosts SET delay = :delay, concurrency = :concurrency, robots = CASE
    WHEN NOT :robots THEN 'OFF' WHEN robots <> 'OFF' THEN robots
    WHEN robots_status IS NULL THEN 'WANTED' ELSE 'KNOWN' END
WHERE run = :run AND key = :key
"""
_SKIP_ROBOTS = "UPDATE hosts SET robots = 'OFF' WHERE id = ? AND robots = 'WANTED'"
_MARK_NAMED = "UPDATE hosts SET named = 1 WHERE named = 0 AND id IN (SELECT value FROM json_each(?)) RETURNING id, key"
_WITH_SKIPPED = """
SELECT id FROM hosts h WHERE id IN (SELECT value FROM json_each(?))
    AND EXISTS (SELECT 1 FROM sequences s WHERE s.host = h.id AND s.skipped > 0)
"""
_IS_NAMED = "SELECT named FROM hosts WHERE run = ? AND key = ?"
# ';' follows ':' in the order of characters: all keys of the name, whatever the port
_IS_NAME_NAMED = """
SELECT EXISTS (SELECT 1 FROM hosts WHERE run = :run AND key >= :name || ':' AND key < :name || ';' AND named = 1)
"""
_ROBOTS_STATE = "SELECT id, origin, robots FROM hosts WHERE run = ? AND key = ?"
_KEYS = "SELECT key FROM hosts WHERE run = ?"


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """Limits of a host: seconds between requests, concurrent requests, whether robots.txt applies."""

    delay: float
    concurrency: int
    robots: bool


def ensure(db: Database, run: int, key: str, origin: str, policy: HostPolicy) -> tuple[int, bool]:
    """The host's id, and whether it is new."""
    robots = "WANTED" if policy.robots else "OFF"
    created = db.value(_ENSURE, (run, key, origin, policy.delay, policy.concurrency, robots))
    if created is not None:
        return int(created), True
    return int(db.value(_FIND, (run, key))), False


def get_id(db: Database, run: int, key: str) -> int:
    """The id of an existing host (`name:port`)."""
    return int(db.value(_FIND, (run, key)))


def reserve(db: Database, host: int, next_at: float) -> None:
    """Reserve send times: no other lease may send before `next_at` (boot-time seconds)."""
    db.execute(_RESERVE, (next_at, host))


def set_backoff(db: Database, host: int, until: float) -> None:
    """The host is overloaded: send it nothing before `until` (boot-time seconds)."""
    db.execute(_SET_BACKOFF, (until, host))


def reset_strikes(db: Database, hosts: Iterable[int]) -> None:
    """Reset the strikes of hosts that answered successfully."""
    db.execute(_RESET_STRIKES, (id_list(hosts),))


def add_errors(db: Database, host: int, count: int) -> None:
    """Count failed requests."""
    db.execute(_ADD_ERRORS, (count, host))


def set_robots(db: Database, host: int, status: int, text: str, crawl_delay: float) -> None:
    """Store a robots.txt, so that the pages of the host can be leased. `crawl_delay`: its minimum delay in seconds."""
    db.execute(_SET_ROBOTS, (status, text, crawl_delay, host))


def skip_robots(db: Database, host: int) -> None:
    """Let the pages of a host be leased without its robots.txt: the address guard refused to ask for it."""
    db.execute(_SKIP_ROBOTS, (host,))


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


def mark_named(db: Database, hosts: Iterable[int]) -> list[str]:
    """Record that locators name these hosts; returns those (`name:port`) that were not named and skipped jobs."""
    named = {int(id_): str(key) for id_, key in db.all(_MARK_NAMED, (id_list(hosts),))}
    return [named[id_] for (id_,) in db.all(_WITH_SKIPPED, (id_list(named),))] if named else []


def is_named(db: Database, run: int, key: str) -> bool:
    """Whether a locator of the run names this host (`name:port`)."""
    return bool(db.value(_IS_NAMED, (run, key)))


def is_name_named(db: Database, run: int, name: str) -> bool:
    """Whether a locator of the run names this host, with whatever port."""
    return bool(db.value(_IS_NAME_NAMED, {"run": run, "name": name}))


def list_keys(db: Database, run: int) -> list[str]:
    """Every host (`name:port`) of a run."""
    return [str(row[0]) for row in db.all(_KEYS, (run,))]


def apply_policy(db: Database, run: int, key: str, policy: HostPolicy) -> tuple[int, str, tuple[str, str]]:
    """Set new limits for an existing host; its robots.txt is kept, even while it does not apply.

    Returns its id and origin, and the old and new state of its robots.txt: OFF, WANTED, KNOWN.
    """
    limits = {"delay": policy.delay, "concurrency": policy.concurrency, "robots": int(policy.robots)}
    before = db.one(_ROBOTS_STATE, (run, key))
    db.execute(_APPLY, {**limits, "run": run, "key": key})
    after = db.one(_ROBOTS_STATE, (run, key))
    assert before is not None
    assert after is not None
    return int(after[0]), str(after[1]), (str(before[2]), str(after[2]))


def shift_deadlines(db: Database, shift: float) -> None:
    """After a reboot: move every deadline by `shift` seconds."""
    db.execute(_SHIFT_DEADLINES, {"shift": shift})
