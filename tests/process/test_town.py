"""The demo town: three hosts, one slow, one with failures, and one selector to mend in a copy of the defs."""

import json
from pathlib import Path

import pytest

from .project import Project

pytestmark = pytest.mark.timeout(90)


def crawl_town(project: Project, *arguments: str) -> dict[str, object]:
    running = project.start_command(
        "demo", "--no-ui", "--town", "--pages", "60", "--json", "--data", str(project.data),
        "--set", "browser=/nowhere", *arguments,
    )  # fmt: skip
    done = running.wait(60)
    assert done.code == 1, done.err
    assert "the shop front, which needs a browser, is skipped: " in done.err
    summary: dict[str, object] = json.loads(done.out.splitlines()[-1])
    return summary


def test_the_town_teaches_what_it_promises(project: Project) -> None:
    summary = crawl_town(project)
    defs = project.folder / "demo-defs"
    assert {path.name for path in defs.iterdir()} == {
        "shop.yml", "hosts.yml", "articles.yml", "appenders.yml", "town.yml", "town-urls.txt", "tests",
    }  # fmt: skip
    jobs, rows = summary["jobs"], summary["rows"]
    assert isinstance(jobs, dict)
    assert isinstance(rows, dict)
    assert jobs["failed"] == 2, "stock 5 and 10"
    assert rows["story"] == 12
    shop, archive, warehouse = project.status()["hosts"]
    assert archive["p50"] > shop["p50"] + 0.5
    assert warehouse["answers"]["5xx"] >= 2
    assert warehouse["answers"]["4xx"] == 1
    kept = project.query(
        "SELECT DISTINCT d.status FROM jobs j JOIN documents d ON d.id = j.document WHERE j.state = 'FAILED'"
    )
    assert kept == [(500,)]


@pytest.mark.sweep
def test_an_edit_of_the_copy_is_kept_and_mends_the_field(project: Project) -> None:
    crawl_town(project)
    town: Path = project.folder / "demo-defs" / "town.yml"
    town.write_text(town.read_text().replace(".yeer", ".year"))
    summary = crawl_town(project)
    fields = summary["fields"]
    assert isinstance(fields, dict)
    assert fields["story"]["year"] == {"filled": 12, "of": 12}
