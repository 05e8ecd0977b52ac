"""A data dir with one run, a supervisor epoch and nodes, and a clock that only the test moves."""

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.model.definition import DataDef, Definitions, Field, definition_hash
from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobKind, JobState, LeasedJob, document_key, link_key, locator_key
from crawl_engine.model.node import NodeState, Role
from crawl_engine.model.run import RunState
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.location import read_location
from crawl_engine.store.db.postgres_schema import read_tables
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.job import jobs, locators, rings
from crawl_engine.store.tables.job.jobs import NewLocator
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children
from crawl_engine.store.tables.outcome import AttemptStats, Effect, JobOutcome, Placement
from crawl_engine.store.tables.row import rows as row_table
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run import events, machines, nodes, page_limits, runs, supervisors, versions
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions.commit import CommitResult, commit
from crawl_engine.store.transactions.lease import Lease, LeaseRequest, lease, lease_sequences, read_sequences
from crawl_engine.store.transactions.placement import PlacementCache
from crawl_engine.supervise.run_context import RunContext

COUNTERS = ("ready", "delayed", "taken", "done", "failed", "skipped", "incomplete")
DEFAULT_POLICY = HostPolicy(delay=0.0, concurrency=8, robots=False)
REQUEST = '{"method":"GET","headers":[],"cookies":[],"body":null,"content_type":null}'
DEFS = Definitions(data_defs=(DataDef(name="book", fields=(Field(name="title"),)),))


def template(folder: Path) -> Path:
    """An empty data dir to copy: faster than a migration for each test."""
    folder.mkdir(parents=True, exist_ok=True)
    open_databases(folder).close()
    return folder


@dataclass(frozen=True, slots=True)
class Page:
    """A link of a page."""

    url: str
    group: str = "g"
    priority: int = 0
    depth: int = 1


