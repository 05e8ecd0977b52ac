"""Renewal: what follows when the defs of a run changed, a batch a tick.

Stale pages are found and given to the nodes; jobs of groups the defs lack are skipped, those of groups they have again
revived.
How far the search is stands in the run's row, moved on in the transaction that queues what was found: a supervisor
that dies is followed by one that goes on there.
"""

import time
from typing import Any

import orjson

from engine.runtime.clock import boottime
from engine.store.db.connector import Database
from engine.store.read import stale_pages
from engine.store.tables import events, jobs, rows, runs, sequences, versions
from engine.store.tables.events import Event, Level
from engine.supervise.reload.diff import pluralize

GROUP_REMOVED = "its group is not in the defs"
"""Why jobs of a group are SKIPPED; the group may come back."""
_SCAN_SIZE = 4000
"""Jobs looked at in one transaction: some 20 ms where all of them are stale."""
_MAX_QUEUED = 8000
"""Re-extractions that may wait at a time: a million stale pages make no million more jobs."""
_BATCH_SIZE = 2000


class ReextractionPlanner:
    """For one run. Owns no thread; raises Busy where the database is, and the next step makes it good."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self.done = False
        """Whether nothing was left to do at the last step."""

    def step(self) -> list[int]:
        """Do one batch of each kind; returns the sequences to ring."""
        unsettled = sequences.list_unsettled(self._db, self._run, 1)
        known, _ = runs.get_reextraction(self._db, self._run)
        self.done = not unsettled and known is None
        rung = self._update_group_jobs(*unsettled[0]) if unsettled else []
        if known is not None:
            rung += self._queue_stale_pages(orjson.loads(known))
        return rung

    def _update_group_jobs(self, sequence: int, kind: str, absent: int) -> list[int]:
        with self._db.transaction():
            if absent == 1:
                if kind == "extract":
                    jobs.drop_extracts(self._db, sequence, _BATCH_SIZE)
                else:
                    jobs.skip_ready(self._db, sequence, GROUP_REMOVED, _BATCH_SIZE)
                    jobs.skip_delayed(self._db, self._run, sequence, GROUP_REMOVED, _BATCH_SIZE)
                return []
            if jobs.requeue_skipped(self._db, sequence, GROUP_REMOVED, _BATCH_SIZE) < _BATCH_SIZE:
                sequences.mark_rechecked(self._db, sequence)
            return sequences.ring_all(self._db, self._run, boottime())

    def _queue_stale_pages(self, told: dict[str, Any]) -> list[int]:
        """Queue the stale pages of a stretch of jobs; once all were looked at and worked, say what came of it."""
        left = sequences.count_open_extracts(self._db, self._run)
        if told["at"] >= told["upto"]:
            if left == 0 and not stale_pages.has_open_extracts(self._db, self._run):
                if told["targets"] and told["counted"] < told["upto"]:
                    self._count_unlinked(told)
                else:
                    self._finish(told)
            return []
        if left >= _MAX_QUEUED:
            return []
        after, upto = told["at"], min(told["at"] + _SCAN_SIZE, told["upto"])
        with self._db.transaction():
            version = versions.current(self._db, self._run)
            if told["groups"]:
                jobs.clear_defs_version(self._db, self._run, told["groups"], after, upto)
            found = stale_pages.find_stale(self._db, self._run, version, after, upto)
            pages = [page for page, _, lost in found if not lost]
            if pages:
                jobs.queue_extracts(self._db, pages)
            told |= {"at": upto, "lost": told["lost"] + len(found) - len(pages), "found": told["found"] + len(found)}
            runs.set_reextraction(self._db, self._run, orjson.dumps(told).decode())
            return sequences.ring_extracts(self._db, self._run, boottime()) if pages else []

    def _count_unlinked(self, told: dict[str, Any]) -> None:
        """Count the pages of a stretch of jobs that no link leads to any more."""
        after, upto = told["counted"], min(told["counted"] + _SCAN_SIZE, told["upto"])
        with self._db.transaction():
            version = versions.current(self._db, self._run)
            count = stale_pages.count_unlinked(self._db, self._run, version, told["targets"], after, upto)
            told |= {"counted": upto, "unlinked": told["unlinked"] + count}
            runs.set_reextraction(self._db, self._run, orjson.dumps(told).decode())

    def _finish(self, told: dict[str, Any]) -> None:
        failed = sequences.count_failed_extracts(self._db, self._run)
        with self._db.transaction():
            _, count = runs.get_reextraction(self._db, self._run)
            runs.set_reextraction(self._db, self._run, None)
            runs.set_relinking(self._db, self._run, False)
            now = {name: made for name, (made, _) in rows.counts(self._db, self._run).items()}
            moved = [f"{n}: {was:,} → {now.get(n, 0):,} rows" for n, was in told["before"].items()]
            if count or moved:
                self._add_event("INFO", "; ".join([f"{pluralize(count, 'page')} re-extracted", *moved]))
            for name, was in told["before"].items():
                if was and not now.get(name):
                    self._add_event(
                        "WARNING", f"{name}: matches nothing any more, its {pluralize(was, 'row')} are gone"
                    )
            # where a page was up to date its links were not looked at: then nothing can be said
            if told["unlinked"] and told["found"] >= told["expected"]:
                text = f"{pluralize(told['unlinked'], 'page')} keep their rows: no link leads to them any more"
                self._add_event("WARNING", text)
            if told["lost"] + failed:
                text = f"{pluralize(told['lost'] + failed, 'page')} could not be re-extracted and keep their rows"
                self._add_event("WARNING", text)
        self.done = True

    def _add_event(self, level: Level, text: str) -> None:
        events.add(self._db, self._run, [Event(time.time(), level, "supervisor", "defs", text)])
