"""One URL in several groups: each has the document that its own loader makes, and keeps it after an edit."""

import contextlib
import os
import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from .project import Project
from .shop_front import NEEDS_BROWSER, SANDBOX, Front, assert_nothing_left, browsers
from .site import Site, html

PAGES = 8
KETTLE = html(
    "<button id=specs>specs</button><button id=reviews>reviews</button><p id=width></p><script>"
    "width.textContent = innerWidth;"
    "specs.onclick = () => document.body.insertAdjacentHTML('beforeend', '<b class=spec>1.7 l</b>');"
    "reviews.onclick = () => document.body.insertAdjacentHTML('beforeend', '<b class=review>good</b>');</script>"
)
CLICK = "{{browser: {{actions: [{{click: '#{name}s'}}, {{wait: .{name}}}]{more}}}}}"


def write(front: Front, *, more: str = "", pages: int = PAGES) -> None:
    """Groups that click something else on the same pages. `more`: of the rule of both."""
    names = ("spec", "review")
    urls = [front.site.url(f"/k/{number}") for number in range(1, pages + 1)]
    for number in range(1, pages + 1):
        front.site[f"/k/{number}"] = KETTLE
    front.project.write(
        "locatorGroups:\n" + "".join(f"  {name}: {{locators: [{{urls: {urls}}}]}}\n" for name in names)
        + "taskGroups:\n" + "".join(
            f"  {name}: {{loader: {CLICK.format(name=name, more=more)}, page: {{dataDef: {name}}}}}\n" for name in names
        )
        + "dataDefs:\n" + "".join(
            f"  {name}: {{query: {{block: .{name}}},"
            f" fields: {{text: {{}}, at: {{value: '%{{document.url}}'}}}}}}\n"
            for name in names
        )
    )  # fmt: skip


def rows_of(front: Front) -> dict[str, list[tuple[str, str]]]:
    return {name: sorted((row["text"], row["at"]) for row in front.project.rows(name)) for name in ("spec", "review")}


def expected(front: Front, pages: int = PAGES) -> dict[str, list[tuple[str, str]]]:
    urls = [front.site.url(f"/k/{number}") for number in range(1, pages + 1)]
    return {"spec": [("1.7 l", url) for url in urls], "review": [("good", url) for url in urls]}


