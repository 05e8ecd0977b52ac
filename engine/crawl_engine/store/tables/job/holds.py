"""May jobs of a sequence be sent now? What holds them, as SQL for leases, rings and explanations."""

from collections.abc import Container

from msgspec import Struct

AFTER_LOGIN = ("page", "file")
"""The kinds of jobs that wait for the login to their host."""
TAKEN = "(SELECT total(t.taken) FROM sequences t WHERE t.host = h.id AND t.kind <> 'extract')"
"""SQL: the jobs of the host `h` that nodes hold."""
PLACES = ("paused", "absent")
"""The holds that the index of waiting sequences knows."""


class Hold(Struct, frozen=True):
    """What may keep all jobs of a sequence from being sent."""

    code: str
    free: str
    """SQL: whether it does not. `{s}`, `{h}` are prefixes of columns of sequence and host, `r` is the run."""
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
    Hold("backoff", "{h}backoff_until IS NULL OR {h}backoff_until <= :now"),
)
"""In the order in which they are named."""


def free_of(codes: Container[str], *, s: str = "s.", h: str = "h.", taken: str = TAKEN) -> str:
    """SQL: whether none of these holds keeps a sequence."""
    return " AND ".join(f"({hold.free.format(s=s, h=h, taken=taken)})" for hold in HOLDS if hold.code in codes)


def _case(hold: Hold) -> str:
    kept = f"NOT ({hold.free.format(s='s.', h='h.', taken=TAKEN)})"
    kind = "s.kind <> 'extract' AND " if hold.of_fetches else ""
    return f"WHEN {kind}{kept} THEN '{hold.code}'"


FIRST_HOLD = f"CASE {' '.join(map(_case, HOLDS))} END"
"""SQL: the code of what holds the sequence `s` on the host `h` in the run `r`; null: nothing does. `:now`: seconds."""