class StoreHarness:
    """`policies` by host key (`name:port`); `max_pages` by group. The clock `now` is boot-time seconds."""

    def __init__(
        self,
        folder: Path,
        *,
        copy_of: Path | None = None,
        slots: int = 64,
        nodes_: int = 1,
        policies: Mapping[str, HostPolicy] | None = None,
        max_pages: Mapping[str, int] | None = None,
    ) -> None:
        self.folder = folder
        location = read_location(folder)
        if copy_of is not None and location is None:
            shutil.copytree(copy_of, folder, dirs_exist_ok=True)
        else:
            open_databases(folder).close()
        self.db = connect(folder / CRAWL, durable=False, busy_seconds=10)
        self.now = 1000.0
        self.numbers = 0
        with self.db.transaction():
            self.run = runs.create(self.db, None, 0.0).seq
            self.supervisor = supervisors.begin(self.db, "boot:1:1", self.run, 0.0)
            version = versions.publish(self.db, DEFS, 0.0)
            runs.set_version(self.db, self.run, version)
            runs.begin(self.db, self.run, 0.0)
            runs.set_state(self.db, self.run, RunState.SEEDING)
            runs.set_state(self.db, self.run, RunState.READY)
            runs.set_slots(self.db, self.run, slots)
            self.book = versions.ensure_data_def(self.db, DEFS.data_defs[0].name, definition_hash(DEFS.data_defs[0]))
        self.nodes = [self.node() for _ in range(nodes_)]
        self.places = self.new_places(policies)
        for group, most in (max_pages or {}).items():
            self.limit("group", group, most)

    def limit(self, code: str, name: str, most: int | None) -> None:
        """Set a limit of the requests for pages."""
        with self.db.transaction():
            page_limits.set_most(self.db, self.run, code, name, most)

    def context(self, db: Database | None = None, **settings: Any) -> RunContext:
        """The run as the parts of a supervisor know it."""
        return RunContext(
            db or self.db, self.folder, runs.get(self.db, self.run), replace(Settings(), **settings), self.supervisor
        )

    def new_places(self, policies: Mapping[str, HostPolicy] | None = None) -> PlacementCache:
        treated = dict(policies or {})
        return PlacementCache(self.run, lambda key: treated.get(key, DEFAULT_POLICY))

    def node(self, role: Role = Role.RUNNER) -> int:
        """Register a node; returns its epoch."""
        with self.db.transaction():
            epoch, number = nodes.insert(self.db, self.run, self.supervisor, role, None, 0.0)
            runs_now = role is Role.RUNNER
            assert nodes.register(self.db, epoch, "DONE" if runs_now else "STANDBY", number, f"boot:{number}:1")
        return epoch

    def join_machine(self, number: int = 9, *, is_ready: bool = True) -> int:
        """A machine joins, with a node; returns the place of that in `nodes`."""
        with self.db.transaction():
            machine = machines.join(self.db, identity=f"boot:{number}:1", host=f"web{number}", program="1", now=0.0)
            machines.set_role(self.db, machine, "STANDBY", self.run)
            epoch, _ = nodes.insert(self.db, self.run, machine, Role.RUNNER, None, 0.0)
            assert not is_ready or nodes.register(self.db, epoch, "DONE", epoch, f"boot:{epoch}:2")
        self.nodes.append(epoch)
        return len(self.nodes) - 1

    def end_nodes(self) -> None:
        """No node may write any more."""
        with self.db.transaction():
            for epoch in self.nodes:
                nodes.set_state(self.db, epoch, NodeState.DEAD)

    def place(self, url: str, group: str = "g", kind: JobKind = JobKind.PAGE) -> Placement:
        with self.db.transaction():
            place = self.places.find_or_create(self.db, group, urls.host_key(url), urls.origin(url), kind)
        self.places.commit_cache()
        return place

    def sequence(self, url: str, group: str = "g") -> int:
        return self.place(url, group).sequence

    def seed(
        self, *listed: str, group: str = "g", name: str = "l", priority: int = 0, method: str = "GET",
        body: str | None = None, request: str = REQUEST, account: str = "",
    ) -> list[int]:  # fmt: skip
        """Create the jobs of locators; returns the sequences to ring."""
        touched, new = set(), []
        with self.db.transaction():
            locator = locators.ensure(self.db, self.run, group, name, request)
            for url in listed:
                place = self.places.find_or_create(self.db, group, urls.host_key(url), urls.origin(url))
                touched.add(place.host)
                plain = method == "GET" and body is None
                new.append(
                    NewLocator(
                        self.run, place.sequence, priority, locator, url,
                        link_key(group, url) if plain else None, locator_key(group, name, url, method, body, account),
                    )
                )  # fmt: skip
            jobs.add_locators(self.db, new)
            hosts.mark_named(self.db, touched)
            rung = rings.ring_hosts(self.db, touched, self.now)
        self.places.commit_cache()
        return rung

    def lease(self, sequence: int, *, node: int | None = None, free: int = 32, batch: int = 32, held: int = 0) -> Lease:
        """Lease from one sequence."""
        request = self.lease_request(node=node, free=free, batch=batch, held=held)
        with self.db.transaction():
            nodes.check_live(self.db, request.node)
            (got,) = lease_sequences(self.db, request, read_sequences(self.db, [sequence], self.now), self.now)
        return got

    def lease_rung(self, *, node: int | None = None, free: int = 32, batch: int = 32, held: int = 0) -> list[Lease]:
        """Lease from the sequences that wait longest."""
        return lease(self.db, self.run, self.lease_request(node=node, free=free, batch=batch, held=held), self.now)

    def lease_request(self, *, node: int | None = None, free: int = 32, batch: int = 32, held: int = 0) -> LeaseRequest:
        self.numbers += 1
        epoch = self.nodes[0] if node is None else node
        return LeaseRequest(
            node=epoch, lease_id=(epoch << 32) | self.numbers, free_slots=free, batch=batch, held_jobs=held
        )

    def take(self, url: str, group: str = "g", *, node: int | None = None, free: int = 32) -> tuple[LeasedJob, ...]:
        """Lease from the sequence of that URL's host."""
        return self.lease(self.sequence(url, group), node=node, free=free).jobs

    def commit(
        self, *outcomes: JobOutcome, node: int | None = None, free: int = 0, held: int = 0, **share: Any
    ) -> CommitResult:
        """`free`: jobs to lease in the same transaction; `share`: further fields of the lease request."""
        epoch = self.nodes[0] if node is None else node
        request = replace(self.lease_request(node=epoch, free=free, held=held), **share) if free else None
        return commit(self.db, epoch, self.run, outcomes, self.places, self.now, request=request)

    def done(
        self, job: LeasedJob, *effects: Effect, data: Iterable[str] = (), links: Iterable[Page] = (), **more: Any
    ) -> JobOutcome:
        children = tuple(child(link) for link in links)
        rows = [NewRows("book", self.book, (text,)) for text in data]
        made = (*rows, *((Children(children),) if children else ()), *effects)
        return JobOutcome(job=job, state=JobState.DONE, attempts=1, effects=made, **{"stats": sent(), **more})

    def finish_all(self, url: str, group: str = "g") -> None:
        """Lease and finish all jobs of a sequence."""
        while taken := self.take(url, group):
            self.commit(*map(self.done, taken))

    # Reading the tables.

    def jobs(self, columns: str = "url, state") -> list[tuple[Any, ...]]:
        return self.db.all(f"SELECT {columns} FROM jobs ORDER BY id")

    def state(self, job: int) -> str:
        return str(self.db.value("SELECT state FROM jobs WHERE id = ?", (job,)))

    def list_events(self) -> list[Event]:
        """The events, without those of states and stages."""
        return [
            event for _, event in events.list_after(self.db, self.run, 0, 999) if event.kind not in ("state", "stage")
        ]

    def rows(self) -> list[tuple[int, str]]:
        return self.db.all("SELECT job, data FROM rows ORDER BY id")

    def row_counts(self) -> dict[str, tuple[int, int]]:
        """By dataDef: rows, and records rejected."""
        return {name: (of.rows, of.rejected) for name, of in row_table.counts(self.db, self.run).items()}

    def stored_counters(self) -> dict[int, dict[str, int]]:
        """The counters in the table, by sequence."""
        result = self.db.all(f"SELECT id, {', '.join(COUNTERS)} FROM sequences")
        return {row[0]: dict(zip(COUNTERS, row[1:], strict=True)) for row in result}

    def count_jobs(self) -> dict[int, dict[str, int]]:
        """The same numbers, counted from the jobs."""
        counts: dict[int, dict[str, int]] = {
            row[0]: dict.fromkeys(COUNTERS, 0) for row in self.db.all("SELECT id FROM sequences")
        }
        for sequence, state, waits, count in self.db.all(
            "SELECT sequence, state, not_before IS NOT NULL, count(*) FROM jobs GROUP BY 1, 2, 3"
        ):
            name = "delayed" if state == "READY" and waits else state.lower()
            counts[sequence][name] += count
        return counts

    def check_counters(self) -> None:
        counted = self.stored_counters()
        assert counted == self.count_jobs()
        active = sum(c["ready"] + c["taken"] > 0 for c in counted.values())
        assert self.db.value("SELECT active_sequences FROM runs WHERE seq = ?", (self.run,)) == active

    def check_sums(self) -> None:
        """The sums of each group equal those of its rows, and of the documents of its jobs."""
        of_rows: dict[str, list[bytes]] = {}
        for group, name, data, digest in self.db.all(
            "SELECT s.grp, d.name, CAST(r.data AS TEXT), r.digest FROM rows r JOIN jobs j ON j.id = r.job"
            " JOIN sequences s ON s.id = j.sequence JOIN data_defs d ON d.id = r.data_def"
        ):
            assert digest == blake2b(f"{name}\0{data}".encode(), digest_size=16).digest()
            of_rows.setdefault(group, []).append(digest)
        of_documents: dict[str, list[bytes]] = {}
        for group, digest in self.db.all(
            "SELECT s.grp, d.digest FROM jobs j JOIN sequences s ON s.id = j.sequence JOIN documents d"
            " ON d.id = j.document"
        ):
            of_documents.setdefault(group, []).append(digest)
        stored = {
            row[0]: row[1:]
            for row in self.db.all("SELECT grp, documents, document_sum, rows, row_sum FROM content_sums")
        }
        empty = (0, bytes(16), 0, bytes(16))
        for group in {*of_rows, *of_documents, *stored}:
            documents, listed = of_documents.get(group, []), of_rows.get(group, [])
            expected = (len(documents), sum_of(documents), len(listed), sum_of(listed))
            assert stored.get(group, empty) == expected, group

    def rung(self) -> set[int]:
        return {row[0] for row in self.db.all("SELECT id FROM sequences WHERE rung_at IS NOT NULL")}

    def plans(self, work: Any) -> list[tuple[str, list[str]]]:
        """Each statement that `work()` runs, and the lines of SQLite's plan for it."""
        if not isinstance(self.db, SqliteDatabase):
            pytest.skip("plans of SQLite")
        with traced(self.db) as seen:
            work()
        statements = [
            s for s in seen if s.lstrip().upper().startswith(("SELECT", "WITH", "UPDATE", "INSERT", "DELETE"))
        ]
        return [(s, [row[3] for row in self.db.all("EXPLAIN QUERY PLAN " + s)]) for s in statements]

    def close(self) -> None:
        self.db.close()