class TestBrowsers:
    pytestmark = NEEDS_BROWSER

    def test_groups_that_act_otherwise_have_documents_of_their_own_under_kills(self, front: Front) -> None:
        write(front)
        running = front.project.start(*SANDBOX, "--set", "max_attempts=20", "--set", "delay=0.3", nodes=1)
        chance, killed = random.Random(5), 0
        while not running.exited and killed < 5:
            time.sleep(chance.uniform(0.3, 1.0))
            if victims := browsers(front.project):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(victims), signal.SIGKILL)
                    killed += 1
        assert running.wait(200).code == 0
        assert killed == 5
        assert rows_of(front) == expected(front)
        assert_nothing_left(front.project)

    def test_each_keeps_its_document_after_an_edit_and_in_later_runs_and_a_retry_loads_it_again(
        self, front: Front
    ) -> None:
        write(front, pages=2)
        front.project.crawl(*SANDBOX, seconds=200)
        asked = front.site.count("/k/1")
        assert asked == 2
        write(front, pages=2, more=", block: [fonts]")
        front.project.crawl(*SANDBOX, "--set", "live=P1D", seconds=200)
        assert front.site.count("/k/1") == asked
        assert rows_of(front) == expected(front, 2)
        assert front.project.run_command("retry", "--state", "done", "--match", "group:spec").code == 0
        front.project.crawl(*SANDBOX, "--set", "live=P1D", seconds=200)
        assert front.site.count("/k/1") == asked, "a document of an earlier run that is fresh serves a retry, as before"
        front.project.crawl(*SANDBOX, seconds=200)
        assert front.site.count("/k/1") == asked + 2
        assert front.project.run_command("retry", "--state", "done", "--match", "group:spec").code == 0
        front.project.crawl(*SANDBOX, seconds=200)
        assert front.site.count("/k/1") == asked + 3, "a retry renders again what its own run has rendered"
        assert rows_of(front) == expected(front, 2)

    def test_documents_of_before_serve(self, front: Front) -> None:
        write(front, pages=1)
        front.project.crawl(*SANDBOX, seconds=200)
        with contextlib.closing(sqlite3.connect(front.project.data / "crawl.db")) as db:
            db.execute("UPDATE documents SET loader = NULL")
            db.commit()
        asked = front.site.count("/k/1")
        front.project.crawl(*SANDBOX, "--set", "live=P1D", seconds=200)
        assert front.site.count("/k/1") == asked

    def test_a_phone_and_a_desktop_see_their_own_page(self, front: Front) -> None:
        front.site["/k/1"] = KETTLE
        url = front.site.url("/k/1")
        front.project.write(f"""
locatorGroups: {{phone: {{locators: [{{url: "{url}"}}]}}, desktop: {{locators: [{{url: "{url}"}}]}}}}
taskGroups:
  phone: {{loader: {{browser: {{viewport: {{width: 400, height: 800}}}}}}, page: {{dataDef: phone}}}}
  desktop: {{loader: browser, page: {{dataDef: desktop}}}}
dataDefs: {{phone: {{fields: {{w: {{selector: '#width'}}}}}}, desktop: {{fields: {{w: {{selector: '#width'}}}}}}}}
""")
        front.project.crawl(*SANDBOX, seconds=200)
        assert [front.project.rows(name) for name in ("phone", "desktop")] == [[{"w": "400"}], [{"w": "1280"}]]

    def test_required_fields_are_those_of_the_group(self, front: Front) -> None:
        front.site["/k/1"] = html("<b>plain</b><script>document.write('<i>made</i>')</script>")
        url = front.site.url("/k/1")
        loader = "{browser: {when: {missing: required}}}"
        front.project.write(f"""
locatorGroups: {{a: {{locators: [{{url: "{url}"}}]}}, b: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{a: {{loader: {loader}, page: {{dataDef: a}}}}, b: {{loader: {loader}, page: {{dataDef: b}}}}}}
dataDefs:
  a: {{fields: {{x: {{selector: b, required: true}}}}}}
  b: {{fields: {{x: {{selector: i, required: true}}}}}}
""")
        front.project.crawl(*SANDBOX, seconds=200)
        assert [front.project.rows(name) for name in ("a", "b")] == [[{"x": "plain"}], [{"x": "made"}]]


PLUGIN = """\
from crawl_console import PageResponse


class Say:
    def __init__(self, text):
        self.text = text

    def load(self, request, context):
        return PageResponse(body=f"<b>{self.text}</b>".encode(), headers={"content-type": "text/html"})
"""


@pytest.mark.extended
@pytest.mark.timeout(120)
def test_a_plugin_a_plugin_with_other_options_and_a_plain_request(project: Project, site: Site) -> None:
    site["/k"] = html("<b>site</b>")
    (Path(project.defs) / "plugins").mkdir(parents=True, exist_ok=True)
    (Path(project.defs) / "plugins" / "say.py").write_text(PLUGIN)
    names = ("one", "two", "plain")
    steps = {
        name: f", steps: {{jsoupDefault: {{loader: {{class: say.Say, options: {{text: {name}}}}}}}}}"
        for name in ("one", "two")
    }
    project.write(
        "locatorGroups:\n" + "".join(f"  {n}: {{locators: [{{url: '{site.url('/k')}'}}]}}\n" for n in names)
        + "taskGroups:\n"
        + "".join(f"  {n}: {{page: {{dataDef: {n}{steps.get(n, '')}}}}}\n" for n in names)
        + "dataDefs:\n" + "".join(f"  {n}: {{fields: {{x: {{selector: b}}}}}}\n" for n in names)
    )  # fmt: skip
    for _ in range(2):
        project.crawl("--set", "live=P1D")
        assert [project.rows(n) for n in names] == [[{"x": "one"}], [{"x": "two"}], [{"x": "site"}]]
        assert site.count("/k") == 1
