"""A page that only a script leaves is told from pages with content, and from pages that merely have scripts."""

import pytest

from crawl_engine.extract.page.page import Page
from crawl_engine.node.rules.script_redirect import ScriptRedirect, find_script_redirect


def found(markup: str, kind: str = "html") -> ScriptRedirect | None:
    page = Page(url="http://a/1", text=markup, kind=kind, status=200, fetched_at=0.0)  # type: ignore[arg-type]
    return find_script_redirect(page)


@pytest.mark.parametrize(
    ("script", "target", "cookie"),
    [
        ("window.location.replace('/new');", "/new", ""),
        ('location.href="https://b.example/x?y=1"', "https://b.example/x?y=1", ""),
        ("top . location = url", "", ""),
        ("document.location.assign(`/a`)", "/a", ""),
        ("setTimeout(() => { document.cookie = 'js=1; path=/'; location.reload(); }, 200)", "", "js=1"),
        ('document.cookie="a=b";window.location.href = window.location.href', "", "a=b"),
        ("/* why */ location = '/x' // on", "/x", ""),
    ],
)
def test_a_page_that_a_script_leaves(script: str, target: str, cookie: str) -> None:
    assert found(f"<html><head><script>{script}</script></head><body></body></html>") == (target, cookie)
    around = f"<title>A moment</title><style>b{{}}</style><p>Checking your browser<script type=x>{script}</script>"
    assert found(f"{around}<noscript>Please enable JavaScript, {'which ' * 99}</noscript>") == (target, cookie)


@pytest.mark.parametrize(
    "markup",
    [
        "<h1>tea</h1><p>location = here</p>",
        "<script>if (location.href == 'x') go()</script>",
        "<script>location.reload()</script>",
        "<script>// location.href = '/x'\nshow()</script>",
        "<script>var allocation = 1, location_ = '/x'</script>",
        f"<script>location.href = '/x'</script><p>{'many words ' * 30}</p>",
        "<script>location.href = '/x'</script><img src=a.png>",
        "<script>location.href = '/x'</script><form><input name=q></form>",
        f"<script>location.href = '/x'; {'x' * 9000}</script>",
        "<!-- <script>location.href = '/x'</script -->",
        "",
    ],
)
def test_other_pages(markup: str) -> None:
    assert found(markup) is None


def test_documents_that_are_no_html() -> None:
    assert found("<script>location.href = '/x'</script>", "xml") is None


@pytest.mark.parametrize("markup", ["<script>" * 1_000, "<script " * 1_000 + "location=", "<!--" * 2_000 + "location"])
def test_hostile_markup_takes_no_time(markup: str) -> None:
    assert found(markup[:8_000]) is None
