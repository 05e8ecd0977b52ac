"""May jobs of a sequence be sent now? What holds them, as SQL for leases, rings and explanations."""

from collections.abc import Container

from msgspec import Struct

from crawl_engine.store.tables.host.hosts import BACKOFF_UNTIL

AFTER_LOGIN = ("page", "file")
"""The kinds of jobs that wait for the login to their host."""
_TAKEN_OF_HOST = "(SELECT total(t.taken) FROM sequences t WHERE t.host = h.id AND t.kind <> 'extract')"
_TAKEN_OF_POOLS = """
SELECT m.run, m.pool, count(*) AS taken
FROM jobs j CROSS JOIN sequences t ON t.id = j.sequence CROSS JOIN hosts m ON m.id = t.host
WHERE (SELECT 1 FROM hosts WHERE pool IS NOT NULL LIMIT 1) = 1 AND j.state = 'TAKEN' AND t.kind <> 'extract'
    AND m.pool IS NOT NULL
GROUP BY m.run, m.pool
"""
POOLS = f"pools AS MATERIALIZED ({_TAKEN_OF_POOLS})"
"""SQL: the table of a WITH that `TAKEN` reads."""
# sums: SQLite would build an index over the few rows
TAKEN = (
    f"(CASE WHEN h.pool IS NULL THEN {_TAKEN_OF_HOST} ELSE"
    " (SELECT total(CASE WHEN p.run = h.run AND p.pool = h.pool THEN p.taken ELSE 0 END) FROM pools p) END)"
)
"""SQL: the jobs that nodes hold of the host `h`, and of those with which it has one limit."""
PLACES = ("paused", "absent")
"""The holds that the index of waiting sequences knows."""


class Hold(Struct, frozen=True):
    """What may keep all jobs of a sequence from being sent."""

    code: str
    free: str
    """SQL: whether it does not. `{s}`, `{h}` are prefixes of columns of sequence and host, `r` is the run.

    `{taken}`: the jobs of the host that nodes hold.
    """
    of_fetches: bool = True
    """Whether it leaves re-extractions alone."""
    needs_place: bool = True
    """Whether it is told only where the host has a place; before that, who has its places is told."""


HOLDS = (
    Hold("run-paused", "r.paused IS NULL", of_fetches=False, needs_place=False),
    Hold("paused", "{s}paused = 0", of_fetches=False, needs_place=False),
    Hold("host-paused", "{h}paused = 0", needs_place=False),
    Hold("absent", "{s}absent <> 1", of_fetches=False, needs_place=False),
    Hold("extract-only", "r.extract_only = 0", needs_place=False),
    Hold("no-run", "r.state IN ('SEEDING', 'READY', 'DRAINING')", of_fetches=False, needs_place=False),
    Hold("robots", "{h}robots <> 'WANTED' OR {s}kind = 'robots'"),
    Hold("login", f"{{h}}login <> 'WANTED' OR {{s}}kind NOT IN {AFTER_LOGIN}"),
    # their answers may end the session; the commit of the last one rings
    Hold("login-pages", "{s}kind <> 'login' OR {taken} = 0"),
    Hold("backoff", f"coalesce({BACKOFF_UNTIL}, 0) <= :now"),
)
"""In the order in which they are named."""


def free_of(codes: Container[str], *, s: str = "s.", h: str = "h.", taken: str = _TAKEN_OF_HOST) -> str:
    """SQL: whether none of these holds keeps a sequence."""
    return " AND ".join(f"({hold.free.format(s=s, h=h, taken=taken)})" for hold in HOLDS if hold.code in codes)


def _case(hold: Hold) -> str:
    kept = f"NOT ({hold.free.format(s='s.', h='h.', taken=_TAKEN_OF_HOST)})"
    kind = "s.kind <> 'extract' AND " if hold.of_fetches else ""
    return f"WHEN {kind}{kept} THEN '{hold.code}'"


FIRST_HOLD = f"CASE {' '.join(map(_case, HOLDS))} END"
"""SQL: the code of what holds the sequence `s` on the host `h` in the run `r`; null: nothing does. `:now`: seconds."""
