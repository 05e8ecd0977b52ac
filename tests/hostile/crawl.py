"""Crawls one hostile answer, or several, beside good pages, and measures what it did to them."""

from dataclasses import dataclass
from pathlib import Path

from crawl_engine.node.extraction.limits import WALL_FACTOR
from tests.hostile.answer import CRAWL_SETTINGS, HostileAnswer
from tests.hostile.sampler import MemorySampler
from tests.hostile.server import HostileServer
from tests.process.project import Project
from tests.process.site import Page, Request, Site, html

GOOD_PAGES = 200
PARSE_MEMORY = 400_000_000
"""The default setting, bytes."""
_DEFS = """\
locatorGroups:
  good: {{locators: [{{name: good, url: "{good}/good/{{1..{count}}}"}}]}}
{locators}
taskGroups:
  good: {{page: {{dataDef: good}}}}
{groups}
dataDefs:
  good:
    fields: {{title: {{selector: h1, required: true}}, url: {{value: "%{{document.url}}"}}}}
{data_defs}
hosts:
  "127.0.0.1:{good_port}": {{robots: false, concurrency: 4}}
  "127.0.0.1:{hostile_port}": {{robots: {robots}, concurrency: 4{host_keys}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a crawl with a hostile answer came to."""

    name: str
    exit_code: int | None
    """None: it did not end in time, and was killed."""
    good_rows: int
    nodes_lost: int
    state: str
    """Of the hostile job; empty where it has none."""
    reason: str
    seconds: float
    """From the hostile answer to the end of its job."""
    limit: float
    node_peak: int
    node_last: int
    extraction_peak: int
    """Bytes; 0: no such process was seen."""
    extraction_cpu: float
    """Processor seconds of the extraction process that used most."""
    children: int

    @property
    def faults(self) -> list[str]:
        """What must not have happened."""
        found = []
        if self.exit_code not in (0, 1):
            found.append("no end" if self.exit_code is None else f"exit {self.exit_code}")
        if self.good_rows != GOOD_PAGES:
            found.append(f"{self.good_rows} good rows")
        if self.nodes_lost:
            found.append(f"{self.nodes_lost} nodes lost")
        if self.state in ("READY", "TAKEN", "INCOMPLETE"):
            found.append(f"its job is {self.state}")
        # on a loaded machine a process waits for its turn; what it may use is processor time
        if self.extraction_cpu > self.limit + 1 or self.seconds > WALL_FACTOR * self.limit + 1:
            found.append("late")
        if self.extraction_peak > PARSE_MEMORY:
            found.append("memory of extraction")
        return found


def serve_good_pages(site: Site) -> None:
    """Every path of the site is a good page."""

    def respond(request: Request) -> Page:
        return Page(html(f"<h1>{request.path}</h1>" + "<p>some words</p>" * 20), delay=0.01)

    site.fallback = respond


def write_defs(project: Project, site: Site, server: HostileServer, *answers: HostileAnswer) -> None:
    """Defs with the good pages and one group for each hostile answer."""
    locators, groups, data_defs = [], [], []
    for number, answer in enumerate(answers):
        path = "/none/1" if answer.robots else f"/{answer.name}"
        locators.append(f'  h{number}: {{locators: [{{name: h, {answer.locator}: "{server.address}{path}"}}]}}')
        groups.append(f"  h{number}: {{maxPages: 9, page: {{dataDef: h{number}}}}}")
        keys = {"query": answer.query, "fields": answer.fields, "links": answer.links if answer.fields else ""}
        lines = [f"    {key}: {value}\n" for key, value in keys.items() if value]
        data_defs.append(f"  h{number}:\n{''.join(lines)}    {answer.more}")
    server.robots = next((answer for answer in answers if answer.robots), None)
    project.write(
        _DEFS.format(
            good=site.url("").rstrip("/"),
            count=GOOD_PAGES,
            locators="\n".join(locators),
            groups="\n".join(groups),
            data_defs="\n".join(data_defs),
            good_port=site.port,
            hostile_port=server.port,
            host_keys=server.transport.host_keys,
            robots=str(server.robots is not None).lower(),
        )
    )


def crawl(
    folder: Path, site: Site, server: HostileServer, *answers: HostileAnswer, seconds: float = 60.0
) -> list[Measured]:
    """Crawl the answers beside the good pages in one run. It is killed after so many seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    project = Project(folder)
    write_defs(project, site, server, *answers)
    server.prepare(answers)
    settings = dict(CRAWL_SETTINGS)
    for answer in answers:
        settings |= dict(answer.settings or {})
    running = project.start(*(part for name, value in settings.items() for part in ("--set", f"{name}={value}")))
    sampler = MemorySampler(running.pid)
    sampler.start()
    code: int | None = None
    try:
        code = running.wait(seconds).code
    except AssertionError:  # it did not end
        pass
    finally:
        sampler.stop()
        project.kill_all()
    good = set(project.query("SELECT data FROM rows JOIN data_defs d ON d.id = rows.data_def WHERE d.name = 'good'"))
    [(lost,)] = project.query("SELECT count(*) FROM nodes WHERE state IN ('DEAD', 'FAILED') OR replaces IS NOT NULL")
    return [
        _measure(project, server, number, answer, code, len(good), lost, sampler)
        for number, answer in enumerate(answers)
    ]


def _measure(
    project: Project,
    server: HostileServer,
    number: int,
    answer: HostileAnswer,
    code: int | None,
    good: int,
    lost: int,
    sampler: MemorySampler,
) -> Measured:
    in_group = f"sequence IN (SELECT id FROM sequences WHERE grp = 'h{number}')"
    jobs = project.query(f"SELECT id, state, coalesce(reason, '') FROM jobs WHERE {in_group} ORDER BY id LIMIT 1")
    job, state, reason = jobs[0] if jobs else (0, "", "")
    [(ended_at,)] = project.query(f"SELECT max(at) FROM events WHERE job = {job} AND kind = 'page'")
    [(children,)] = project.query(f"SELECT count(*) FROM jobs WHERE {in_group} AND origin = 'link'")
    asked_at = server.asked.get("/robots.txt" if answer.robots else f"/{answer.name}")
    return Measured(
        name=answer.name,
        exit_code=code,
        good_rows=good,
        nodes_lost=lost,
        state=state,
        reason=reason,
        seconds=max(0.0, ended_at - asked_at) if ended_at and asked_at else 0.0,
        limit=answer.limit,
        node_peak=sampler.node_peak,
        node_last=sampler.node_last,
        extraction_peak=sampler.extraction_peak,
        extraction_cpu=sampler.extraction_cpu,
        children=children,
    )