@contextlib.contextmanager
def traced(db: Database) -> Iterator[list[str]]:
    """The statements that SQLite runs meanwhile."""
    assert isinstance(db, SqliteDatabase)
    seen: list[str] = []
    db._connection.set_trace_callback(seen.append)
    try:
        yield seen
    finally:
        db._connection.set_trace_callback(None)


def table_names(db: Database) -> list[str]:
    """The tables of crawl.db, in the order of the schema."""
    if isinstance(db, SqliteDatabase):
        return [
            row[0]
            for row in db.all(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite*' ORDER BY rowid"
            )
        ]
    return [name for name in read_tables() if name not in ("pages", "dictionaries", "sqlite_sequence")]


def sum_of(digests: Iterable[bytes]) -> bytes:
    """Their sum modulo 2^128."""
    return (sum(int.from_bytes(digest, "big") for digest in digests) % 2**128).to_bytes(16, "big")


def child(page: Page) -> ChildJob:
    """The child job of a link."""
    return ChildJob(
        page.group, urls.host_key(page.url), urls.origin(page.url), page.url, page.depth, page.priority,
        link_key(page.group, page.url),
    )  # fmt: skip


def document(
    url: str, body: bytes = b"<p>hello</p>", *, redirected_from: Sequence[str] = (), at: float = 50.0
) -> NewDocument:
    """A fetched page; `redirected_from`: URLs that were redirected to it."""
    return NewDocument(
        keys=tuple(document_key(u) for u in (url, *redirected_from)),
        url=url,
        status=200,
        content_type="text/html",
        fetched_at=at,
        headers=(("Content-Type", "text/html"),),
        body=Body(body),
    )


