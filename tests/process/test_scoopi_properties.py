"""A crawl beside a scoopi.properties uses it; and its warnings and errors in the commands that read defs."""

import os
from pathlib import Path

import pytest

from .gaps import assert_spaced
from .project import Project, until
from .site import Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
baseUrl: "{base}"
locatorGroups:
  sheet: {{locators: [{{name: a, url: "/a"}}, {{name: b, url: "/b"}}, {{name: c, url: "/c"}}]}}
taskGroups:
  sheet: {{table: {{dataDef: sheet}}}}
dataDefs:
  sheet:
    query: {{block: "//table", selector: "//td[%{{dim.year.index}}]"}}
    items: [item: {{name: Price, value: Price}}]
    dims:
      - item: {{name: year, value: "%{{index}}", indexRange: 1-2}}
      - item: {{name: date, script: document.getFromDate()}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""
PROPERTIES = """\
# Scoopi
scoopi.defs.dir=/defs
scoopi.defs.defaultSteps=htmlUnitDefault
scoopi.fact.notFound.replaceWith=none given
scoopi.loader.fetch.delay=400
scoopi.useDatastore=false
scoopi.dateTimePattern=dd-MM-yyyy
scoopi.runDateTimeText=2017-01-31T09:05:00Z
scoopi.poolsize.loader=4
"""


def write_properties(project: Project, text: str) -> None:
    (project.defs / "scoopi.properties").write_text(text, "utf-8")


def test_a_crawl_uses_the_properties_beside_its_defs(project: Project, site: Site) -> None:
    for name in "abc":
        site[f"/{name}"] = html(f"<table><tr><td>{name}1</td></tr></table>")
    project.write(DEFS.format(base=site.url("")))
    write_properties(project, PROPERTIES)
    done = project.crawl(nodes=1)
    assert done.err.count("scoopi.properties:9:1: warning no-meaning `scoopi.poolsize.loader` has no meaning") == 1
    assert {(row["locator"], row["date"], row["fact"]) for row in project.rows("sheet")} == {
        (name, "31-01-2017", fact) for name in "abc" for fact in (f"{name}1", "none given")
    }
    assert_spaced(site.start_times("/a", "/b", "/c"), 0.4)
    assert project.query("SELECT count(*) FROM documents WHERE pruned") == [(3,)], "documents = false"
    (project.folder / "crawl.toml").write_text("delay = 0\nfact_not_found = '?'\n")
    project.crawl("--set", "date_time_pattern=yyyy", nodes=1)
    assert {(row["date"], row["fact"]) for row in project.rows("sheet")} >= {("2017", "?")}


def test_warnings_and_errors_of_the_properties(project: Project, site: Site) -> None:
    project.write(DEFS.format(base=site.url("")))
    write_properties(project, PROPERTIES)
    defs = ("--defs", "defs")
    done = project.run_command("check", *defs)
    assert (done.code, done.err.splitlines()) == (
        0,
        [
            "defs/scoopi.properties:9:1: warning no-meaning `scoopi.poolsize.loader` has no meaning here:"
            " a page goes through all its steps in one node; set `nodes` and `concurrency`"
        ],
    )
    [problem] = project.run_command("check", *defs, "--json").summary["problems"]
    assert (problem["file"], problem["line"], problem["code"], problem["warning"]) == (
        "defs/scoopi.properties", 9, "no-meaning", True,
    )  # fmt: skip
    assert "[jsoupDefault" not in (steps := project.run_command("steps", *defs)).out
    assert "no-meaning" not in steps.err, "check and run say it"
    write_properties(project, "scoopi.webClient.timeout=abc\n")
    for command in (("check", *defs), ("run", "--no-ui", *defs), ("steps", *defs), ("try", "sheet", "x", *defs)):
        done = project.run_command(*command)
        assert done.code == 2, command
        assert done.err.startswith(
            "error: defs/scoopi.properties:1:26: scoopi.webClient.timeout cannot be 'abc'\n  Use a number of millis"
        )
    assert not project.data.exists()


def test_groups_that_reuse_pages_are_named_without_documents(project: Project, site: Site) -> None:
    text = DEFS.format(base=site.url("")).replace("sheet: {table:", "sheet: {live: P1D, table:")
    project.write(text)
    write_properties(project, "scoopi.useDatastore=false\nscoopi.defs.defaultSteps=htmlUnitDefault\n")
    warning = "defs/crawl.yml:5:11: warning no-effect `live` reuses stored pages, and the setting `documents = false`"
    checked = project.run_command("check", "--defs", "defs")
    assert checked.code == 0
    assert warning in checked.err
    project.write(text.replace("live: P1D", "live: P1D, documents: true"))
    assert warning not in project.run_command("check", "--defs", "defs").err


@pytest.mark.sweep
@pytest.mark.parametrize("repaired", [True, False])
def test_a_list_that_cannot_be_read_is_read_again(project: Project, site: Site, repaired: bool) -> None:
    site["/a"] = html("<b>1</b>")
    listed = project.defs / "urls.txt"
    listed.mkdir()  # even root cannot read it as a file
    project.write(
        "locatorGroups: {g: {locators: [{from: urls.txt}]}}\ntaskGroups: {g: {t: {dataDef: d}}}\n"
        "dataDefs: {d: {fields: {x: {selector: b}}}}\nhosts: {'127.0.0.1': {robots: false}}\n"
    )
    write_properties(project, "scoopi.seeder.seedRetryTimes=2\n")
    running = project.start(nodes=1)
    assert until(lambda: "retry 1 of 2 in 1 s" in project.run_with_data("events").out, 20)
    if repaired:
        _replace(listed, site.url("/a"))
    done = running.wait()
    assert done.code == (0 if repaired else 3), done.err
    assert site.paths == (["/a"] if repaired else [])
    if not repaired:
        events = project.run_with_data("events").out
        assert "retry 2 of 2 in 2 s" in events
        assert "urls.txt: Is a directory" in done.err


def _replace(listed: Path, text: str) -> None:
    new = listed.with_name("new.txt")
    new.write_text(text)
    listed.rmdir()
    os.replace(new, listed)
