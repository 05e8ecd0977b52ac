"""Leases a node's next jobs in the transaction that frees the places of its last ones."""

import logging

from engine.store.db.connector import Database, DatabaseBusy
from engine.store.read import candidates
from engine.store.tables import sequences
from engine.store.transactions.lease import Lease, LeaseRequest, lease_sequences

_log = logging.getLogger(__name__)

_MAX_SEQUENCES = 4
"""Rung sequences from which such a transaction leases; the queue keeps the order of more."""


def lease_next(
    db: Database, run: int, request: LeaseRequest, ring: list[int], now: float
) -> tuple[list[Lease], list[int]]:
    """Lease from the rung sequences if they are few; the one with the fewest jobs in progress comes first.

    Returns the leases, and the sequences that still have to be rung: another node may get jobs where this one got
    none. Rings already sent stay as they are.
    """
    rung = sequences.list_rung(db, run, _MAX_SEQUENCES + 1)
    if len(rung) > _MAX_SEQUENCES:
        return [], ring
    if request.held_jobs and candidates.has_suspect(db, rung):
        # a suspect job goes to a node that holds nothing: leave that node the ring
        return [Lease(left_for_others=True)], ring
    unanswered = dict.fromkeys(ring)

    def answer(sequence: int, lease: Lease) -> None:
        if sequence in unanswered and lease.jobs and not lease.ring:
            sequences.answer_ring(db, sequence, None)
            del unanswered[sequence]

    try:
        with db.savepoint():
            leases = lease_sequences(db, request, sequences.least_busy_first(db, rung), now, answer)
    except DatabaseBusy:
        raise
    except Exception as error:
        if not db.in_transaction:
            raise
        # the outcomes can still be written; the slice that answers the ring reports the error again
        _log.error("the next jobs cannot be leased in the commit; their rings stay", exc_info=error)
        return [], ring
    return leases, list(unanswered)
