"""Actions in frames: consent that another origin asks for, frames in frames, and elements found by their text."""

from collections.abc import Iterator

import pytest

from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.step import BrowserAction

from .loaded_pages import PageLoads, page_loads
from .shop_front import NEEDS_BROWSER
from .site import Site, html, serve_site

pytestmark = NEEDS_BROWSER
LISTENS = """<ul id=list></ul><script>addEventListener('message', e => {
    list.innerHTML = '<li class=item>one</li><li class=item>' + e.data + '</li>'; banner.remove(); });</script>"""
BANNER = "<div id=banner style='position: fixed; inset: 0; background: #fff'>%s</div>" + LISTENS
CONSENT = """<p>We accept all cookies, and Accept all is what we like</p>
<button id=no onclick="send('no')">Reject</button>
<span style='display: none'><button>Accept all</button></span>
<button id=accept onclick="send('yes')"><b>Accept</b> all</button>
<input id=name><select id=size><option>S<option>XL</select><script>
const send = word => top.postMessage(word + (document.getElementById('name').value || '') + size.value, '*');
</script>"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageLoads]:
    with page_loads(tmp_path_factory.mktemp("pages"), deadline=20.0) as loads:
        yield loads


@pytest.fixture(scope="module")
def shop() -> Iterator[Site]:
    """Its consent is that of another origin; the deep one stands in a frame of the other."""
    with serve_site() as site, serve_site() as other:
        other["/cmp"] = html(CONSENT)
        other["/outer"] = html("<h1>frame</h1><iframe id=inner src=/cmp width=400 height=300></iframe>")
        site["/own"] = html(BANNER % "<iframe id=cmp src=/cmp width=400 height=300></iframe>")
        site["/cmp"] = html(CONSENT)
        site["/other"] = html(BANNER % f"<iframe id=cmp src='{other.url('/cmp')}' width=400 height=300></iframe>")
        site["/deep"] = html(BANNER % f"<iframe id=cmp src='{other.url('/outer')}' width=500 height=400></iframe>")
        site["/late"] = html(
            "<div id=banner></div><script>setTimeout(() => { const f = document.createElement('iframe');"
            f"f.src = '{other.url('/cmp')}'; f.id = 'cmp'; banner.append(f); }}, 700)</script>{LISTENS}"
        )
        site["/plain"] = html(f"<p>nothing</p>{LISTENS}")
        yield site


def act(pages: PageLoads, url: str, *actions: BrowserAction) -> FetchResponse | FetchFailed:
    [answer] = pages.load(url, actions=actions)
    return answer


def body_of(answer: FetchResponse | FetchFailed) -> str:
    assert isinstance(answer, FetchResponse), answer.reason
    return answer.body.decode()


ITEM = BrowserAction(wait=".item")


@pytest.mark.parametrize(("path", "frame"), [("/own", ("#cmp",)), ("/other", ("#cmp",)), ("/deep", ("#cmp", "#inner")),
                                             ("/late", ("iframe",))])  # fmt: skip
def test_an_element_in_a_frame_is_clicked(pages: PageLoads, shop: Site, path: str, frame: tuple[str, ...]) -> None:
    click = BrowserAction(click="#accept", frame=frame)
    assert "yesS" in body_of(act(pages, shop.url(path), click, ITEM))


@pytest.mark.parametrize("path", ["/own", "/other", "/deep", "/late"])
@pytest.mark.parametrize("text", ["Accept all", "accept ALL"])
def test_a_button_is_found_by_its_text_in_whatever_frame(pages: PageLoads, shop: Site, path: str, text: str) -> None:
    """Not the sentence that has the words, nor a hidden one."""
    assert "yesS" in body_of(act(pages, shop.url(path), BrowserAction(click=f"text: {text}"), ITEM))


def test_fields_in_a_frame_are_filled_and_waited_for(pages: PageLoads, shop: Site) -> None:
    frame = ("#cmp",)
    actions = (
        BrowserAction(wait="#name", frame=frame), BrowserAction(fill={"#name": "Ann"}, frame=frame),
        BrowserAction(select={"#size": "XL"}, frame=frame),
        BrowserAction(click="xpath: //button[@id='no']", frame=frame),
    )  # fmt: skip
    assert "noAnnXL" in body_of(act(pages, shop.url("/other"), *actions, ITEM))


def test_clicks_in_a_frame_are_repeated(pages: PageLoads, shop: Site) -> None:
    click = "n.textContent = +n.textContent + 1; if (n.textContent == 3) this.remove();"
    shop["/count"] = html(f"<p id=n>0</p><button onclick=\"{click} top.postMessage(n.textContent, '*')\">more</button>")
    shop["/counts"] = html(
        "<div id=banner></div><iframe id=f src=/count></iframe>" + LISTENS.replace("banner.remove()", "")
    )
    for click in (
        BrowserAction(click="button", frame=("#f",), until="gone"),
        BrowserAction(click="text: more", until="gone"),
    ):
        assert '<li class="item">3</li>' in body_of(act(pages, shop.url("/counts"), click))


def test_a_consent_that_does_not_come_is_passed_over(pages: PageLoads, shop: Site) -> None:
    for action in (BrowserAction(click="text: Accept all", optional=True),
                   BrowserAction(click="#accept", frame=("#cmp",), optional=True)):  # fmt: skip
        assert "nothing" in body_of(act(pages, shop.url("/plain"), action))


def test_what_is_not_there_fails_the_page_with_its_name(pages: PageLoads, shop: Site) -> None:
    answer = act(pages, shop.url("/own"), BrowserAction(click="#none", frame=("#cmp",)))
    assert isinstance(answer, FetchFailed)
    assert "action 1 (click #none)" in answer.reason
