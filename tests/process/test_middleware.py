"""Middleware of a host in real crawls: signed, answered, repeated and failing requests."""

from itertools import pairwise
from pathlib import Path

import pytest

from .project import Project, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(90)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{url: "{start}"}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields: {{title: {{selector: b}}}}
    links: [{{selector: a}}]
hosts:
  "127.0.0.1:{port}": {{middleware: [sign.Sign]}}
"""
SIGN = """\
import httpx


class Sign:
    async def handle(self, request, send):
        request.headers["X-Sign"] = "yes"
        return await send(request)
"""


def numbered(request: Request) -> Page:
    if request.path == "/robots.txt":
        return Page("nothing", 404)
    number = int(request.path.strip("/") or 0)
    link = f"<a href=/{number + 1}>x</a>" if number < 3 else ""
    return Page(html(f"<b>{number} {request.headers.get('x-sign', '')}</b>{link}"))


def write(project: Project, site: Site, code: str = SIGN, defs: str = DEFS) -> None:
    site.fallback = numbered
    project.write(defs.format(start=site.url("/0"), port=site.port))
    write_plugin(project, code)


def write_plugin(project: Project, code: str) -> None:
    folder: Path = project.folder / "defs" / "plugins"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sign.py").write_text(code)


def code_of(body: str) -> str:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    head = "import asyncio\nimport time\n\nimport httpx\n\n\n"
    return f"{head}class Sign:\n    async def handle(self, request, send):\n{lines}\n"


@pytest.mark.quick
def test_each_page_is_signed_but_robots_txt_is_not(project: Project, site: Site) -> None:
    write(project, site)
    project.assert_clean(project.crawl())
    assert sorted(row["title"] for row in project.rows("page")) == ["0 yes", "1 yes", "2 yes", "3 yes"]
    signed = {exchange.path: "x-sign" in exchange.request.headers for exchange in site.exchanges}
    assert signed == {"/robots.txt": False, "/0": True, "/1": True, "/2": True, "/3": True}


def test_a_middleware_answers_itself(project: Project, site: Site) -> None:
    write(project, site, code_of('return httpx.Response(200, html="<b>own</b>")'))
    project.assert_clean(project.crawl())
    assert [row["title"] for row in project.rows("page")] == ["own"]
    assert site.paths == []


@pytest.mark.quick
def test_a_request_that_is_sent_twice_takes_its_own_turn(project: Project, site: Site) -> None:
    code = code_of("first = await send(request)\nassert first.status_code == 200, first\nreturn await send(request)")
    write(project, site, code, DEFS.replace("middleware:", "delay: 0.4, middleware:"))
    project.assert_clean(project.crawl())
    pages = [exchange for exchange in site.exchanges if exchange.path != "/robots.txt"]
    assert [exchange.path for exchange in pages] == [f"/{n}" for n in range(4) for _ in range(2)]
    times = [exchange.started for exchange in pages]
    assert min(later - earlier for earlier, later in pairwise(times)) > 0.35


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (code_of("raise ValueError('no key')"), "middleware sign.Sign: ValueError: no key (plugins/sign.py:9)"),
        (code_of("await send(request)"), "middleware sign.Sign: `handle` must return an httpx.Response, not NoneType"),
        (
            code_of("request.url = httpx.URL('http://other.example/')\nreturn await send(request)"),
            "middleware sign.Sign: a request must stay on http://127.0.0.1:{port}",
        ),
        (
            "class Sign:\n    def handle(self, request, send):\n        return None\n",
            "middleware sign.Sign: `handle` must be `async def`",
        ),
        (
            "class Sign:\n    def __init__(self):\n        raise KeyError('env')\n"
            "    async def handle(self, request, send):\n        return None\n",
            "middleware sign.Sign: sign.Sign cannot be created: KeyError: 'env' (plugins/sign.py:3)",
        ),
    ],
    ids=["raises", "returns nothing", "other host", "not async", "not created"],
)
def test_a_failure_says_what_and_where(project: Project, site: Site, code: str, reason: str) -> None:
    write(project, site, code)
    project.crawl(code=1)
    job = project.job(site.url("/0"))
    assert (job["state"], job["reason"]) == ("FAILED", reason.format(port=site.port))


def test_a_middleware_that_never_returns_ends_at_the_deadline(project: Project, site: Site) -> None:
    write(project, site, code_of("await asyncio.sleep(60)"))
    project.crawl("--set", "deadline=0.5", "--set", "max_attempts=1", code=1)
    job = project.job(site.url("/0"))
    assert (job["state"], job["reason"]) == ("FAILED", "timeout after 0.5 s in middleware sign.Sign (1 attempt)")


def test_a_saved_change_is_in_force_at_the_next_page(project: Project, site: Site) -> None:
    write(project, site, defs=DEFS.replace("middleware:", "delay: 1, middleware:"))
    running = project.start()
    assert until(lambda: "/0" in site.paths)
    write_plugin(project, SIGN.replace('"yes"', '"new"'))
    project.assert_clean(running.wait())
    titles = [row["title"] for row in project.rows("page")]
    assert titles[0] == "0 yes"
    assert titles[-1] == "3 new"


@pytest.mark.sweep
@pytest.mark.timeout(180)
def test_a_middleware_that_hangs_its_node_costs_its_page_alone(project: Project, site: Site) -> None:
    """Without an `await` no deadline can end it: the node is replaced, and the page runs alone."""
    links = "".join(f"<a href=/{number}>x</a>" for number in range(1, 20))
    site["/0"] = html(f"<b>0</b>{links}")
    project.write(DEFS.format(start=site.url("/0"), port=site.port))
    site.fallback = lambda request: Page(html("<b>x</b>"), 404 if request.path == "/robots.txt" else 200)
    hang = "if request.url.path == '/7':\n    while True:\n        pass\nreturn await send(request)"
    write_plugin(project, code_of(hang))
    done = project.crawl("--set", "deadline=5", code=1, seconds=150)
    assert done.jobs == {"done": 19, "failed": 1}
    job = project.job(site.url("/7"))
    assert job["state"] == "FAILED"
    assert job["reason"].startswith("3 nodes died while it ran, the last one: n")
    assert len(project.rows("page")) == 19
    assert site.count("/7") == 0
    assert max(site.count(f"/{number}") for number in range(20)) <= 2, "others may have run beside it the first time"
    dead = [reason for (reason,) in project.query("SELECT reason FROM nodes WHERE state = 'DEAD'")]
    assert len(dead) == 3, dead
