"""What a page is after actions: lists that scroll anywhere, buttons for more, pagers in place, reloads of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_engine.extract.documents.page_states import split_states
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.step import BrowserAction, Scroll

from .loaded_pages import PageLoads, page_loads
from .project import Project
from .shop_front import NEEDS_BROWSER, SANDBOX
from .site import Page, Request, Site, html, serve_site

pytestmark = NEEDS_BROWSER
JSON = {"Content-Type": "application/json"}
MORE = """<script>
let n = document.querySelectorAll('.item').length, busy = false;
async function more() {
    if (busy || n >= 40) return;
    busy = true;
    const items = await (await fetch('/api/' + n)).json();
    for (const text of items) list.insertAdjacentHTML('beforeend', `<li class=item>${text}</li>`);
    n += items.length; busy = false;
}
const nearEnd = box => box.scrollTop + box.clientHeight > box.scrollHeight - 80;
const see = () => new IntersectionObserver(e => { if (e[0].isIntersecting) more(); }).observe(end);
"""
ITEMS = "".join(f"<li class=item>item {n}</li>" for n in range(10))
LIST = f"<style>li {{ height: 60px }}</style><ul id=list>{ITEMS}</ul><div id=end style='height: 5px'></div>"
SHAPES = {
    "page": f"{LIST}{MORE}see()</script>",
    "box": f"<div id=box style='height: 300px; overflow-y: auto'>{LIST}</div>"
    f"{MORE}box.onscroll = () => nearEnd(box) && more()</script>",
    "box below": "<div style='height: 2000px'>above</div>"
    f"<div id=box style='height: 300px; overflow: scroll'>{LIST}</div><p style='height: 900px'>{MORE}see()</script>",
    "box in a box": "<div style='height: 500px; overflow: auto'><p style='height: 600px'>head</p>"
    f"<div id=box style='height: 300px; overflow: auto'>{LIST}</div></div>{MORE}see()</script>",
    "body": "<style>html, body { height: 100%; margin: 0; overflow: hidden } main { height: 100%; overflow-y: auto }"
    f"</style><main id=box>{LIST.replace('60px', '90px')}</main>"
    f"{MORE}box.onscroll = () => nearEnd(box) && more()</script>",
    "footer": f"{LIST}<div style='height: 2500px'>footer</div>{MORE}see()</script>",
    "smooth": f"<style>html {{ scroll-behavior: smooth }}</style>{LIST}<p style='height: 2000px'>{MORE}see()</script>",
    "long poll": f"{LIST}{MORE}see(); fetch('/never')</script>",
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageLoads]:
    with page_loads(tmp_path_factory.mktemp("pages"), deadline=60.0) as loads:
        yield loads


@pytest.fixture(scope="module")
def shop() -> Iterator[Site]:
    def api(request: Request) -> Page:
        _, _, start = request.path.rpartition("/")
        if not start.isdigit():
            return Page("nothing here", 404)
        return Page(json.dumps([f"item {n}" for n in range(int(start), int(start) + 10)]), headers=JSON, delay=0.1)

    with serve_site() as site:
        site.fallback = api
        yield site


def act(pages: PageLoads, url: str, *actions: BrowserAction, **rule: object) -> str:
    [answer] = pages.load(url, actions=actions, **rule)
    assert isinstance(answer, FetchResponse), answer.reason
    return answer.body.decode()


@pytest.mark.parametrize(
    ("shape", "until"),
    # a page with a request open may still grow: its end is not known
    [(shape, until) for shape in SHAPES for until in ("end", "30") if (shape, until) != ("long poll", "end")],
)
def test_what_scrolls_is_scrolled_until_nothing_comes(pages: PageLoads, shop: Site, shape: str, until: str) -> None:
    shop["/list"] = html(SHAPES[shape])
    shop["/never"] = Page("late", delay=20.0)
    document = act(pages, shop.url("/list"), BrowserAction(scroll=Scroll(until=until)))
    assert document.count('class="item"') == 40


BUTTON = f"""<ul id=list>{ITEMS}</ul><p id=count></p><button id=more>more</button>{MORE}
    document.getElementById('more').onclick = async () => {{
        await more(); count.textContent = n;
        if (n >= 40) @;
    }}</script>"""


@pytest.mark.extended
@pytest.mark.parametrize(
    "end",
    {
        "removed": "document.getElementById('more').remove()",
        "hidden": "document.getElementById('more').style.display = 'none'",
        "disabled": "document.getElementById('more').disabled = true",
        "said so": "document.getElementById('more').setAttribute('aria-disabled', 'true')",
        "by a class": "document.getElementById('more').classList.add('disabled')",
    }.values(),
)
def test_a_button_is_clicked_until_it_is_gone(pages: PageLoads, shop: Site, end: str) -> None:
    shop["/more"] = html(BUTTON.replace("@", end))
    document = act(pages, shop.url("/more"), BrowserAction(click="#more", until="gone"))
    assert document.count('class="item"') == 40


def test_clicks_are_bounded_by_a_number_or_a_selector(pages: PageLoads, shop: Site) -> None:
    shop["/more"] = html(BUTTON.replace("@", "document.getElementById('more').remove()"))
    assert act(pages, shop.url("/more"), BrowserAction(click="#more", until="2")).count('class="item"') == 30
    assert act(pages, shop.url("/more"), BrowserAction(click="#more", until="9")).count('class="item"') == 40
    until = BrowserAction(click="#more", until=".item:nth-child(25)")
    assert act(pages, shop.url("/more"), until).count('class="item"') == 30


def test_a_button_that_brings_nothing_is_no_end(pages: PageLoads, shop: Site) -> None:
    shop["/more"] = html(f"<ul id=list>{ITEMS}</ul><button id=more onclick='fetch(\"/lost\")'>more</button>")
    [failed] = pages.load(shop.url("/more"), actions=(BrowserAction(click="#more", until="gone"),))
    assert isinstance(failed, FetchFailed)
    assert "#more is still there, and 3 clicks changed nothing" in failed.reason
    optional = BrowserAction(click="#more", until="gone", optional=True)
    assert act(pages, shop.url("/more"), optional).count('class="item"') == 10
    shop["/none"] = html(f"<ul id=list>{ITEMS}</ul>")
    assert act(pages, shop.url("/none"), optional).count('class="item"') == 10


ROWS = """<table><tbody id=rows></tbody></table><button id=next>next</button><p id=at></p><script>
let at = 0;
const draw = () => { rows.innerHTML = [1, 2, 3].map(i => `<tr class=row><td>${at * 3 + i}</td><td>` +
    `<a href="/p/${at * 3 + i}">x</a></td></tr>`).join(''); document.getElementById('at').textContent = at;
    if (at == 4) document.getElementById('next').remove(); };
