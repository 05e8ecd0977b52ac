"""Nine situations of a run in a real store, and how each is called wherever a run is shown."""

import os
from pathlib import Path
from typing import NamedTuple

from crawl_engine.model.run import RunState
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import StoreHarness, failed

STOPPED_AT = 1_700_000_000.0


class Situation(NamedTuple):
    """A situation, and what every surface says of it: one word, one level, one text."""

    word: str
    level: str
    text: str
    state: RunState | None = RunState.READY
    exit_code: int | None = None
    """Of a run that has ended."""
    reason: str | None = None
    paused: str | None = None
    lives: bool = False
    """Whether its supervisor is this process."""
    fails: bool = False
    """Whether one of its two pages failed."""


SITUATIONS = {
    "running": Situation("RUNNING", "good", "RUNNING", lives=True),
    "paused": Situation("PAUSED", "warn", "PAUSED", paused="operator", lives=True),
    "done": Situation("DONE", "good", "DONE", RunState.DONE, 0),
    "done with 1": Situation("ENDED, exit 1", "bad", "ENDED, exit 1: 1 failed", RunState.DONE, 1, fails=True),
    "failed": Situation("FAILED", "bad", "FAILED, exit 3: disk full", RunState.FAILED, 3, "disk full"),
    "cancelled": Situation(
        "CANCELLED", "warn", "CANCELLED, exit 130: SIGINT, 1 failed", RunState.CANCELLED, 130, "SIGINT", fails=True
    ),
    "killed": Situation("KILLED", "warn", "KILLED, exit 137: SIGKILL", RunState.KILLED, 137, "SIGKILL"),
    "supervisor lost": Situation("SUPERVISOR LOST", "bad", "SUPERVISOR LOST"),
    "none yet": Situation("no run yet", "dim", "no run yet", None),
}


def bring_about(situation: Situation, store: StoreHarness, empty: Path) -> Path:
    """The data dir of a run in this situation; `empty` is one without a run."""
    if situation.state is None:
        empty.mkdir()
        return empty
    store.seed("http://a/1", "http://a/2")
    first, second = store.take("http://a/", free=2)
    store.commit(store.done(first, data=['{"title":"x"}']), failed(second) if situation.fails else store.done(second))
    with store.db.transaction():
        store.db.execute("UPDATE runs SET stage = 'RUNNING', seconds = 60, paused = ?", (situation.paused,))
        if situation.lives:
            store.db.execute("UPDATE supervisors SET identity = ?", (identity_of(os.getpid()),))
        if situation.exit_code is not None:
            if situation.state is RunState.DONE:
                runs.set_state(store.db, store.run, RunState.DRAINING)
            assert runs.set_state(store.db, store.run, situation.state, situation.reason)
            runs.end(store.db, store.run, STOPPED_AT, situation.exit_code, situation.reason)
            store.db.execute("UPDATE runs SET stage = 'SHUTDOWN_COMPLETE'")
            store.db.execute("UPDATE supervisors SET ended_at = ?", (STOPPED_AT,))
            store.db.execute(
                "UPDATE nodes SET state = 'TERMINATED', heart = 'APPARENT_DEATH', pid = NULL, ended_at = 1"
            )
    return store.folder
