"""Links: targets, rules, and that the cache does not change results."""

from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_engine.extract.links import links as links_module
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef
from crawl_engine.model.link import Link
from crawl_engine.urls import QueryStripper, join
from tests.unit.extract.pages import CONTEXT, URL, extract, link_to, page


def urls(text: str, *, url: str = URL, kind: Any = "html", **options: Any) -> list[str]:
    options.setdefault("selector", "a")
    return [link.url for link in extract(DataDef(name="d", links=(Link(**options),)), text, url=url, kind=kind).links]


def anchors(*hrefs: str) -> str:
    return "".join(f'<a href="{href}">x</a>' for href in hrefs)


def test_links_are_absolute_normalized_unique_and_in_order() -> None:
    text = anchors(
        "b.html#x", "B.HTML", "b.html#y", "../up", "/root?q#z", "HTTPS://SHOP.example:443/%7ea/../c", "?n", ""
    )
    assert urls(text) == [
        "https://shop.example/catalogue/b.html",
        "https://shop.example/catalogue/B.HTML",
        "https://shop.example/up",
        "https://shop.example/root?q",
        "https://shop.example/c",
        "https://shop.example/catalogue/page-1.html?n",
        "https://shop.example/catalogue/page-1.html",
    ]


def test_links_into_a_group_with_a_browser_keep_their_routes() -> None:
    stripper = QueryStripper({"shop.example": ["utm"]}, ["apps"])
    hrefs = ["#/a", "#/b?utm=1", "x.html?utm=1#/a", "#top", "#/", "x.html#!b", "/y#/a", "#/a"]
    own, into = Link(selector="a"), Link(selector="a", group="apps", deny=("#!b$",))
    extractors = [RecordExtractor(DataDef(name="d", links=(link,)), query_stripper=stripper) for link in (into, own)]
    for base in (URL, f"{URL}x", URL):  # links of the first page are cached
        texts = page(anchors(*hrefs), url=base)
        found = [[link.url for link in extractor.extract(texts, CONTEXT).links] for extractor in extractors]
        folder = "https://shop.example/catalogue/"
        routed = [f"{base}#/a", f"{base}#/b?utm=1", f"{folder}x.html#/a", base, "https://shop.example/y#/a"]
        assert found == [routed, [base, f"{folder}x.html", "https://shop.example/y"]]


@pytest.mark.parametrize(
    ("replace", "hrefs", "expected"),
    [
        ([("^http://m[.]", "https://")], ["http://m.shop.example/a", "/b"], ["a", "b"]),
        ([("[?&]from=[^&]*", "")], ["/a?from=x", "/a?from=y", "/a?from=z&q=1"], ["a", "a&q=1"]),
        ([("/(sale|new)/", "/"), ("/$", "")], ["/sale/new/a/", "/sale/a/", "/a"], ["new/a", "a"]),
        (
            [(r"javascript:open\('([^']*)'.*", r"\1")],
            ["javascript:open('../a', 1)", "javascript:open('/b#c')"],
            ["a", "b"],
        ),
        ([("^.*/a$", "?a=1")], ["/a", "//shop.example/a"], ["catalogue/page-1.html?a=1"]),
        ([(".*/a$", "")], ["/a", "/b"], ["b"]),
        ([("^", "  ")], ["/a"], ["a"]),
        ([("/a", "/b")], ["/a", "/b", "/a/a"], ["b", "b/b"]),
        ([("/b$", "/c"), ("/a$", "/b")], ["/b", "/a"], ["c", "b"]),
    ],
)
def test_urls_are_rewritten_before_they_are_judged(replace: Any, hrefs: list[str], expected: list[str]) -> None:
    assert urls(anchors(*hrefs), replace=replace) == [f"https://shop.example/{path}" for path in expected]


def test_a_rewritten_url_obeys_all_rules() -> None:
    made: dict[str, Any] = {"replace": [("^.*[?]to=", "")]}
    text = anchors("/go?to=//other.example/a", "/go?to=/b", "/go?to=ftp://shop.example/")
    assert urls(text, **made) == ["https://shop.example/b"]
    assert urls(text, **made, same_host=False) == ["https://other.example/a", "https://shop.example/b"]
    assert urls(text, **made, same_host=False, allow=["other"]) == ["https://other.example/a"]
    assert urls(text, **made, deny=["go"]) == ["https://shop.example/b"]
    rejected = extract(DataDef(name="d", links=(Link(selector="a", replace=(("(", ""),)),)), text).rejected
    assert [(one.field, "cannot be compiled" in one.reason) for one in rejected] == [("links", True)]


