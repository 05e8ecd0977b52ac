"""A crawl with a step of the user: what it reported, in the summary, at the end of the run, and in `results`."""

import json

from .project import Project
from .site import Page, Site, html

DEFS = """\
locatorGroups: {{pages: {{locators: [{{url: "{url}/{{1..9}}"}}]}}}}
taskGroups:
  pages:
    page: {{dataDef: page, steps: {{jsoupDefault: {{mark: {{class: shop.Mark, previous: filter, next: appender}}}}}}}}
dataDefs: {{page: {{fields: {{price: {{selector: h1, type: int}}}}}}}}
hosts: {{"127.0.0.1": {{private: true, robots: false}}}}
"""
PLUGIN = '''\
from crawl_console import NotApplicable, StepError


class Mark:
    """Has an opinion on prices."""

    def run(self, rows, context):
        price = rows[0]["price"]
        if price == 3:
            raise StepError("three is bad", "three")
        if price == 4:
            context.warning("four is odd")
        if price == 5:
            raise NotApplicable("five")
        return rows
'''


def test_results_are_counted_and_listed(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page(html(f"<h1>{request.path.lstrip('/')}</h1>"))
    project.write(DEFS.format(url=site.url("")))
    (project.folder / "defs" / "plugins").mkdir()
    (project.folder / "defs" / "plugins" / "shop.py").write_text(PLUGIN)
    done = project.crawl(code=1)
    counts = {"pages/page": {"mark": {"ok": 6, "warning": 1, "error": 1, "not_applicable": 1}}}
    assert done.summary["results"] == counts
    assert "not applicable" in done.err
    assert "pages/page  mark" in done.err
    assert project.status()["results"] == counts
    lines = project.run_with_data("results", "--json").out.splitlines()
    assert sorted(json.loads(line)["outcome"] for line in lines) == ["error"] + ["ok"] * 6 + ["warning"]
    (line,) = project.run_with_data("results", "--json", "--outcome", "error").out.splitlines()
    assert json.loads(line)["text"] == "three is bad"
    (line,) = project.run_with_data("jobs", "--match", "outcome:error", "--json").out.splitlines()
    assert json.loads(line)["url"].endswith("/3")
