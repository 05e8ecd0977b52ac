"""Publishes the defs that the watcher loaded from disk, or rejects them and reports the problems.

With the setting `on_save` at `ask`, saved defs wait: they are published at the command `reload` or SIGHUP.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import orjson
from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.defs.watcher import DefsWatcher, LoadResult
from crawl_engine.errors import Problem, plural
from crawl_engine.model.definition import Definitions
from crawl_engine.model.fingerprint import PreparedDefs
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.run import runs, supervisors
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.supervise.checkpoints.step_graph import StepGraph
from crawl_engine.supervise.checkpoints.tracker import CheckpointTracker
from crawl_engine.supervise.reload.diff import describe_changes
from crawl_engine.supervise.reload.publish import count_stale_pages, publish_defs
from crawl_engine.supervise.run_context import RunContext
from crawl_engine.supervise.seeding.seeder import find_unseedable

PROBLEMS_KEY = "defs_problems"
"""The metadata key for the problems of rejected defs."""
SAVED_KEY = "defs_saved"
"""The metadata key for defs on disk that are not published: their hash, the changes and the time, as JSON."""
_MAX_REPORTED = 5
_SIGNAL = 0
"""The order of SIGHUP, which has no command."""
_Outcome = tuple[bool, str]
"""Whether it was done, and a sentence for the operator."""
_NewDefs = tuple[Definitions, int]
"""Published defs, and their version."""


class _Order(Struct):
    """An order to publish the defs on disk."""

    ticket: int
    """Of the load that it waits for."""
    saved: str | None = None
    """The hash of the defs that the operator saw; None: any."""
    outcome: _Outcome | None = None


class Reloader(Struct, kw_only=True):
    """The reloader of one run."""

    run: RunContext
    watcher: DefsWatcher[StepGraph]
    output_file: Path | None
    """The file of `-o`."""
    checkpoints: CheckpointTracker
    current: PreparedDefs
    """The defs in force."""
    _orders: dict[int, _Order] = {}
    """By command, or `_SIGNAL`."""
    _loaded: LoadResult[StepGraph] | None = None
    """What a busy database kept from being published."""

    def check_now(self) -> None:
        """Load and publish the defs from disk, whether or not a file changed."""
        self._orders[_SIGNAL] = _Order(self.watcher.request_load())

    def request(self, command: int, saved: str | None = None) -> _Outcome | None:
        """Load and publish the defs for a command; returns the outcome once it is available, else None.

        `saved`: the hash of the defs that the operator saw; others are not published. None: any defs on disk.
        """
        order = self._orders.get(command)
        if order is None:
            order = self._orders[command] = _Order(self.watcher.request_load(), saved)
        elif order.outcome is not None:
            del self._orders[command]
        return order.outcome

    def is_settled(self) -> bool:
        """Whether the defs on disk are in force, wait for an operator, or were rejected."""
        return self._loaded is None and self.watcher.settled()

    def tick(self) -> _NewDefs | None:
        """Publish loaded defs, if any; returns new defs and their version, for the caller to seed.

        Raises DatabaseBusy; the next tick retries.
        """
        result = self._loaded = self._take_loaded()
        if result is None:
            return None
        orders = [order for order in self._orders.values() if order.outcome is None and order.ticket <= result.ticket]
        outcome, new = self._decide(result, orders)
        self._loaded = None
        for order in orders:
            order.outcome = outcome
        return new

    def _take_loaded(self) -> LoadResult[StepGraph] | None:
        """The defs loaded last; they also answer the orders for those that a busy database kept."""
        newer, kept = self.watcher.take_result(), self._loaded
        if newer is None or kept is None:
            return newer or kept
        return replace(newer, ticket=max(newer.ticket, kept.ticket))

    def _decide(self, result: LoadResult[StepGraph], orders: Sequence[_Order]) -> tuple[_Outcome, _NewDefs | None]:
        """Reject, hold or publish loaded defs."""
        defs, steps = result.edition, result.prepared
        if defs is None or steps is None:
            return self._reject(result.problems), None
        run = runs.get(self.run.db, self.run.seq)
        unseedable = self._find_unseedable(defs.definitions, run)
        if unseedable:
            return self._reject(unseedable), None
        if self._must_ask(defs, orders):
            return self._hold(defs), None
        return self._publish(run, defs, steps, result.problems)

    def _find_unseedable(self, definitions: Definitions, run: Run) -> tuple[Problem, ...]:
        settings = self.run.settings
        unseedable = find_unseedable(definitions, settings.base_url or run.base_url, allow_file=settings.allow_file)
        if unseedable is None:
            return ()
        position, message, remedy = unseedable
        problem = Problem(
            file=position.file, line=position.line, column=position.column, code="unseedable",
            message=f"{message}: {remedy}",
        )  # fmt: skip
        return (problem,)

    def _must_ask(self, defs: PreparedDefs, orders: Sequence[_Order]) -> bool:
        """Whether these defs wait for an operator: no order publishes them, with their hash or without one."""
        if self.run.settings.on_save == "publish" or defs.hash == self.current.hash:
            return False
        return all(order.saved not in (None, defs.hash) for order in orders)

    def _hold(self, defs: PreparedDefs) -> _Outcome:
        """Keep the version in force, and tell viewers and the log about the waiting defs."""
        pages = count_stale_pages(self.run.db, self.run.seq, self.current, defs, self.run.settings)
        text = describe_changes(self.current, defs, pages)
        outcome = False, f"the defs were saved again since, and wait: {text}"
        earlier = orjson.loads(supervisors.get_meta(self.run.db, SAVED_KEY) or "null")
        if earlier is not None and earlier["hash"] == defs.hash:
            return outcome  # saved again with the same meaning
        with self.run.db.transaction():
            store_problems(self.run.db, [])
            saved = {"hash": defs.hash, "text": text, "at": time.time()}
            supervisors.set_meta(self.run.db, SAVED_KEY, orjson.dumps(saved).decode())
            event = f"defs saved, not published: {text}; `crawl-console plan` compares the rows, `reload` publishes"
            self.run.log("WARNING", "defs", event)
        return outcome

    def _publish(
        self, run: Run, defs: PreparedDefs, steps: StepGraph, warnings: Sequence[Problem]
    ) -> tuple[_Outcome, _NewDefs | None]:
        db = self.run.db
        with db.transaction():
            had_problems = supervisors.get_meta(db, PROBLEMS_KEY) not in (None, "[]")
            published = publish_defs(
                replace(self.run, row=run), defs, output_file=self.output_file, graph=steps, current=self.current
            )
            store_problems(db, [])
            if published.changed:
                for warning in warnings[:_MAX_REPORTED]:
                    self.run.log("WARNING", "defs", str(warning))
            elif had_problems:
                self.run.log("INFO", "defs", f"the defs have no more problems; v{published.version} stays")
        self.current, self.checkpoints.graph = defs, steps
        return (True, published.text), (defs.definitions, published.version) if published.changed else None

    def _reject(self, problems: Sequence[Problem]) -> _Outcome:
        lines = [str(problem) for problem in problems if not problem.warning]
        version = runs.get(self.run.db, self.run.seq).defs_version
        head = f"the defs on disk are not used, v{version} stays: {plural(len(lines), 'problem')}"
        with self.run.db.transaction():
            store_problems(self.run.db, problems)
            for text in (head, *lines[:_MAX_REPORTED]):
                self.run.log("ERROR", "defs", text)
        return False, "\n".join([head, *lines])


def store_problems(db: Database, problems: Sequence[Problem]) -> None:
    """Record the problems for viewers; an empty list means valid defs. Saved defs no longer wait."""
    records = [
        {"file": p.file, "line": p.line, "col": p.column, "code": p.code, "message": p.message}
        for p in problems
        if not p.warning
    ]
    supervisors.set_meta(db, PROBLEMS_KEY, orjson.dumps(records).decode())
    supervisors.set_meta(db, SAVED_KEY, "null")
