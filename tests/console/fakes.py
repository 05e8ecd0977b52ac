"""A fake data source and control client, and a driver for a console under test."""

import asyncio
import itertools
import threading
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
from msgspec.structs import replace

from crawl_console.crawl.orders import Retried
from crawl_console.crawl.source import AcceptedDefs, SupervisorBeat
from crawl_console.tui.app import Console
from crawl_console.tui.config import Config
from crawl_console.tui.options import ConsoleOptions
from crawl_engine.errors import CrawlError
from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup
from crawl_engine.model.job import Request
from crawl_engine.store.read.browse import Ancestor, ChildEntry, DocumentDetail, JobDetail, Lineage, Listing
from crawl_engine.store.read.failures import FailureGroup, HostErrors
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions.exclude import EndedJob, Exclusion
from crawl_engine.supervise.commands import parse_arguments
from tests.console.builders import AT, line, run_report, snapshot
from tests.console.pictures import drawn_strips

DEFS = Definitions(
    data_defs=(DataDef(name="book", fields=(Field(name="title"),)), DataDef(name="detail", fields=(Field(name="x"),))),
    task_groups=(TaskGroup(name="books", tasks=(Task(name="list", data_def="book"),)),),
)


class FakeSource:
    """Returns its attributes. Filters choose from `jobs_` by state, host and search."""

    def __init__(self):
        self.current = snapshot()
        self.supervisor = 4121
        self.lines = [
            (1, Event(AT, "INFO", "n1", "page", "200   84 ms   12 kB  24 rows  https://shop.example/item/88121", 1)),
            (2, Event(AT + 1, "ERROR", "n1", "page", "item price: no match '.price' defs/shop.yaml:31:12", 2)),
            (3, Event(AT + 2, "WARNING", "supervisor", "node", "n5 died: SIGKILL", None)),
            (
                4,
                Event(AT + 3, "INFO", "n2", "page", "200   91 ms   11 kB  20 rows  https://shop.example/item/88122", 3),
            ),
        ]
        self.jobs_ = [
            line(1),
            line(2, "FAILED", reason="HTTP 500 (4 attempts)", attempts=4),
            line(3, "READY", attempts=0),
        ]
        self.error = None
        self.page_text = b"<title>Shop</title>\n<p>Tea</p>"
        self.samples_ = []
        self.reports = [
            run_report(
                2,
                "3f2a",
                {"book": 31_412, "detail": 0},
                warnings=("detail.isbn was never filled",),
                emptied=("detail.isbn",),
                state="READY",
                stage="RUNNING",
                exit_code=None,
            ),
            run_report(1, "1c9e", {"book": 31_300, "detail": 11_870}),
        ]
        self.later_hosts = []
        """Those that the snapshot leaves out."""
        self.host_reasons = ["books: delay 0.5 s of shop.example:443: the next request in 0.4 s"]
        self.polls = 0

    def snapshot(self, limit):
        self.polls += 1
        if self.error:
            raise CrawlError(self.error, "Wait.")
        return self.current

    def supervisor_pid(self, snapshot):
        return self.supervisor

    def supervisor_beat(self):
        return SupervisorBeat(0.2, 0.003)

    def events(self, run, after, limit):
        return [line for line in self.lines if line[0] > after][:limit]

    def trouble(self, run, after, upto, limit):
        return [line for line in self.lines if after < line[0] <= upto and line[1].level != "INFO"][-limit:]

    def last_event_id(self):
        return self.lines[-1][0] if self.lines else 0

    def last_events(self, run, event_filter, limit):
        levels = event_filter.levels.include
        return [line for line in self.lines if line[1].level in levels and line[1].kind != "page"][-limit:]

    def matching(self, job_filter):
        return [
            job for job in self.jobs_
            if job.state.lower() in job_filter.matched_states
            and job_filter.accepts(job.url, job.target or "", job.reason or "")
            and (
                not job_filter.hosts.include
                or {job.host, job.host.partition(":")[0]} & set(job_filter.hosts.include)
            )
        ]  # fmt: skip

    def jobs(self, run, job_filter, after, limit, *, backwards):
        jobs = self.matching(job_filter)
        jobs = list(reversed(jobs)) if backwards else jobs
        if after is not None:
            jobs = jobs[next((place for place, j in enumerate(jobs, 1) if j.id == after.id), 0) :]
        page = tuple(jobs[:limit])
        return Listing(page, page[-1].cursor if len(jobs) > limit else None)

    def job(self, id_):
        job = next((j for j in self.jobs_ if j.id == id_), None)
        if job is None:
            return None
        page = DocumentDetail(9, job.url, 200, "text/html", len(self.page_text), AT, (("server", "tea/1"),))
        events = tuple(line for line in self.lines if line[1].job == id_)
        return JobDetail(
            job,
            1,
            "home",
            None,
            Request(),
            3,
            page,
            events,
            ((1, "book", '{"title":"Tea","price":1.50}'),),
            lineage=Lineage(
                (Ancestor(7, "https://shop.example/page-3", 1),), (ChildEntry(12, job.url, "FAILED"),), (("FAILED", 1),)
            ),
        )

    def document_body(self, document):
        return self.page_text

    def host(self, run, host):
        return next((row for row in [*self.current.hosts, *self.later_hosts] if row.host == host), None)

    def host_waits(self, run, host):
        return self.host_reasons

    def host_errors(self, run, host):
        events = [line for line in reversed(self.lines) if line[1].level != "INFO"]
        groups = [group for group in self.failure_groups(run) if group.host == host]
        return HostErrors(tuple(groups), tuple(events))

    def host_events(self, run, host, limit):
        return [event for _, event in reversed(self.lines) if event.level != "INFO"][:limit]

    def failure_groups(self, run):
        counts = Counter((job.host, job.reason) for job in self.jobs_ if job.state == "FAILED")
        return [FailureGroup(host, reason, jobs, ("books",)) for (host, reason), jobs in counts.items()]

    def failure_times(self, run, group):
        return [job.changed_at for job in self.jobs_ if job.state == "FAILED" and job.changed_at]

    def failure_bounds(self, run):
        return {}

    def run_reports(self):
        return self.reports

    def page_rates(self, run):
        return [sample.pages for sample in self.samples_]

    def samples(self, run, since):
        return self.samples_

    def accepted_defs(self, version):
        return AcceptedDefs(version, AT, DEFS)

    def close(self):
        pass


