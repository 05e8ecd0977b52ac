"""A GraphQL API whose `$page` is an Int: ranges, seeds, links and `next` send numbers."""

import json

import pytest

from .project import Project
from .site import Page, Request, Site

pytestmark = pytest.mark.timeout(120)

QUERY = "query ($page: Int) { list(page: $page) { id } }"
DEFS = """\
baseUrl: {base}
locatorGroups: {{g: {{locators: [{locator}]}}}}
taskGroups: {{g: {{list: {{dataDef: media}}}}}}
dataDefs:
  media:
    query: {{block: "jmespath: list"}}
    fields: {{id: {{selector: "jmespath: id", type: int}}}}
    {leads_on}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""
JSON = f'method: POST, json: {{query: "{QUERY}", variables: {{page: "%s"}}}}, numbers: [page]'
PAGES = 3


def serve(request: Request) -> Page:
    """Two ids a page; a number that is a text is an error, as of GraphQL. Headers and texts name the next one."""
    page = json.loads(request.body)["variables"]["page"] if request.method == "POST" else 1
    if type(page) is not int:
        return Page(status=422)
    items = [{"id": 2 * page - 1}, {"id": 2 * page}] if page <= PAGES else []
    text = json.dumps({"list": items, "page": page, "next": str(page + 1)})
    more = {"X-Next-Page": str(page + 1)} if page < PAGES else {}
    return Page(text, headers={"Content-Type": "application/json", **more})


@pytest.mark.quick
@pytest.mark.parametrize(
    ("locator", "leads_on"),
    [
        ("url: /q, " + JSON % "{1..3}", ""),
        ("url: /q, " + JSON % "{1..}" + ", until: empty", ""),
        ("url: /q, from: {file: seeds.csv, columns: [page]}, " + JSON % "%{seed.page}", ""),
        ("url: /q", "next: {url: /q, " + JSON % "%{p}" + ', p: "header: X-Next-Page"}'),
        ("url: /q", "next: {url: /q, " + JSON % "%{p}" + ', p: "jmespath: next", until: empty}'),
        ("url: /q", "links: [{url: /q, inBlock: true, " + JSON % "%{field.id}" + "}]"),
    ],
    ids=["range", "series", "seeds", "header", "text", "links"],
)
def test_pages_are_asked_for_by_numbers(project: Project, site: Site, locator: str, leads_on: str) -> None:
    site.fallback = serve
    (project.folder / "defs").mkdir(exist_ok=True)
    (project.folder / "defs" / "seeds.csv").write_text("page\n1\n2\nthree\n3\n")
    project.write(DEFS.format(base=site.url(), locator="{" + locator + "}", leads_on=leads_on))
    done = project.crawl()
    assert done.summary["jobs"]["failed"] == 0, "no text was sent"
    ids = {row["id"] for row in project.rows("media")}
    assert ids == {str(number) for number in range(1, 2 * PAGES + 1)}


def test_what_is_no_number_ends_a_chain_and_is_told(project: Project, site: Site) -> None:
    site.fallback = lambda _: Page('{"list": [{"id": 1}], "next": "1,5"}', headers={"Content-Type": "application/json"})
    following = "next: {url: /q, " + JSON % "%{p}" + ', p: "jmespath: next"}'
    project.write(DEFS.format(base=site.url(), locator="{url: /q}", leads_on=following))
    done = project.crawl()
    assert done.summary["jobs"]["done"] == 1
    texts = [text for (text,) in project.query("SELECT text FROM events")]
    assert any("`next`: %{p} is '1,5', which is no number of JSON" in text for text in texts), texts
