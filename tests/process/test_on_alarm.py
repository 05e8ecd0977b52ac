"""The `on_alarm` command: what it is told, once for each cause, and that it cannot harm the run."""

import json

import pytest

from .library import Library
from .project import Project
from .site import Page, Site

pytestmark = pytest.mark.timeout(90)


def on_alarm(*command: str) -> tuple[str, str]:
    return "--set", f"on_alarm={json.dumps(command)}"


def broken_library(site: Site) -> Library:
    """A library, most books of which fail, slowly enough for the alarms to be read."""
    library = Library(site, shelves=4, books=6, delay=0.4)
    for shelf in range(4):
        for book in range(4):
            site[f"/book/{shelf}-{book}"] = Page("out of order", status=500, delay=0.2)
    return library


def test_it_is_told_of_each_cause_once(project: Project, site: Site) -> None:
    project.write(broken_library(site).defs(concurrency=2))
    project.crawl(*on_alarm("sh", "-c", "cat >> alarms.jsonl"), "--set", "max_attempts=2", code=1, nodes=1)
    lines = [json.loads(line) for line in (project.folder / "alarms.jsonl").read_text().splitlines()]
    alarms = [alarm for line in lines for alarm in line["alarms"]]
    (failing,) = [alarm for alarm in alarms if alarm["code"] == "failing-requests"]
    assert failing["level"] == "warn"
    assert failing["key"] == f"reach 127.0.0.1:{site.port}", "the key is the trouble, whatever it is called now"
    assert failing["host"] == f"127.0.0.1:{site.port}"
    assert failing["since"] > 0
    assert f"127.0.0.1:{site.port} fails" in failing["text"]
    assert lines[0]["run"] == project.status()["run"]
    assert "sh -c" in (project.data / "logs" / "on_alarm.log").read_text()


@pytest.mark.sweep
def test_its_failure_is_reported_and_a_slow_one_ends_with_the_run(project: Project, site: Site) -> None:
    project.write(broken_library(site).defs(concurrency=2))
    done = project.crawl(*on_alarm("sh", "-c", "exit 3"), "--set", "max_attempts=1", code=1, nodes=1)
    assert "on_alarm: sh -c 'exit 3': exit code 3" in done.err
    done = project.crawl("--fresh", *on_alarm("sleep", "60"), "--set", "max_attempts=1", code=1, nodes=1, seconds=60)
    assert done.summary["state"] == "DONE"
    assert "on_alarm" not in done.err
