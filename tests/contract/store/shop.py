"""A run with done pages of two dataDefs, whose defs can be changed."""

from collections.abc import Callable, Iterable

import orjson

from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup, definition_hash
from crawl_engine.model.job import JobState, LeasedJob
from crawl_engine.model.link import Link
from crawl_engine.store.read import stale_pages
from crawl_engine.store.tables.job import extracts, sequences
from crawl_engine.store.tables.outcome import Effect, JobOutcome
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run import runs, versions
from crawl_engine.store.transactions.lease import Lease
from crawl_engine.store.transactions.supersede import OldRows
from tests.contract.store.harness import StoreHarness, document

NewStore = Callable[..., StoreHarness]


def defs(*fields: str, groups: Iterable[str] = ("g",), more: bool = False, depth: int | None = None) -> Definitions:
    """A dataDef `book` with these fields, and `shelf`, both of group g; group `more` is linked where it is there."""
    links = (Link(selector="a", group="more"),) if "more" in groups else ()
    book = DataDef(name="book", fields=tuple(Field(name=name) for name in fields))
    shelf = DataDef(name="shelf", fields=(Field(name="s"),), links=links)
    tasks = (Task(name="a", data_def="book"), Task(name="b", data_def="shelf"))
    return Definitions(
        data_defs=(book, shelf),
        task_groups=tuple(TaskGroup(name=name, tasks=tasks, max_depth=depth) for name in groups),
    )


class Shop:
    """A run with pages of group g, done under the first of its def versions."""

    def __init__(self, store: StoreHarness, pages: int = 1) -> None:
        self.store = store
        self.publish(defs("title"))
        self.done = self.crawl(pages)

    def publish(self, definitions: Definitions) -> int:
        db = self.store.db
        with db.transaction():
            version = versions.publish(db, definitions, 0.0)
            runs.set_version(db, self.store.run, version)
            sequences.set_groups(db, self.store.run, [group.name for group in definitions.task_groups])
            self.ids = {d.name: versions.ensure_data_def(db, d.name, definition_hash(d)) for d in definitions.data_defs}
        return version

    def crawl(self, pages: int, host: str = "a") -> list[int]:
        self.store.seed(*[f"http://{host}/{i}" for i in range(pages)])
        taken: list[LeasedJob] = []
        while got := self.store.take(f"http://{host}/0"):
            self.store.commit(*map(self.fetched, got))
            taken += got
        return [job.id for job in taken]

    def rows(self, job: LeasedJob, *names: str) -> tuple[NewRows, ...]:
        return tuple(NewRows(name, self.ids[name], (f'{{"v":{job.defs_version},"d":"{name}"}}',)) for name in names)

    def fetched(self, job: LeasedJob, *effects: Effect) -> JobOutcome:
        self.page = getattr(self, "page", 0) + 1
        return self.store.done(job, *self.rows(job, "book", "shelf"), document(job.url), *effects, page=self.page)

    def queue(self) -> None:
        """Queue the re-extraction of all stale pages."""
        db, run = self.store.db, self.store.run
        with db.transaction():
            stale = stale_pages.find_stale(db, run, versions.current(db, run), 0, stale_pages.last_job_id(db))
            extracts.queue(db, [page for page, _, lost in stale if not lost])

    def lease(self, free: int = 32) -> Lease:
        return self.store.lease(self.sequence(), free=free)

    def sequence(self) -> int:
        return int(self.store.db.value("SELECT id FROM sequences WHERE kind = 'extract'"))

    def extracted(self, job: LeasedJob, *effects: Effect) -> JobOutcome:
        """The outcome of a re-extraction that leaves `shelf` unchanged."""
        kept = tuple(id_ for id_ in job.extraction.extracted_with if id_ in self.ids.values())
        names = [name for name, id_ in self.ids.items() if id_ not in kept]
        return JobOutcome(job=job, state=JobState.DONE, effects=(*self.rows(job, *names), OldRows(kept), *effects))

    def row_versions(self) -> list[tuple[int, str, int]]:
        """Job, dataDef and version of every row, in order."""
        result = [(job, orjson.loads(data)) for job, data in self.store.rows()]
        return [(job, data["d"], data["v"]) for job, data in result]

    def extractions(self) -> list[tuple[int, str]]:
        return self.store.db.all("SELECT page, state FROM jobs WHERE page IS NOT NULL ORDER BY id")
