"""`test` with pages of a site: recorded politely, from a URL and a stored job; and run again after each save."""

import json
import signal

import pytest

from .project import Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

DEFS = """\
locatorGroups: {{list: {{locators: [{{url: "{start}"}}]}}}}
taskGroups: {{list: {{page: {{dataDef: links}}}}, detail: {{page: {{dataDef: item}}}}}}
dataDefs:
  links: {{links: [{{selector: a, linkGroup: detail, carry: shop}}], fields: {{shop: {{selector: h1}}}}}}
  item:
    fields:
      name: {{selector: b}}
      from: {{value: "%{{carried.shop}} %{{run.id}} %{{depth}}"}}
"""


def test_pages_are_recorded_as_a_crawl_reached_them_and_tested_without_the_site(project: Project, site: Site) -> None:
    site["/"] = html("<h1>Tea</h1><a href='/p/1'>1</a>")
    site["/p/1"] = html("<b>Oolong</b>")
    site["/private"] = html("<b>no</b>")
    site["/robots.txt"] = Page("User-agent: *\nDisallow: /private\n", headers={"Content-Type": "text/plain"})
    project.write(DEFS.format(start=site.url("/")).replace("%{run.id}", "%{arg.mark} %{run.id}"))
    run = project.crawl("-a", "mark=m1").summary["run"]
    ((job,),) = project.query(f"SELECT id FROM jobs WHERE url = '{site.url('/p/1')}'")

    def test(*arguments: str, code: int) -> tuple[str, str]:
        where = ("--defs", str(project.defs), "--data", str(project.data))
        done = project.start_command("test", *arguments, *where).wait(30)
        assert done.code == code, done.err
        return done.out, done.err

    site.clear_log()
    test("--job", str(job), "--name", "stored", code=0)
    assert site.paths == []
    test("-a", "mark=m1", "--record", site.url("/p/1"), "--data-def", "item", "--name", "fetched", code=0)
    assert site.paths == ["/p/1"]
    refused = test("-a", "mark=m1", "--record", site.url("/private"), "--data-def", "item", "--name", "never", code=1)[
        1
    ]
    assert "robots.txt disallows it" in refused
    assert "/private" not in site.paths

    site.clear_log()
    assert test("-a", "mark=m1", code=0)[0] == "2 passed\n"
    assert 'expected "Tea m1 ' in test("-a", "mark=m2", code=1)[0]
    assert site.paths == []
    row = json.loads((project.defs / "tests" / "stored" / "rows.jsonl").read_text())
    assert row == {"name": "Oolong", "from": f"Tea m1 {run} 1"}
    assert json.loads((project.defs / "tests" / "fetched" / "rows.jsonl").read_text())["from"].endswith("try 0")


def test_watch_runs_again_after_each_save_until_an_interrupt(project: Project) -> None:
    text = DEFS.format(start="http://shop.example/")
    project.write(text)
    (project.folder / "page.html").write_text("<b>Oolong</b>")
    source = ("--record", "page.html", "--url", "http://shop.example/", "--data-def", "links", "--name", "tea")
    assert project.start_command("test", *source, "--defs", str(project.defs)).wait(30).code == 0
    watching = project.start_command("test", "--watch", "--defs", str(project.defs))

    def wait_for(shown: str, stream: str = "out") -> None:
        assert until(lambda: shown in getattr(watching, stream), 30), (watching.out, watching.err)

    wait_for("1 passed\n")
    project.write(text.replace("selector: h1", "selector: b"))
    wait_for("0 passed, 1 failed\n")
    project.write("dataDefs: [")
    wait_for("bad-yaml", "err")
    project.write(text)
    wait_for("0 passed, 1 failed\n1 passed\n")
    watching.send(signal.SIGINT)
    done = watching.wait(10)
    assert done.code == 130
    assert "Traceback" not in done.err