def sent(**more: Any) -> AttemptStats:
    """One request; `responses=1`: it was answered."""
    return AttemptStats(requests=1, **more)


def failed(job: LeasedJob, reason: str = "it broke") -> JobOutcome:
    return JobOutcome(job=job, state=JobState.FAILED, attempts=1, stats=sent(), reason=reason, effects=(HostFailure(),))


def again(job: LeasedJob, not_before: float | None = None) -> JobOutcome:
    return JobOutcome(
        job=job, state=JobState.READY, attempts=1, stats=sent(), not_before=not_before, reason="timeout",
        effects=(HostFailure(),),
    )  # fmt: skip


def moved(job: LeasedJob, target: str) -> JobOutcome:
    """The job is redirected to a URL of another host."""
    return JobOutcome(
        job=job, state=JobState.READY, hops=job.hops + 1, target=target,
        next_host=(urls.host_key(target), urls.origin(target)),
    )  # fmt: skip


def unwritable(store: StoreHarness, job: LeasedJob, how: str) -> JobOutcome:
    """An outcome that SQLite or its binding rejects."""
    match how:
        case "row":
            return store.done(job, data=['{"title":"\ud800"}'], links=[Page("http://never/1")])
        case "event":
            return store.done(job, Event(1.0, "INFO", "n1", "page", "\udfff", job.id))
        case "reason":
            return failed(job, "no such page: \udc80")
        case "number":
            return replace(store.done(job), page=2**70)
        case "level":
            return store.done(job, Event(1.0, "LOUD", "n1", "page", "x", job.id))  # type: ignore[arg-type]
        case "document":
            return store.done(job, replace(document("http://a/x"), url="\ud800"), page=1)
        case "link":
            bad = child(Page("http://a/9"))._replace(url="http://a/\ud800")
            return store.done(job, Children((bad,)))
    raise AssertionError(how)
