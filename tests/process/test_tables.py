"""Tables in a crawl: rows, links, outputs, a reload; and Scoopi's own examples, where they lie beside the project."""

import re
import signal
from collections import Counter
from pathlib import Path

import pytest

from crawl_console.tui.state.live_preview import LivePreview
from crawl_engine.settings import Settings
from tests.sample import sampled

from .project import Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[2]
CORPUS = next(iter(sorted(ROOT.parent.glob("*/corpus/scoopi"))), None)
"""Scoopi's examples: definitions, pages and the rows that Scoopi gives. They are not part of the project."""
EXAMPLES = sorted(path.parent.name for path in CORPUS.glob("*/expected.txt")) if CORPUS is not None else []
DATE = re.compile(r"\d{2}-\d{2}-\d{4} \d{2}:\d{2}:\d{2}|%\{\w+\}")

DEFS = """\
baseUrl: "{base}"
locatorGroups:
  start: {{locators: [{{name: acme, url: "/start"}}]}}
taskGroups:
  start:
    price: {{dataDef: price}}
    links:
      dataDef: links
      steps: {{jsoupDefault: {{go: {{class: LocatorCreator, previous: parser, next: seeder}}}}}}
  sheet: {{table: {{dataDef: sheet}}}}
dataDefs:
  price:
    query: {{block: "#price", selector: "*"}}
    items: [item: {{name: Price, value: Price}}]
  links:
    query: {{block: ul}}
    items:
      - item: {{name: link, selector: "li:nth-child(%{{index}}) a attribute: href", indexRange: 1-2, prefix: ["/"],
          linkGroup: sheet}}
  sheet:
    query:
      block: "table:contains(share capital)"
      selector: "tr:nth-child(%{{item.index}}) > td:nth-child(%{{dim.year.index}})"
    items:
      - item: {{name: item, selector: "tr:nth-child(%{{index}}) > td:nth-child(1)", index: 2, breakAfter: [End]}}
    dims: [item: {{name: year, selector: "tr:nth-child(1) > td:nth-child(%{{index}})", indexRange: 2-3}}]
hosts: {{"127.0.0.1": {{robots: false}}}}
"""


def write_site(site: Site, delay: float = 0.0) -> None:
    site["/start"] = html('<b id=price>1.50</b><ul><li><a href="a">a</a><li><a href="b">b</a></ul>')
    for name in "ab":
        rows = "".join(f"<tr><td>{item}<td>{name}{item}1<td></tr>" for item in ("Share  Capital", "Loans", "End"))
        site[f"/{name}"] = Page(html(f"<table><tr><td><td>2016<td>2015</tr>{rows}</table>"), delay=delay)


def test_rows_links_and_exports(project: Project, site: Site) -> None:
    write_site(site)
    project.write(DEFS.format(base=site.url("")))
    project.crawl("--set", "fact_blank=~", nodes=1)
    assert sorted(site.paths) == ["/a", "/b", "/start"]
    assert project.output("price.csv").read_text() == "locator,group,item,fact\nacme,start,Price,1.50\n"
    assert not project.output("links.csv").exists()
    rows = project.rows("sheet")
    assert list(rows[0]) == ["locator", "group", "item", "year", "fact"]
    assert Counter(row["year"] for row in rows) == {"2016": 6, "2015": 6}
    assert {row["fact"] for row in rows if row["year"] == "2015"} == {"~"}
    exported = project.run_with_data("export", "--format", "scoopi")
    assert exported.code == 0, exported.err
    lines = exported.out.splitlines()
    assert len(lines) == 13
    assert {"acme|start|Price|1.50", "acme|sheet|Share Capital|2016|aShare Capital1"} <= set(lines)
    live = LivePreview(project.data, project.defs, "sheet", Settings(fact_blank="~"))
    assert live.evaluate()[0][0].startswith("2 pages: +0 added, ~0 changed, −0 vanished, 12 same")
    project.write(DEFS.format(base=site.url("")).replace("index: 2", "index: 3"))
    assert live.evaluate()[0][0].startswith("2 pages: +0 added, ~8 changed, −4 vanished, 0 same")
    planned = project.run_with_data("plan", "--defs", "defs", "--set", "fact_blank=~")
    assert "publishing them over v1: sheet: changed, 2 pages to re-extract\n" in planned.out


