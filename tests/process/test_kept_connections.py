"""Servers that close kept connections, or send more than was asked for, cost no page an attempt."""

import time
from collections import Counter

import pytest

from tests.unit.http.server import Exchange, serving

from .gaps import assert_spaced
from .project import Project
from .test_politeness import defs

pytestmark = pytest.mark.timeout(60)
PAGES = 12
FRONT = "".join(f'<a href="/{number}">x</a>' for number in range(PAGES)).encode()


def swallow(x: Exchange) -> None:
    """Close the connection instead of an answer, unless it is new."""
    x.connection.close() if x.nth > 1 else x.respond(FRONT if x.path == "/" else b"<p>", "Content-Type: text/html")


@pytest.mark.quick
@pytest.mark.parametrize(("delay", "concurrency"), [(0.15, 1), (0, 4)])
def test_a_request_that_a_kept_connection_swallows_is_no_attempt(
    project: Project, delay: float, concurrency: int
) -> None:
    times: list[float] = []

    def serve(x: Exchange) -> None:
        times.append(time.monotonic())
        swallow(x)

    with serving() as site:
        site.pages.update({"/": serve, **{f"/{number}": serve for number in range(PAGES)}})
        host = f"robots: false, delay: {delay}, concurrency: {concurrency}"
        project.write(defs(site.url("/"), host=host))
        done = project.crawl("--nodes", "1")
    assert done.jobs == {"done": PAGES + 1}
    assert project.query("SELECT DISTINCT attempts FROM jobs") == [(1,)]
    assert project.query("SELECT sum(requests), sum(fetches), sum(retries) FROM metrics") == [(PAGES + 1, PAGES + 1, 0)]
    seen = Counter(exchange.path for exchange in site.requests)
    assert max(seen.values()) == 2, "each was swallowed once at most"
    assert delay == 0 or len(site.requests) > PAGES + 2
    if delay:
        assert_spaced(times, delay)
    assert not [text for (text,) in project.query("SELECT text FROM events WHERE level <> 'INFO'") if "attempt" in text]


@pytest.mark.quick
def test_a_page_with_bytes_behind_it_is_there_with_a_warning(project: Project) -> None:
    with serving() as site:
        site.pages["/"] = lambda x: x.respond(b"<p>page</p>and more", "Content-Type: text/html", length=11)
        project.write(defs(site.url("/")))
        done = project.crawl("--nodes", "1")
    assert done.jobs == {"done": 1}
    [(text,)] = project.query("SELECT text FROM events WHERE level = 'WARNING' AND kind = 'page'")
    assert "more bytes than its length says" in text
