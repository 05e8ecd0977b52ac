"""Pages of one document that scripts tell apart by the fragment: each is a page of its own."""

import json

import pytest

from .project import Project
from .shop_front import NEEDS_BROWSER, SANDBOX
from .site import Page, Request, Site, html, redirect

pytestmark = NEEDS_BROWSER
APP = """<h1>shop</h1><main id=app></main><script>
const price = {1: '4.50', 2: '7.25', 3: '9.00'};
function show() {
    const [, id] = location.hash.match(/^#[!/]+tea[/]([0-9])/) || [], mark = location.hash[1] == '!' ? '#!' : '#/';
    app.innerHTML = id ? `<h2>Tea ${id}</h2><b class=price>${price[id]}</b>`
        : [1, 2, 3].map(id => `<a class=tea href="${mark}tea/${id}">Tea</a>`).join(' ') + '<a href="#top">up</a>';
}
addEventListener('hashchange', show); show();</script>"""
DEFS = """
locatorGroups: {{shop: {{locators: [{{url: "{start}"}}]}}}}
taskGroups:
  shop: {{loader: {{browser: {{wait: a.tea}}}}, list: {{dataDef: list}}}}
  detail: {{loader: {{browser: {{wait: .price{rule}}}}}, page: {{dataDef: tea}}}}
dataDefs:
  list: {{links: [{{selector: a.tea, linkGroup: detail, deny: ["tea/3"]}}]}}
  tea:
    fields: {{name: {{selector: h2}}, price: {{selector: .price, type: decimal}}, url: {{value: "%{{document.url}}"}}}}
"""


def rows_of(project: Project) -> list[tuple[str, str, str]]:
    return sorted((row["name"], row["price"], row["url"]) for row in project.rows("tea"))


def expected(site: Site, path: str, *numbers: int) -> list[tuple[str, str, str]]:
    prices = {1: "4.50", 2: "7.25", 3: "9.00"}
    return [(f"Tea {number}", prices[number], site.url(path.format(number))) for number in numbers]


def crawl(project: Project, defs: str, *arguments: str, code: int = 0) -> dict[str, object]:
    project.write(defs)
    done = project.crawl(*SANDBOX, *arguments, nodes=1, code=code, seconds=100)
    summary: dict[str, object] = json.loads(done.out.splitlines()[-1])
    return summary


@pytest.mark.parametrize(("start", "mark"), [("#/", "#/"), ("#!list", "#!")])
def test_each_route_is_a_page_and_rules_of_links_see_it(project: Project, site: Site, start: str, mark: str) -> None:
    site["/app/"] = html(APP)
    crawl(project, DEFS.format(start=site.url(f"/app/{start}"), rule=""))
    assert rows_of(project) == expected(site, f"/app/{mark}tea/{{}}", 1, 2)
    assert project.job(site.url(f"/app/{'' if start == '#/' else start}"))["state"] == "DONE"


def test_one_plain_request_is_for_all_routes(project: Project, site: Site) -> None:
    agents = []

    def answer(request: Request) -> Page:
        agents.append(request.headers["user-agent"])
        return Page(html(APP))

    site["/app/"] = answer
    crawl(project, DEFS.format(start=site.url("/app/"), rule=", when: {missing: .price}"), "--set", "user_agent=me/1")
    assert rows_of(project) == expected(site, "/app/#/tea/{}", 1, 2)
    plain = [agent for agent in agents if "Chrom" not in agent]
    assert len(plain) == 1, agents
    assert len(agents) == 4


@pytest.mark.parametrize("when", ["", ", when: {missing: .price}"], ids=["browser", "plain first"])
def test_redirects_keep_the_route(project: Project, site: Site, when: str) -> None:
    site["/app/"] = html(APP)
    site["/app"] = redirect("/app/")
    site["/moved"] = redirect("/app/#/tea/2")
    site["/script"] = html("<h1>gone</h1><script>location.replace('/app/#/tea/3')</script>")
    defs = DEFS.format(start=site.url("/app/"), rule=when)
    urls = [site.url(path) for path in ("/app#/tea/1", "/moved", "/script")]
    crawl(
        project,
        defs.replace("shop: {locators", f"detail: {{locators: [{{urls: {json.dumps(urls)}}}]}}, shop: {{locators"),
    )
    assert set(rows_of(project)) == set(expected(site, "/app/#/tea/{}", 1, 2, 3))


def test_a_key_leaves_routes_out(project: Project, site: Site) -> None:
    site["/app/"] = html(APP)
    defs = DEFS.format(start=site.url("/app/"), rule=", routes: false").replace("wait: .price", "wait: .tea")
    crawl(project, defs)
    assert [row[2] for row in rows_of(project)] == [site.url("/app/")]