class FakeControlClient:
    """Records the commands it is sent."""

    def __init__(self, source):
        self.commands = []
        self.retried = []
        self.excluded = []
        self.undone = []
        self.error = None
        self._source = source

    def send(self, name, arguments):
        parse_arguments(name, orjson.dumps(arguments))  # as the supervisor does
        self.commands.append((name, arguments))
        if self.error:
            raise CrawlError(self.error, "Try again.")
        return True, "done"

    def count_jobs(self, job_filter):
        return len(self._source.matching(job_filter))

    def export_jobs(self, job_filter, path):
        path.parent.mkdir(exist_ok=True)
        path.write_text("id\n")
        return self.count_jobs(job_filter)

    def retry_jobs(self, job_filter, ids, at_most):
        self.retried.append((job_filter.text, list(ids)))
        return Retried(len(ids) or self.count_jobs(job_filter), [EndedJob(2, "FAILED", "HTTP 500 (4 attempts)", 1)])

    def acknowledge(self, added, removed):
        keys = self._source.current.acknowledged
        self._source.current = replace(self._source.current, acknowledged=keys | set(added) - set(removed))

    def undo_retry(self, retried):
        self.undone.append(("retry", list(retried.ended)))
        return True, "1 job ended as before"

    def exclude_jobs(self, job_filter):
        self.excluded.append(job_filter.text)
        ids = [job.id for job in self._source.matching(job_filter)]
        return Exclusion(ids, f"excluded by an operator: {job_filter.text}")

    def readmit_jobs(self, exclusion):
        self.undone.append(("exclude", exclusion.reason))
        return True, "1 job READY again"


class ConsoleDriver:
    """Presses keys in a console and reads its screen."""

    def __init__(self, app, pilot, source, control_client):
        self.app, self.pilot, self.source, self.control_client = app, pilot, source, control_client

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.settle()

    async def type(self, text):
        await self.pilot.press(*("space" if c == " " else c for c in text))

    async def settle(self):
        """Wait until a poll that started after now is shown."""
        polls = self.source.polls
        if self.app.is_running:
            self.app.poller._wake.set()
        await self.until(lambda: self.source.polls > polls + 1 or not self.app.is_running)
        await self.pilot.pause()

    async def until(self, condition, seconds=30.0):
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, "timeout; the screen is:\n" + "\n".join(self.text())
            if self.app.is_running:
                self.app.poller._wake.set()
            await self.pilot.pause(0.01)

    def text(self):
        """The screen as lines of text."""
        return [strip.text.rstrip() for strip in drawn_strips(self.app)]

    def screen(self):
        return "\n".join(self.text())

    def toasts(self):
        return [n.message for n in self.app._notifications]


@asynccontextmanager
async def open_console(tmp_path: Path, *, size=(80, 24), source=None, control_client=None, screen="nodes", **options):
    """A console that shows its first poll. Its clock advances only a millisecond a poll."""
    source = source or FakeSource()
    control_client = control_client or FakeControlClient(source)
    (tmp_path / "shop" / "data").mkdir(parents=True, exist_ok=True)
    defaults = {"data": tmp_path / "shop" / "data", "defs": tmp_path / "defs", "hertz": 2.0}
    config = options.pop("config", None) or Config(tmp_path / "config", screen=screen)
    ticks, lock = itertools.count(1), threading.Lock()

    def clock():
        with lock:
            return 1000.0 + next(ticks) / 1000

    app = Console(ConsoleOptions(**{**defaults, **options}, config=config), source, control_client, clock)
    async with app.run_test(size=size, notifications=True) as pilot:
        console = ConsoleDriver(app, pilot, source, control_client)
        polled = (lambda: app.poll_failure is not None) if source.error else (lambda: app.last_poll is not None)
        await console.until(lambda: polled() and app.navigation.view_stack and app.navigation.view_stack[-1].is_mounted)
        await console.settle()
        yield console
    assert not app._exception, app._exception