def test_the_explanation_of_a_link_shows_the_rewritten_url() -> None:
    link = Link(selector="a", replace=(("/go/", "/to/"),), allow=("/go/",))
    document = page(anchors("/go/1"))
    extractor = RecordExtractor(DataDef(name="d", links=(link,)))
    extractor.extract(document, msgspec.structs.replace(CONTEXT, explains_links=True))
    (fault,) = document.faults
    expected = "not followed: /go/1: none of `allow` matches its URL, after `replace` https://shop.example/to/1"
    assert fault.partition(" (")[0] == expected


def test_pages_in_other_folders_do_not_share_rewritten_urls() -> None:
    link = Link(selector="a", replace=((r"javascript:go\((\d)\)", r"?page=\1"),))
    extractor = RecordExtractor(DataDef(name="d", links=(link,)))
    for path in ("a", "b", "c/d"):
        document = page(anchors("javascript:go(2)"), url=f"https://shop.example/{path}")
        assert [one.url for one in extractor.extract(document, CONTEXT).links] == [
            f"https://shop.example/{path}?page=2"
        ]


def test_credentials_of_a_page_are_dropped() -> None:
    text = anchors("https://us:pw@shop.example/a@b", "//us@shop.example/a@b", "https://shop.example/a@b")
    assert urls(text) == ["https://shop.example/a@b"]
    assert urls(anchors("next"), url="https://us:pw@shop.example/") == ["https://shop.example/next"]


def test_other_schemes_are_dropped() -> None:
    assert (
        urls(anchors("mailto:a@b", "javascript:void(0)", "data:,x", "ftp://shop.example/", "http://[", "tel:1")) == []
    )
    assert urls("<a>no href</a><a href>empty</a>", url="https://h/") in ([], ["https://h/"])


@pytest.mark.parametrize(
    ("href", "same"),
    [
        ("https://shop.example:8443/", True),
        ("http://SHOP.EXAMPLE/", True),
        ("//shop.example/x", True),
        ("https://www.shop.example/", False),
        ("https://example/", False),
        ("https://shop.example.evil/", False),
        ("https://shop.example@evil.example/", False),
    ],
)
def test_same_host_compares_names_only(href: str, same: bool) -> None:
    assert bool(urls(anchors(href))) is same
    assert urls(anchors(href), same_host=False)


def test_same_host_compares_with_the_final_url_not_the_base() -> None:
    text = "<base href=https://cdn.example/>" + anchors("x", "https://shop.example/y")
    assert urls(text) == ["https://shop.example/y"]
    assert urls(text, same_host=False) == ["https://cdn.example/x", "https://shop.example/y"]


def test_allow_and_deny_are_searched_in_the_url() -> None:
    text = anchors("a.html#.pdf", "b.pdf", "c.html?login", "/d.html")
    assert urls(text, allow=(r"\.html$",)) == ["https://shop.example/catalogue/a.html", "https://shop.example/d.html"]
    assert urls(text, allow=("^https://shop.example/catalogue/",), deny=("login", "pdf$")) == [
        "https://shop.example/catalogue/a.html"
    ]
    assert len(urls(text, allow=("pdf", "login"))) == 2


def test_links_are_selected_on_the_whole_page() -> None:
    data_def = DataDef(name="d", block="li", links=(Link(selector="p a"),))
    assert len(extract(data_def, "<p><a href=x></a></p><li></li><li></li>").links) == 1


def test_group_priority_and_depth() -> None:
    data_def = DataDef(
        name="d",
        links=(
            Link(selector="a.p", priority=7, group="detail"),
            Link(selector="a", max_depth=3),
            Link(selector="a", group="detail"),
        ),
    )
    text = "<a class=p href=/1><a href=/2>"
    assert extract(data_def, text).links == (
        link_to("https://shop.example/1", "detail", 7, None),
        link_to("https://shop.example/1", "books", 0, 3),
        link_to("https://shop.example/2", "books", 0, 3),
        link_to("https://shop.example/2", "detail", 0, None),
    )
    links = RecordExtractor(data_def, {"books": 2, "detail": -1}).extract(page(text), CONTEXT).links
    assert [link.priority for link in links] == [7, 2, 2, -1]