document.getElementById('next').onclick = () => setTimeout(() => { at += 1; draw() }, 200); draw();</script>"""
WINDOW = """<div id=list style='position: relative; height: 8000px'></div><script>
function draw() {
    const first = Math.max(0, Math.floor((scrollY - list.offsetTop) / 40));
    list.innerHTML = [...Array(20).keys()].map(i => first + i).filter(i => i < 200).map(i => `<div class=row
        style="position: absolute; top: ${i * 40}px; height: 40px"><td>${i + 1}</td><b>${i + 1}</b></div>`).join('');
}
addEventListener('scroll', draw); draw();</script>"""
COLLECTING = """
locatorGroups: {{lists: {{locators: [{{url: "{url}"}}]}}}}
taskGroups:
  lists: {{loader: {{browser: {{wait: .row, collect: true, actions: [{action}]}}}}, list: {{dataDef: row}}}}
  more: {{page: {{dataDef: page}}}}
dataDefs:
  row:
    query: {{block: .row}}
    key: [id]
    fields: {{id: {{selector: {selector}, type: int}}}}
    links: [{{selector: a, linkGroup: more}}]
  page: {{fields: {{name: {{selector: b}}}}}}
"""


def ids_of(project: Project) -> list[int]:
    return sorted(int(row["id"]) for row in project.rows("row"))


def test_rows_of_a_pager_in_place_and_their_links_are_one_set(project: Project, site: Site) -> None:
    site["/list"] = html(ROWS)
    for number in range(1, 16):
        site[f"/p/{number}"] = html(f"<b>{number}</b>")
    action = '{click: "#next", until: gone}'
    text = COLLECTING.format(url=site.url("/list"), action=action, selector="td")
    project.write(text)
    project.crawl(*SANDBOX, nodes=1, seconds=100)
    assert ids_of(project) == [*range(1, 16)]
    assert sorted(int(row["name"]) for row in project.rows("page")) == [*range(1, 16)]
    asked = len(site.paths)
    project.write(text.replace("type: int}}", "type: int}, twice: {selector: td}}"))
    project.crawl(*SANDBOX, "--set", "live=P1D", nodes=1, seconds=100)
    rows = project.rows("row")
    assert sorted(int(row["twice"]) for row in rows) == [*range(1, 16)], "the stored document has every state"
    assert len(site.paths) == asked


def test_a_list_that_keeps_what_is_in_view_gives_all_its_rows(project: Project, site: Site) -> None:
    site["/list"] = html(WINDOW)
    action = "{scroll: {until: end}}"
    project.write(COLLECTING.format(url=site.url("/list"), action=action, selector="b"))
    project.crawl(*SANDBOX, nodes=1, seconds=100)
    assert ids_of(project) == [*range(1, 201)]


@pytest.mark.extended
def test_what_is_collected_is_bounded_and_told(tmp_path: Path, shop: Site) -> None:
    shop["/flood"] = html("""<b id=at hidden></b><button id=next>next</button><script>let n = 0;
        next.onclick = () => { at.textContent = String(n++).repeat(5e4) }; next.click()</script>""")
    click = BrowserAction(click="#next", until="200")
    with page_loads(tmp_path, max_body=300_000, deadline=60.0) as pages:
        [failed] = pages.load(shop.url("/flood"), collect=True, actions=(click,))
    assert isinstance(failed, FetchFailed)
    assert "`collect`: the page has had more than 300,000 bytes (max_body), after 5 changes" in failed.reason
    assert not failed.retryable


def test_a_page_without_a_change_has_no_states(pages: PageLoads, shop: Site) -> None:
    shop["/still"] = html("<b>still</b>")
    document = act(pages, shop.url("/still"), BrowserAction(wait="0.1"), collect=True).encode()
    assert split_states(document) == (document, None)


def wall(sets: str, *, once: str = "") -> str:
    return f"""<h2>wait</h2><script>{once}setTimeout(() => {{ {sets}; location.reload() }}, 100)</script>"""


@pytest.mark.extended
@pytest.mark.parametrize(
    "sets", ["document.cookie = 'in=' + (1 + Number((document.cookie.match(/in=([0-9])/) || [0, 0])[1])) + '; path=/'"]
)
@pytest.mark.parametrize("needed", [1, 3, 9])
def test_a_page_that_sets_a_cookie_and_reloads_is_loaded_again(
    pages: PageLoads, shop: Site, sets: str, needed: int
) -> None:
    def answer(request: Request) -> Page:
        _, _, value = request.headers.get("cookie", "in=0").rpartition("in=")
        return Page(html("<h1>inside</h1>" if int(value) >= needed else wall(sets)))

    shop[f"/wall/{needed}"] = answer
    [loaded] = pages.load(shop.url(f"/wall/{needed}"), wait="h1")
    assert isinstance(loaded, FetchResponse), loaded.reason
    if needed < 9:
        assert "<h1>inside</h1>" in loaded.body.decode()
        assert loaded.loaded_url is None
    else:
        assert loaded.location == shop.url("/wall/9"), "the node takes it for a redirect, and ends the loop"


@pytest.mark.parametrize(
    ("storage", "route"), [("localStorage", ""), ("sessionStorage", ""), ("localStorage", "#/tea/1")]
)
def test_a_page_that_stores_something_and_reloads_is_loaded_again(
    pages: PageLoads, shop: Site, storage: str, route: str
) -> None:
    shop["/stored"] = html(wall(f"{storage}.a = 1", once=f"if ({storage}.a) document.write('<h1>inside</h1>'); else "))
    assert "<h1>inside</h1>" in act(pages, shop.url(f"/stored{route}"), wait="h1")


def test_a_page_that_reloads_without_a_reason_is_a_loop(pages: PageLoads, shop: Site) -> None:
    shop["/loop"] = html(wall("0"))
    [loaded] = pages.load(shop.url("/loop"), wait="h1")
    assert isinstance(loaded, FetchResponse)
    assert loaded.location == shop.url("/loop")


def test_a_server_that_sets_a_cookie_and_leads_back_lets_a_browser_in(pages: PageLoads, shop: Site) -> None:
    def answer(request: Request) -> Page:
        if "seen=1" in request.headers.get("cookie", ""):
            return Page(html("<h1>inside</h1>"))
        return Page(status=302, headers={"Location": "/own", "Set-Cookie": "seen=1; Path=/own"})

    shop["/own"] = answer
    assert "<h1>inside</h1>" in act(pages, shop.url("/own"), wait="h1")


def test_cookies_of_a_page_that_leads_elsewhere_go_along(project: Project, site: Site) -> None:
    def inside(request: Request) -> Page:
        cookie = request.headers.get("cookie", "")
        return Page(html(f"<h1>{'inside' if 'a=1' in cookie and 'b=2' in cookie else f'lost: {cookie}'}</h1>"))

    site["/a"] = Page(html("<script>document.cookie = 'a=1; path=/'; location.href = '/b'</script>"))
    site["/b"] = Page(html("<script>document.cookie = 'b=2; path=/'; location.href = '/c'</script>"))
    site["/c"] = inside
    project.write(f"""
locatorGroups: {{g: {{locators: [{{url: "{site.url("/a")}"}}]}}}}
taskGroups: {{g: {{loader: {{browser: {{wait: h1}}}}, page: {{dataDef: p}}}}}}
dataDefs: {{p: {{fields: {{title: {{selector: h1}}}}}}}}
""")
    project.crawl(*SANDBOX, nodes=1, seconds=60)
    assert [row["title"] for row in project.rows("p")] == ["inside"]