def test_locators_of_different_names_give_their_rows_each_with_one_fetch(project: Project, site: Site) -> None:
    write_site(site)
    names = ", ".join(f'{{name: acme{number}, url: "/start"}}' for number in range(4))
    project.write(DEFS.format(base=site.url("")).replace('{name: acme, url: "/start"}', names))
    project.crawl(nodes=2)
    assert sorted(site.paths) == ["/a", "/b", "/start"]
    assert Counter(row["locator"] for row in project.rows("sheet")) == {f"acme{number}": 12 for number in range(4)}
    assert len(project.rows("price")) == 4


def test_a_table_without_its_end_fails_its_task_and_says_why(project: Project, site: Site) -> None:
    write_site(site)
    project.write(DEFS.format(base=site.url("")).replace("breakAfter: [End]", "breakAfter: [Total]"))
    done = project.crawl(nodes=1, code=1)
    assert done.summary["jobs"]["failed"] == 2
    assert project.rows("sheet") == []
    assert len(project.rows("price")) == 1, "other tasks keep their rows"
    reason = (
        "table/parser: item: no value equals 'Total' of `breakAfter`; the data ends at index 5 (defs/crawl.yml:25:15)"
    )
    assert reason in project.run_with_data("jobs", "--state", "FAILED", "--json").out
    tried = project.run_command("try", "sheet", site.url("/a"), "--defs", "defs", "--data", "data")
    assert tried.code == 1
    assert reason.partition(": ")[2] in tried.err
    site.clear_log()
    project.write(DEFS.format(base=site.url("")))
    retried = project.run_with_data("retry")
    assert retried.code == 0, retried.err
    project.crawl(nodes=1)
    assert len(project.rows("sheet")) == 12
    assert site.paths == [], "the stored pages are read again"


@pytest.mark.sweep
def test_a_saved_table_is_re_extracted(project: Project, site: Site) -> None:
    write_site(site, delay=0.5)
    project.write(DEFS.format(base=site.url("")))
    site["/b"] = Page(site.pages["/b"].body, delay=4)  # type: ignore[union-attr]
    running = project.start(nodes=1)
    assert until(lambda: "/a" in site.paths and project.status()["rows"].get("sheet") == 6, 20)
    project.write(DEFS.format(base=site.url("")).replace("name: year", "name: date").replace("dim.year", "dim.date"))
    done = running.wait()
    assert done.code == 0, done.err
    rows = project.rows("sheet")
    assert len(rows) == 12
    assert {*rows[0]} == {"locator", "group", "item", "date", "fact"}
    assert site.paths.count("/a") == 1


@pytest.mark.sweep
def test_a_resumed_run_keeps_the_base_of_its_tables(project: Project, site: Site) -> None:
    write_site(site)
    site["/b"] = Page(site.pages["/b"].body, delay=30)  # type: ignore[union-attr]
    project.write(DEFS.format(base="http://other.example"))
    running = project.start("--base-url", site.url(""), "--grace", "0", nodes=1)
    assert until(lambda: "/b" in site.paths and project.status()["rows"].get("sheet") == 6, 20)
    running.send(signal.SIGTERM)
    running.wait()
    write_site(site)
    site.clear_log()
    project.crawl(nodes=1)
    assert site.paths == ["/b"]
    assert project.query("SELECT count(*) FROM def_versions") == [(1,)], "the defs are the same"
    assert len(project.rows("sheet")) == 12


@pytest.mark.skipif(CORPUS is None, reason="Scoopi's examples do not lie beside the project, in */corpus/scoopi")
@pytest.mark.parametrize("name", sampled(EXAMPLES, 6, 10))
def test_an_example_of_scoopi_gives_its_rows(project: Project, site: Site, name: str) -> None:
    assert CORPUS is not None
    pages = CORPUS / name / "root"
    pages = pages if pages.is_dir() else CORPUS / "root"
    for path in pages.rglob("*.html"):
        site[f"/{path.relative_to(pages)}"] = path.read_text("utf-8")
    steps = "htmlUnitDefault" if "htmlunit" in name else "jsoupDefault"
    options = [f"default_steps={steps}", "fact_not_found=-", "date_time_pattern=dd-MM-yyyy HH:mm:ss"]
    settings = [part for option in options for part in ("--set", option)]
    defs = str(CORPUS / name / "defs")
    done = project.run_command(
        "run", "--no-ui", "--defs", defs, "--data", str(project.data), "--base-url", site.url(""), *settings, seconds=60
    )
    assert done.code == 0, done.err
    exported = project.run_with_data("export", "--format", "scoopi")
    expected = (CORPUS / name / "expected.txt").read_text("utf-8")
    assert Counter(DATE.sub("", exported.out).split("\n")) - Counter([""]) == Counter(
        DATE.sub("", expected).split("\n")
    ) - Counter([""] * 2)
