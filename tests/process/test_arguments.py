"""`run -a NAME=VALUE`: the run keeps its arguments over a resume."""

import pytest

from .project import Project
from .site import Site, html

pytestmark = pytest.mark.timeout(60)


def test_a_resumed_run_keeps_its_arguments(project: Project, site: Site) -> None:
    for city in ("rome", "oslo"):
        for page in (1, 2):
            site[f"/{city}/{page}"] = html(f"<h1>{city} {page}</h1>")
    project.write(
        f"""
        locatorGroups: {{pages: {{locators: [{{url: "{site.url("/")}%{{arg.city}}/{{1..2}}"}}]}}}}
        taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
        dataDefs: {{page: {{fields: {{title: {{selector: h1}}, city: {{value: "%{{arg.city}}"}}}}}}}}
        """
    )
    unset = project.crawl(code=2, nodes=1)
    assert "`%{arg.city}` has no value: give -a city=VALUE" in unset.err
    first = project.crawl("-a", "city=rome", "--max-pages", "1", nodes=1)
    other = project.crawl("-a", "city=oslo", code=2, nodes=1)
    assert "was started with -a city=rome, and keeps its arguments" in other.err
    assert project.run_with_data("plan", "--defs", str(project.defs)).code == 0, "it takes those of the run"
    done = project.crawl(nodes=1)
    assert done.summary["run"] == first.summary["run"]
    rows = project.query("SELECT data FROM rows ORDER BY id")
    assert rows == [('{"title":"rome 1","city":"rome"}',), ('{"title":"rome 2","city":"rome"}',)]
    fresh = project.crawl("-a", "city=oslo", nodes=1)
    assert fresh.summary["rows"] == {"page": 2}
    earlier = project.run_with_data("plan", "--run", done.summary["run"], "--defs", str(project.defs))
    assert (earlier.code, earlier.out) == (0, "the defs on disk have the meaning of v1: nothing would change\n")
    [(job,)] = project.query("SELECT id FROM jobs WHERE url LIKE '%/rome/1'")
    tried = project.run_with_data("try", "page", "--job", str(job), "--defs", str(project.defs))
    assert '"city":"rome"' in tried.out, tried.err
    golden = project.run_with_data("test", "--record", "--job", str(job), "--defs", str(project.defs))
    assert golden.code == 0, golden.err
    assert '"city":"rome"' in (project.defs / "tests" / "page" / "rows.jsonl").read_text()
    assert [path for path in site.paths if path.startswith("/oslo")] == ["/oslo/1", "/oslo/2"]
