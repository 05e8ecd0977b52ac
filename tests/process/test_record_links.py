"""Links of records in real crawls: what they carry, and the forms and JSON that they send."""

import os
import signal
import urllib.parse

import pytest

from .project import Project, Running, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(120)

SHOP = """\
locatorGroups: {{list: {{locators: [{{url: "{url}"}}]}}}}
taskGroups:
  list: {{page: {{dataDef: product}}}}
  detail: {{page: {{dataDef: detail}}}}
  review: {{page: {{dataDef: review}}}}
dataDefs:
  product:
    query: {{block: .product}}
    fields:
      sku: {{attribute: id, required: true}}
      category: {{selector: {category}, scope: page}}
      price: {{selector: .price, type: decimal}}
    filters: [{{field: sku, pattern: sold.*}}]
    links:
      - {{selector: a.detail, inBlock: true, linkGroup: detail, carry: [sku, category, price]}}
      - {{selector: a.next}}
  detail:
    fields: &carried
      path: {{value: "%{{document.url}}", match: "/d/.*"}}
      sku: {{value: "%{{carried.sku}}"}}
      category: {{value: "%{{carried.category}}"}}
      price: {{value: "%{{carried.price}}", type: decimal}}
    links: [{{selector: a.review, linkGroup: review, carry: [category, sku]}}]
  review: {{fields: {{text: {{selector: p}}, of: {{value: "%{{carried.category}}/%{{carried.sku}}"}}}}}}
hosts: {{"127.0.0.1": {{robots: false, concurrency: 8}}}}
"""


class Shop:
    """Listing pages with products, each with a detail page and a review."""

    def __init__(self, site: Site, pages: int = 3, each: int = 5, *, delay: float = 0.0) -> None:
        self.site, self.pages, self.each, self.delay = site, pages, each, delay
        self.category = "tea"
        site.fallback = self.serve

    def defs(self, category: str = "h1") -> str:
        return SHOP.format(url=self.site.url("/list/1"), category=category).replace("&carried", "")

    def serve(self, request: Request) -> Page:
        kind, _, rest = request.path.lstrip("/").partition("/")
        if kind == "list":
            page = int(rest)
            products = "".join(
                f'<div class="product" id="s{page}-{n}"><a class="detail" href="/d/{page}/{n}">more</a>'
                f'<b class="price">{page}.{n}0</b></div>'
                for n in range(self.each)
            )
            rest = f'<a class="next" href="/list/{page + 1}">next</a>' if page < self.pages else ""
            body = f"<h1>{self.category}</h1><h2>all of {self.category}</h2>{products}{rest}"
        elif kind == "d":
            body = f'<a class="review" href="/r/{rest}">r</a>'
        else:
            body = f"<p>review {rest}</p>"
        return Page(html(body), delay=self.delay)

    def details(self, category: str | None = None) -> list[tuple[str, ...]]:
        name = self.category if category is None else category
        return sorted(
            (f"/d/{page}/{n}", f"s{page}-{n}", name, f"{page}.{n}0")
            for page in range(1, self.pages + 1)
            for n in range(self.each)
        )

    def reviews(self, category: str | None = None) -> list[tuple[str, ...]]:
        name = self.category if category is None else category
        return sorted(
            (f"review {page}/{n}", f"{name}/s{page}-{n}") for page in range(1, self.pages + 1) for n in range(self.each)
        )


def values(project: Project, data_def: str) -> list[tuple[str, ...]]:
    return sorted(tuple(row.values()) for row in project.rows(data_def))


@pytest.mark.quick
def test_values_go_along_to_the_linked_page_and_further(project: Project, site: Site) -> None:
    shop = Shop(site)
    project.write(shop.defs())
    project.crawl()
    assert values(project, "detail") == shop.details()
    assert values(project, "review") == shop.reviews(), "carried on by the fields that read them"
    assert len(project.rows("product")) == 15
    assert max(site.count(path) for path in site.paths) == 1


def test_records_that_give_no_row_lead_nowhere(project: Project, site: Site) -> None:
    shop = Shop(site, 1)
    products = "".join(
        f'<div class="product" id="{name}"><a class="detail" href="/d/1/{number}">more</a></div>'
        for number, name in enumerate(("kept", "sold1", ""))
    )
    site["/list/1"] = html(f"<h1>tea</h1>{products}")
    project.write(shop.defs())
    project.crawl()
    assert values(project, "detail") == [("/d/1/0", "kept", "tea", "")]


def test_the_first_record_that_leads_to_a_page_counts(project: Project, site: Site) -> None:
    shop = Shop(site, 2)
    for page in (1, 2):
        products = "".join(
            f'<div class="product" id="p{page}-{n}"><a class="detail" href="/d/one">more</a></div>' for n in range(3)
        )
        site[f"/list/{page}"] = html(f'<h1>t{page}</h1>{products}<a class="next" href="/list/2">n</a>')
    project.write(shop.defs())
    project.crawl()
    assert values(project, "detail") == [("/d/one", "p1-0", "t1", "")]


