"""Says whether a further node could lease a job now: the rules of the lease, with the slots of one more node."""

from msgspec.structs import replace

from engine.model.job import JobKind
from engine.store.db.connector import Database
from engine.store.tables.job import rings
from engine.store.transactions import page_limit
from engine.store.transactions.lease import (
    SEQUENCE_STATE,
    LeaseRequest,
    SequenceState,
    allowed_jobs,
    blocked_until,
    is_suspended,
)

_CANDIDATES = 16
"""Sequences that are looked at; the SQL left out those that a host, an operator or the defs hold back."""
_REQUEST = LeaseRequest(node=0, lease_id=0, free_slots=1, batch=1)


def has_leasable_jobs(db: Database, run: int, now: float, *, more_slots: int) -> bool:
    """Whether a node with `more_slots` slots, were it started, could lease a job at once.

    `now`: boot-time seconds. Quotas are those with its slots. Costs an indexed query, and a read for each candidate.
    """
    return any(
        _is_leasable(db, SequenceState(*row), now, more_slots)
        for sequence in rings.list_sendable(db, run, now, _CANDIDATES)
        if (row := db.one(SEQUENCE_STATE, (sequence,))) is not None
    )


def _is_leasable(db: Database, state: SequenceState, now: float, more_slots: int) -> bool:
    s = replace(state, slots=state.slots + more_slots)
    if s.kind == JobKind.EXTRACT:
        return not is_suspended(s)
    if blocked_until(s, now) != 0 or not allowed_jobs(s, _REQUEST):
        return False
    return not s.is_limited or bool(
        page_limit.read_room(db, s.run, s.group, group_limit=s.max_pages, run_limit=s.run_max_pages).requests
    )
