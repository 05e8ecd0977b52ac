"""`jobs --why`: what holds each waiting job, for every rule of the lease."""

import json
import threading

import pytest

from tests.sample import sampled

from .project import Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{url: "{url}/{{1..40}}"}}]}}{more}}}
taskGroups: {{pages: {{{limit}page: {{dataDef: page}}}}{more_tasks}}}
dataDefs: {{page: {{fields: {{title: {{selector: h1}}}}}}}}
hosts: {{"127.0.0.1": {{private: true, {host}}}}}
"""


class Crawl:
    """A crawl whose pages are held back."""

    def __init__(self, project: Project, site: Site) -> None:
        self.project = project
        self.site = site
        self.hold = threading.Event()
        site.fallback = lambda request: Page(html("<h1>x</h1>"), hold=self.hold)

    def start(self, *arguments: str, host: str = "robots: false", limit: str = "", more: str = "") -> None:
        more_tasks = ", others: {page: {dataDef: page}}" if more else ""
        text = DEFS.format(url=self.site.url(""), host=host, limit=limit, more=more, more_tasks=more_tasks)
        self.project.write(text)
        self.running = self.project.start(*arguments)

    def reasons(self) -> set[str]:
        done = self.project.run_with_data("jobs", "--why", "--json", "--state", "ready")
        return {json.loads(line).get("why") for line in done.out.splitlines()} - {None}

    def wait_for(self, words: str) -> bool:
        return until(lambda: any(words in reason for reason in self.reasons()))

    def end(self) -> None:
        self.hold.set()
        self.running.process.terminate()
        self.running.wait()


@pytest.mark.parametrize(
    ("host", "words"),
    sampled(
        [
            ("robots: false, concurrency: 1", "is at its concurrency of 1"),
            ("robots: false, delay: 20", "delay 20 s of 127.0.0.1"),
            ("robots: true", "the robots.txt of 127.0.0.1"),
        ],
        0,
        2,
    ),
)
def test_limits_of_the_host(project: Project, site: Site, host: str, words: str) -> None:
    crawl = Crawl(project, site)
    if "robots: true" in host:
        site["/robots.txt"] = Page("", hold=crawl.hold)
    if "delay" in host:
        crawl.hold.set()
    crawl.start(host=host)
    assert crawl.wait_for(words), crawl.reasons()
    assert words in project.run_with_data("jobs", "--why").out
    crawl.end()
    assert crawl.reasons() <= {"no supervisor runs: `crawl-console run` resumes it"}


@pytest.mark.sweep
def test_crawl_delay_and_backoff(project: Project, site: Site) -> None:
    crawl = Crawl(project, site)
    crawl.hold.set()
    site["/robots.txt"] = "User-agent: *\nCrawl-delay: 9\n"
    crawl.start(host="robots: true")
    assert crawl.wait_for("Crawl-delay 9 s of 127.0.0.1")
    crawl.end()


def test_a_backoff_and_its_cause(project: Project, site: Site) -> None:
    crawl = Crawl(project, site)
    site.fallback = lambda request: Page("later", 429, {"Retry-After": "20"})
    crawl.start()
    assert crawl.wait_for("after 429 or 503"), crawl.reasons()
    waits = project.run_with_data("events", "--match", "attempt 2").out
    assert "blocked: HTTP 429; attempt 2 after its host's rest: 20 s at least  http" in waits
    crawl.end()


def test_pauses(project: Project, site: Site) -> None:
    crawl = Crawl(project, site)
    crawl.start(host="robots: false, concurrency: 1")
    assert crawl.wait_for("concurrency")
    project.run_with_data("pause")
    assert crawl.wait_for("the run is paused by an operator")
    project.run_with_data("resume")
    project.run_with_data("pause", "pages")
    assert crawl.wait_for("its sequence is paused by an operator")
    crawl.end()


@pytest.mark.sweep
def test_a_full_disk(project: Project, site: Site) -> None:
    crawl = Crawl(project, site)
    crawl.start(host="robots: false, concurrency: 1")
    assert crawl.wait_for("concurrency")
    crawl.end()
    crawl.hold.clear()
    crawl.start("--set", f"min_free={2**62}")
    assert crawl.wait_for("the run is paused until the disk has room")
    crawl.end()


@pytest.mark.sweep
def test_page_limits(project: Project, site: Site) -> None:
    crawl = Crawl(project, site)
    crawl.start("--max-pages", "2")
    assert crawl.wait_for("--max-pages 2 is reached")
    crawl.end()


@pytest.mark.sweep
def test_the_limit_of_a_group(project: Project, site: Site) -> None:
    crawl = Crawl(project, site)
    crawl.start(limit="maxPages: 2, ")
    assert crawl.wait_for("maxPages 2 of pages is reached")
    crawl.end()


@pytest.mark.sweep
def test_quotas_and_free_slots(project: Project, site: Site) -> None:
    crawl = Crawl(project, site)
    more = f', others: {{locators: [{{url: "{site.url("")}/other{{1..40}}"}}]}}'
    crawl.start("--set", "concurrency=4", host="robots: false, concurrency: 64", more=more)
    assert until(lambda: len(site.paths) >= 6)
    assert crawl.wait_for("slot"), crawl.reasons()
    crawl.end()
