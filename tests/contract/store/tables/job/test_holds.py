"""Each hold keeps leases and rings from a sequence, and is explained; the end of it gives the jobs back."""

import pytest

from crawl_engine.store.tables.job import rings
from crawl_engine.store.tables.job.holds import HOLDS, Hold
from crawl_engine.store.transactions import waits
from crawl_engine.store.transactions.lease import read_sequence
from crawl_engine.store.transactions.waits import WaitingPlace
from tests.contract.store.harness import StoreHarness

BEGIN = {
    "run-paused": "UPDATE runs SET paused = 'operator'",
    "paused": "UPDATE sequences SET paused = 1",
    "host-paused": "UPDATE hosts SET paused = 1",
    "absent": "UPDATE sequences SET absent = 1",
    "extract-only": "UPDATE runs SET extract_only = 1",
    "no-run": "UPDATE runs SET state = 'DONE'",
    "robots": "UPDATE hosts SET robots = 'WANTED'",
    "login": "UPDATE hosts SET login = 'WANTED'",
    "login-pages": "UPDATE sequences SET kind = 'login', taken = 1",
    "backoff": "UPDATE hosts SET backoff_until = 1005.0",
}
OF_RUN = ("run-paused", "extract-only", "no-run")
"""Holds that rings leave to the lease: they concern all sequences at once."""


@pytest.mark.parametrize("hold", HOLDS, ids=[hold.code for hold in HOLDS])
def test_each_hold_is_one_answer(store: StoreHarness, hold: Hold) -> None:
    code = hold.code
    store.seed("http://a/1", "http://a/2")
    with store.db.transaction():
        rings.clear_rings(store.db, store.run)
        store.db.execute(BEGIN[code])
        state = read_sequence(store.db, 1, store.now)
        assert state is not None
        assert state.hold == code
        assert bool(rings.ring_hosts(store.db, [state.host], store.now)) == (code in OF_RUN)
        assert bool(rings.list_sendable(store.db, store.run, store.now, 9)) == (code in OF_RUN)
    lease = store.lease(1)
    assert lease.jobs == ()
    assert lease.due == (1005.0 if code == "backoff" else None)
    kind = "login" if code == "login-pages" else "page"
    (reason,) = waits.explain(
        store.db, store.run, [WaitingPlace(kind, "g", "a:80")], store.now, lambda *_: None
    ).values()
    assert reason != "it waits for a free slot"


def test_nothing_holds_a_sequence_that_is_leased_from(store: StoreHarness) -> None:
    store.seed("http://a/1")
    state = read_sequence(store.db, 1, store.now)
    assert state is not None
    assert state.hold is None
    assert set(BEGIN) == {hold.code for hold in HOLDS}
    assert len(store.lease(1).jobs) == 1
