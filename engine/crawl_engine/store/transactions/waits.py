"""Says why waiting jobs are not leased: the rules of the lease, in its order, in words."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from crawl_engine.model.job import JobKind, lease_limit, quota
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.host import host_logins
from crawl_engine.store.tables.host.hosts import of_pool
from crawl_engine.store.tables.job import rings
from crawl_engine.store.tables.job.holds import HOLDS
from crawl_engine.store.tables.run import page_limits
from crawl_engine.store.transactions.lease import SequenceState, read_sequences

_SEQUENCE = f"""
SELECT s.id, s.paused, h.paused AS host_paused, r.paused AS run_paused, h.crawl_delay,
    {of_pool("throttled")} AS throttled, h.blocked
FROM sequences s JOIN hosts h ON h.id = s.host JOIN runs r ON r.seq = s.run
WHERE s.run = ? AND s.kind = ? AND s.grp = ? AND h.key = ?
"""
_PLACES = """
SELECT s.kind, s.grp, h.key, s.ready > 0 FROM hosts h CROSS JOIN sequences s ON s.host = h.id
WHERE h.run = ? AND h.key = ? AND s.ready + s.delayed > 0 ORDER BY s.ready DESC, s.id LIMIT +?
"""


_WITHOUT_PLACE = tuple([hold.code for hold in HOLDS if not hold.needs_place])
"""What holds a sequence whether or not its host has a place."""


class WaitingPlace(NamedTuple):
    """The sequence in which a job waits."""

    kind: str
    group: str
    host: str
    """`name:port`."""


class _Sequence(NamedTuple):
    """What a lease does not read of a sequence, its host and its run."""

    id: int
    paused: int
    host_paused: int
    run_paused: str | None
    crawl_delay: float
    throttled: int
    blocked: int


FindHolder = Callable[[str, int], str | None]
"""The crawl that holds all slots of a limit (`name:port`, or a pattern) that this one may take, of so many in all."""


def explain(
    db: Database, run: int, places: Iterable[WaitingPlace], now: float, find_holder: FindHolder
) -> dict[WaitingPlace, str]:
    """By place: why its jobs are not leased; for jobs that only wait for a free slot, that.

    `now`: boot-time seconds. Costs a few reads for each place.
    """
    return {place: _explain(db, run, place, now, find_holder) for place in dict.fromkeys(places)}


def explain_host(
    db: Database, run: int, host: str, now: float, limit: int, find_holder: FindHolder
) -> list[tuple[str, str]]:
    """Group and reason of at most `limit` sequences of a host (`name:port`) that have waiting jobs."""
    reasons = []
    for kind, group, key, due in db.all(_PLACES, (run, host, limit)):
        reason = "its jobs are tried again later"
        if due:
            reason = _explain(db, run, WaitingPlace(kind, group, key), now, find_holder)
        reasons.append((str(group) or str(kind), reason))
    return reasons


def _explain(db: Database, run: int, place: WaitingPlace, now: float, find_holder: FindHolder) -> str:
    held = db.row(_Sequence, _SEQUENCE, (run, place.kind, place.group, place.host))
    if held is None:
        return "its sequence is being created"
    (state,) = read_sequences(db, [held.id], now)
    if place.kind == JobKind.EXTRACT and state.hold is None:
        return "it waits for a free slot; fetches come first"
    if state.hold == "robots" or (state.hold not in _WITHOUT_PLACE and state.host_taken >= state.host_concurrency):
        holder = find_holder(state.limited, state.host_concurrency)
        if holder is not None:
            return f"another crawl, {holder}, holds the places of {state.limited}"
    if state.hold is not None:
        return _describe_hold(state, held, place, now)
    if state.is_limited:
        full = next((room for room in page_limits.read_rooms(db, state.id) if not room.left), None)
        if full is not None:
            return f"{full} is reached"
    if state.delay and state.next_at is not None and state.next_at > now + rings.LOOKAHEAD:
        cause = "Crawl-delay" if held.crawl_delay >= state.delay else "delay"
        return f"{cause} {state.delay:g} s of {state.limited}: the next request in {state.next_at - now:.1f} s"
    if state.host_taken >= state.host_concurrency:
        return f"{state.limited} is at its concurrency of {state.host_concurrency}"
    if state.others_waiting and not lease_limit(
        active=state.active, slots=state.slots, running=state.taken, free=state.slots, batch=state.slots
    ):
        return f"the group has its quota of {quota(state.active, state.slots)} slots, others wait"
    return "it waits for a free slot"


def _describe_hold(state: SequenceState, held: _Sequence, place: WaitingPlace, now: float) -> str:
    match state.hold:
        case "run-paused":
            causes = {"operator": "by an operator", "disk": "until the disk has room"}
            named = [causes.get(cause, cause) for cause in (held.run_paused or "").split(", ")]
            return "the run is paused " + " and ".join(named)
        case "paused":
            return f"its sequence is {'paused' if held.paused == 1 else 'stopped'} by an operator"
        case "host-paused":
            lost = held.host_paused == host_logins.LOST_PAUSE
            return f"{place.host} is paused {'since its login was lost' if lost else 'by an operator'}"
        case "absent":
            return f"the defs lack the group {place.group}"
        case "extract-only":
            return "this run fetches nothing"
        case "robots":
            return f"the robots.txt of {place.host} is being read"
        case "login":
            return f"the login at {place.host} is in progress"
        case "login-pages":
            return f"the login at {place.host} waits for the pages in progress"
        case "backoff":
            cause = "it refused the crawler" if held.blocked else "an answer, or by its `hours`"
            rest = (state.backoff_until or now) - now
            return f"{state.limited} rests for {rest:.1f} s after {'429 or 503' if held.throttled else cause}"
        case _:
            return "no run is in progress"
