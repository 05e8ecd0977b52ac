"""Ranges and lists in forms: each combination is a page of its own, through a kill and a resume."""

import os
import signal
import urllib.parse
from collections import Counter

import pytest

from .project import Project, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(90)

DEFS = """\
locatorGroups: {{find: {{live: P1D, locators: [{{url: "{url}", form: {{q: "{{tea,coffee}}", page: "{{1..30}}", key: "%{{env.SHOP_KEY}}"}}}}]}}}}
taskGroups: {{find: {{live: P1D, page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{b: {{selector: b}}}}}}}}
hosts: {{"127.0.0.1": {{robots: false, concurrency: 4}}}}
"""  # noqa: E501


def body_of(request: Request) -> str:
    return request.body.decode()


@pytest.mark.sweep
def test_each_combination_is_fetched_once_in_spite_of_a_kill(
    project: Project, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "hunter2x")

    def search(request: Request) -> Page:
        fields = urllib.parse.parse_qs(body_of(request))
        assert fields["key"] == ["hunter2x"]
        return Page(html(f"<b>{fields['q'][0]} {fields['page'][0]}</b>"), delay=0.05)

    site["/search"] = search
    project.write(DEFS.replace("live: P1D, locators", "locators").format(url=site.url("/search")))
    running = project.start(nodes=2)
    assert until(lambda: len(site.paths) >= 10 or running.exited), running.err
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    project.assert_no_process_left()
    assert site.max_concurrent > 1, "one URL with several bodies is several pages"
    before = project.query("SELECT count(*) FROM jobs WHERE state = 'DONE'")[0][0]
    project.crawl()
    combinations = [f"{word} {page}" for word in ("tea", "coffee") for page in range(1, 31)]
    assert sorted(row["b"] for row in project.rows("page")) == sorted(combinations)
    assert project.query("SELECT count(*), count(DISTINCT identity), count(DISTINCT document) FROM jobs") == [
        (60, 60, 60)
    ]
    sent = Counter(body_of(exchange.request) for exchange in site.exchanges)
    assert len(sent) == 60
    assert sum(sent.values()) <= 60 + 16, "what was in flight by the kill is asked for again, and no more"
    assert before <= 60
    for path in project.data.rglob("*"):
        assert not path.is_file() or b"hunter2x" not in path.read_bytes(), path

    site.clear_log()
    done = project.crawl()
    assert site.paths == [], "with `live`, each combination has its own stored document"
    assert sorted(row["b"] for row in project.rows("page")) == sorted(combinations)
    project.assert_clean(done)