@pytest.mark.parametrize(("depth", "followed"), [(0, True), (1, True), (2, False), (3, False)])
def test_links_deeper_than_max_depth_are_not_followed(depth: int, followed: bool) -> None:
    context = Context(group="g", locator="l", locator_url=URL, depth=depth, run="r", run_time="")
    extractor = RecordExtractor(DataDef(name="d", links=(Link(selector="a", max_depth=2),)))
    assert bool(extractor.extract(page(anchors("x")), context).links) is followed


def test_nofollow_is_respected_unless_disabled() -> None:
    data_def = DataDef(name="d", links=(Link(selector="a"),))
    ignoring = Context(group="g", locator="l", locator_url=URL, depth=0, run="r", run_time="", nofollow=False)
    rel = '<a rel="external NOFOLLOW" href=/1></a><a rel=nofollower href=/2></a><a href=/3></a><a rel=nofollow href=/3>'
    assert [link.url[-1] for link in extract(data_def, rel).links] == ["2", "3"]
    assert len(RecordExtractor(data_def).extract(page(rel), ignoring).links) == 3
    meta = '<meta name="ROBOTS" content="noindex,nofollow"><a href=/1>'
    assert extract(data_def, meta).links == ()
    assert len(RecordExtractor(data_def).extract(page(meta), ignoring).links) == 1


def test_other_attributes_and_selector_kinds() -> None:
    assert urls("<link href=/f.xml><img src=/i.png>", selector="img", attribute="src") == ["https://shop.example/i.png"]
    assert urls("<loc> /x </loc>", selector="loc", attribute="text") == ["https://shop.example/x"]
    assert urls("<a href=/x>", selector="xpath://a") == ["https://shop.example/x"]
    assert urls("<a href=/x><a href=/x#y>", selector="xpath://a/@href") == ["https://shop.example/x"]
    assert urls("<urlset><url><loc>/x</loc></url></urlset>", selector="xpath://loc/text()", kind="xml") == [
        "https://shop.example/x"
    ]
    items = '{"next": "/2", "items": [{"href": "/a"}, {"href": "/b", "rel": "nofollow"}, {"id": 1}]}'
    assert urls(items, selector="jmespath:next", kind="json") == ["https://shop.example/2"]
    assert urls(items, selector="jmespath:items", kind="json") == ["https://shop.example/a"]
    assert urls(items, selector="a", kind="json") == []


@pytest.mark.parametrize("selector", ["a[href]", "A[href]", "p a[href]", "[href]", "a[href], area[href]"])
def test_elements_without_the_attribute_are_neither_links_nor_dropped(
    selector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links_module, "_NODES_PER_STEP", 5)
    text = f"<p><a>none</a>{anchors('1', '2#x', '3')}<a name=n>none</a>{anchors('4', '5')}</p>"
    extractor = RecordExtractor(DataDef(name="d", links=(Link(selector=selector),)), max_links=2)
    found = extractor.extract(page(text), CONTEXT)
    assert [link.url[-1] for link in found.links] == ["1", "2"]
    assert found.dropped_links == 3


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("<base href=/a/>", "/a/"),
        ("<BASE target=_top><base href=/a/><base href=/b/>", "/a/"),
        ("<base href><base href=/a/>", "/catalogue/"),
        ("<body><p>late</p><base href=/a/>", "/a/"),
        ("<!-- <base href=/a/> --><script>'<base href=/a/>'</script>", "/catalogue/"),
    ],
)
def test_the_first_base_with_an_address_counts(text: str, base: str) -> None:
    assert urls(text + anchors("x")) == [f"https://shop.example{base}x"]


def test_cached_hrefs_resolve_for_each_page() -> None:
    extractor = RecordExtractor(DataDef(name="d", links=(Link(selector="a"),)))
    text = anchors("x", "/x", "", "?q", " ?q", "?", "//shop.example/y", "https:z", "https:?z", "HTTPS:?z", "ht\ntps:?z")
    for url in (
        "https://shop.example/a/b?c",
        "https://shop.example/a/d",
        "https://shop.example/e/f",
        "http://shop.example/e/f",
        "https://other.example/a/b",
        "https://shop.example/a/b?c",
        "https://shop.example/?/a/",
    ):
        uncached = RecordExtractor(DataDef(name="d", links=(Link(selector="a"),)))
        expected = uncached.extract(page(text, url=url), CONTEXT).links
        assert extractor.extract(page(text, url=url), CONTEXT).links == expected
        assert extractor.extract(page(text, url=url), CONTEXT).links == expected