@pytest.mark.sweep
def test_a_link_that_would_carry_too_much_is_not_followed(project: Project, site: Site) -> None:
    shop = Shop(site, 1, 2)
    shop.category = "x" * 5_000
    project.write(shop.defs())
    project.crawl()
    assert len(project.rows("product")) == 2
    assert site.paths == ["/list/1"]
    assert "is not followed: what it carries takes more than 4,096 bytes" in str(
        project.query("SELECT text FROM events")
    )


@pytest.mark.quick
@pytest.mark.parametrize("nodes", [1, 3])
def test_an_edit_of_a_carried_field_reaches_the_children_without_a_request(
    project: Project, site: Site, nodes: int
) -> None:
    shop = Shop(site, 4, 6)
    project.write(shop.defs())
    project.crawl(nodes=nodes)
    site.clear_log()
    project.write(shop.defs("h2"))
    done = project.run_with_data("extract", "--defs", str(project.defs), seconds=60)
    assert done.code == 0, done.err
    assert values(project, "detail") == shop.details("all of tea")
    assert values(project, "review") == shop.reviews("all of tea"), "and their children"
    assert site.paths == []
    assert project.query("SELECT count(*) FROM jobs WHERE state <> 'DONE'") == [(0,)]


@pytest.mark.sweep
def test_an_edit_during_the_run_reaches_children_in_every_state(project: Project, site: Site) -> None:
    shop = Shop(site, 6, 8, delay=0.03)
    project.write(shop.defs())
    running = project.start()
    assert until(lambda: len(site.paths) >= 30 or running.exited), running.err
    project.write(shop.defs("h2"))
    assert until(lambda: project.query("SELECT max(version) FROM def_versions") == [(2,)])
    assert until(lambda: len(site.paths) >= 60 or running.exited), running.err
    project.write(shop.defs("h1"))
    assert until(lambda: project.query("SELECT max(version) FROM def_versions") == [(3,)])
    open_jobs = "SELECT count(*) FROM jobs WHERE state IN ('READY', 'TAKEN')"
    assert until(lambda: len(site.paths) >= 6 + 96 and project.query(open_jobs) == [(0,)], 45), running.err
    assert until(lambda: project.query("SELECT reextraction FROM runs") == [(None,)])
    running.send(signal.SIGINT)
    running.wait()
    assert values(project, "detail") == shop.details()
    assert values(project, "review") == shop.reviews()
    assert max(site.count(path) for path in site.paths) == 1


@pytest.mark.sweep
def test_a_retry_of_the_parent_reaches_the_children(project: Project, site: Site) -> None:
    shop = Shop(site, 2, 4)
    project.write(shop.defs())
    project.crawl()
    shop.category = "coffee"
    site.clear_log()
    assert project.run_with_data("retry", "--state", "done", "--match", "group:list").code == 0
    project.crawl()
    assert values(project, "detail") == shop.details("coffee")
    assert values(project, "review") == shop.reviews("coffee")
    assert sorted(site.paths) == ["/list/1", "/list/2"], "the children are extracted again from their stored pages"


def wait_for_pages(site: Site, running: Running, count: int) -> None:
    assert until(lambda: len(set(site.paths)) >= count or running.exited), running.err


@pytest.mark.sweep
@pytest.mark.parametrize("kills", [(30, 90), pytest.param((5, 30, 70, 110), marks=pytest.mark.sweep)])
def test_kills_lose_and_double_nothing(project: Project, site: Site, kills: tuple[int, ...]) -> None:
    shop = Shop(site, 8, 8, delay=0.01)
    project.write(shop.defs())
    for after in kills:
        running = project.start(nodes=3)
        wait_for_pages(site, running, after)
        nodes = project.children("node")
        if nodes:
            os.kill(nodes[0], signal.SIGKILL)
        wait_for_pages(site, running, after + 10)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        project.assert_no_process_left()
    project.crawl()
    assert values(project, "detail") == shop.details()
    assert values(project, "review") == shop.reviews()