def test_links_without_a_group_take_that_of_the_page() -> None:
    extractor = RecordExtractor(DataDef(name="d", links=(Link(selector="a"),)))
    for group in ("one", "two", "one"):
        context = Context(group=group, locator="l", locator_url=URL, depth=0, run="r", run_time="")
        assert [link.group for link in extractor.extract(page(anchors("x")), context).links] == [group]


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "MAX_CACHED_LINKS", 50)
    finder = links_module.LinkFinder(Link(selector="a"), {})
    extractor = RecordExtractor(DataDef(name="d", links=(Link(selector="a"),)))
    extractor._link_extractor._finders = (finder,)
    for number in range(40):
        text = anchors(*(f"p{number}-{at}" for at in range(10)))
        assert len(extractor.extract(page(text, url=f"https://h.example/{number}/x"), CONTEXT).links) == 10
        assert sum(map(len, finder._cache.values())) <= 60
        assert len(finder._cache) <= 60


segments = st.text("abc-_.~0", min_size=1, max_size=5).filter(lambda text: text.strip("."))
paths = st.lists(segments | st.just("..") | st.just("."), max_size=4).map("/".join)
hrefs = st.one_of(
    paths,
    paths.map("/".__add__),
    segments.map("https://shop.example/".__add__),
    segments.map("http://other.example/".__add__),
    st.tuples(paths, segments).map("?".join),
    st.tuples(paths, segments).map("#".join),
    segments.map("?".__add__),
    segments.map("#".__add__),
    st.just("mailto:x@y"),
)


@settings(max_examples=150)
@given(st.lists(st.tuples(paths, st.lists(hrefs, max_size=6)), min_size=1, max_size=4))
def test_links_equal_those_of_urllib(pages: list[tuple[str, list[str]]]) -> None:
    extractor = RecordExtractor(DataDef(name="d", links=(Link(selector="a[href]"),)))
    for path, raw in pages:
        url = urljoin("https://shop.example/", f"/{path}")
        joined = [urldefrag(urljoin(url, href)).url for href in raw]
        expected = [link for link in joined if urlsplit(link).netloc == "shop.example"]
        links = extractor.extract(page(anchors(*raw), url=url), CONTEXT).links
        assert [link.url for link in links] == list(dict.fromkeys(expected))


_SEGMENTS = [
    "a",
    "b",
    "..",
    ".",
    "",
    "x y",
    "%2e%2e",
    "..%2f",
    "é",
    "c;d",
    "?q=../z",
    "q?x",
    "\\",
    "a\\b",
    "a:b",
    "...",
]


@given(
    st.sampled_from(
        ["http://h/", "http://h/a", "http://h/a/b/c", "http://h/a//b/", "http://h/a?x=/y/z", "http://h:81/~/"]
    ),
    st.sampled_from(["", "./", "../", "../../", "../../../"]),
    st.lists(st.sampled_from(_SEGMENTS), max_size=4),
)
def test_a_plain_path_is_joined_as_by_the_rules(base: str, up: str, segments: list[str]) -> None:
    href = up + "/".join(segments)
    plain = links_module._join_plainly(base, base.partition("?")[0].rpartition("/")[0], href)
    if plain:
        assert plain == join(base, href)


@pytest.mark.parametrize(
    ("href", "is_plain"),
    [
        ("", True), ("a.html", True), ("../b/c", True), ("../", True), ("a%20b?c=/../d", True), ("a//b", True),
        ("?q", False), ("/a", False), ("..", False), ("a/../b", False), ("a/%2E%2e/b", False), ("a:b", False),
        ("../../../../a", False), ("a b", False), ("é", False), ("a\\b", False), ("..//a", False), ("a\n", False),
    ],
)  # fmt: skip
def test_only_plain_paths_are_joined_without_a_parser(href: str, is_plain: bool) -> None:
    base = "http://h.example/a/b?q"
    joined = links_module._join_plainly(base, "http://h.example/a", href)
    assert bool(joined) is is_plain
    assert not joined or joined == join(base, href)
    assert links_module._join_plainly("http://us:pw@h/a/b", "http://us:pw@h/a", href) == ""