FORMS = """\
locatorGroups: {{list: {{locators: [{{url: "{url}"}}]}}}}
taskGroups:
  list: {{page: {{dataDef: product}}}}
  found: {{page: {{dataDef: found}}}}
dataDefs:
  product:
    query: {{block: .product}}
    fields: {{sku: {{attribute: id}}, n: {{selector: i, type: int}}}}
    links:
      - {{selector: form, inBlock: true, linkGroup: found, form: {{q: "%{{field.sku}} & more", n: ["1", "2"]}}}}
      - {{url: "/get?a=1", method: GET, inBlock: true, linkGroup: found, form: {{sku: "%{{field.sku}}"}}}}
      - {{url: "/item/%{{field.sku}}", inBlock: true, linkGroup: found}}
      - url: /json
        inBlock: true
        linkGroup: found
        json: {{sku: "<%{{field.sku}}>", n: "%{{field.n}}", key: "%{{env.KEY}}"}}
  found: {{fields: {{text: {{selector: p}}}}}}
hosts: {{"127.0.0.1": {{robots: false, concurrency: 8}}}}
"""


PAGER = """\
locatorGroups: {{list: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{list: {{rows: {{dataDef: row}}, pager: {{dataDef: pager}}}}}}
dataDefs:
  row: {{query: {{block: tr}}, fields: {{name: {{selector: td}}}}}}
  pager:
    fields: {{next: {{selector: a.next, attribute: href, match: "'(.*)'"}}}}
    links: [{{selector: form, form: {{target: "%{{field.next}}"}}{submit}}}]
hosts: {{"127.0.0.1": {{robots: false}}}}
"""


@pytest.mark.parametrize(
    ("submit", "pages"), [("", [1, 1]), (", submit: none", [1, 2, 3]), (", submit: go", [1, 2, 3])]
)
def test_a_pager_that_a_script_submits(project: Project, site: Site, submit: str, pages: list[int]) -> None:
    def answer(request: Request) -> Page:
        sent = dict(urllib.parse.parse_qsl(request.body.decode(), keep_blank_values=True))
        number = 1 if "search" in sent or not sent.get("target") else int(sent["target"])
        buttons = "<button name=search>search</button><button name=go>go</button>"
        form = f"<form method=post><input type=hidden name=target><input type=hidden name=n value={number}>{buttons}"
        link = f"<a class=next href=\"javascript:post('{number + 1}')\">next</a>" if number < 3 else ""
        return Page(html(f"{form}<table><tr><td>{number}</td></tr></table>{link}</form>"))

    site.fallback = answer
    project.write(PAGER.format(url=site.url("/list"), submit=submit))
    project.crawl()
    assert sorted(int(row["name"]) for row in project.rows("row")) == pages
    warnings = [(one["code"], one["data_def"]) for one in project.status()["warnings"]]
    assert warnings == ([] if submit else [("form-page", "pager")])


def test_forms_and_json_are_sent_with_the_values_of_each_record(
    project: Project, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "k3y-secret")
    hostile = 'x"%{env.KEY}'
    form = (
        '<form method="post" action="/find?x=1"><input type="hidden" name="token" value="t/ö">'
        '<input name="q" value="old"><select name="size"><option>s<option selected>m</select>'
        '<input type="checkbox" name="c" value="1"><button name="go" value="1">go</button></form>'
    )
    products = "".join(
        f'<div class="product" id="{name}"><i>{number}</i>{form}</div>'
        for number, name in enumerate(("a1", hostile.replace('"', "&quot;")))
    )
    site["/list"] = html(products)
    site.fallback = lambda request: Page(
        html(f"<p>{request.method} {request.path} {len(request.body)}</p>".replace('"', "&quot;"))
    )
    project.write(FORMS.format(url=site.url("/list")))
    project.crawl()
    sent = {(e.request.method, e.request.path, e.request.body.decode()) for e in site.exchanges} - {
        ("GET", "/list", "")
    }
    token = "token=t%2F%C3%B6"

    def post(sku: str) -> str:
        return f"{token}&q={urllib.parse.quote_plus(sku + ' & more')}&size=m&go=1&n=1&n=2"

    quoted = urllib.parse.quote(hostile, safe="")
    assert sent == {
        ("POST", "/find?x=1", post("a1")),
        ("POST", "/find?x=1", post(hostile)),
        ("GET", "/get?sku=a1", ""),
        ("GET", f"/get?sku={urllib.parse.quote_plus(hostile)}", ""),
        ("GET", "/item/a1", ""),
        ("GET", f"/item/{quoted}", ""),
        ("POST", "/json", '{"sku":"<a1>","n":0,"key":"k3y-secret"}'),
        ("POST", "/json", r'{"sku":"<x\"\u0025{env.KEY}>","n":1,"key":"k3y-secret"}'),
    }, "a page cannot ask for a secret"
    assert len(project.rows("found")) == 8
    for path in project.data.rglob("*"):
        assert not path.is_file() or path.suffix == ".csv" or b"k3y-secret" not in path.read_bytes(), path
    site.clear_log()
    assert project.run_with_data("retry", "--state", "done", "--match", "group:found").code == 0
    project.crawl()
    assert {(e.request.method, e.request.path, e.request.body.decode()) for e in site.exchanges} == sent
    assert len(project.rows("found")) == 8
