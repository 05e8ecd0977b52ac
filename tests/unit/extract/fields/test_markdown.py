"""`type: markdown`: what the HTML of an element becomes, where it is read from, and what it may cost."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError, PageUnavailable
from crawl_engine.extract.page.page import PageTooCostly
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.extract.select.css import Speed
from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.preview.extraction_client import ExtractionClient, TrialDocument
from crawl_engine.settings import Settings
from tests.unit.extract.pages import CONTEXT, extract, page, value

DATA_DEF = DataDef(name="d", fields=(Field(name="text", selector="body", type="markdown"),))


def markdown(text: str, **field: Any) -> Any:
    return value(text, **{"selector": "article", "type": "markdown"} | field)


def article(text: str) -> str:
    return f"<body><article>{text}</article>"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h2>A &amp; b</h2><p>c <b>d</b><br>e", "## A & b\n\nc **d**  \ne"),
        ('<a href="x?a=1&amp;b=2">l</a>', "[l](https://shop.example/catalogue/x?a=1&b=2)"),
        ('<a href="/é x">l</a>', "[l](https://shop.example/%C3%A9%20x)"),
        ('<img src="../i.png" alt="pic">', "![pic](https://shop.example/i.png)"),
        ('<pre><code class="language-py">def f():\n    "|*`"\n</code></pre>', '```py\ndef f():\n    "|*`"\n```'),
        ("<pre>a\n```\n  b</pre>", "````\na\n```\n  b\n````"),
        ("<p>use <code>a*b</code>", "use `a*b`"),
        ("<ul><li>a<ol><li>b<ul><li>c</ul><li>d</ol><li>e</ul>", "- a\n  1. b\n     * c\n  2. d\n- e"),
        (
            "<ol start=9><li>a<ul><li>b</ul><li>c<pre>d\n\ne</pre></ol>",
            "9. a\n   - b\n10. c\n\n    ```\n    d\n\n    e\n    ```",
        ),
        (
            "<table><tr><th>A|B<th>C<tr><td>x|y<td>long long<tr><td colspan=2>w</table>",
            "| A\\|B | C |\n| --- | --- |\n| x\\|y | long long |\n| w | |",
        ),
        ("<script>s</script><style>t</style><svg><title>u</title></svg><template>v</template>w", "w"),
        ("<header>h</header><nav>n</nav><form>f</form><aside>a</aside>", "h\n\nn\n\nf\n\na"),
        ("<p hidden>h</p><!-- c --> <i></i>", None),
    ],
)
def test_html_becomes_markdown(html: str, expected: str | None) -> None:
    assert markdown(article(html)) == expected


@pytest.mark.parametrize(
    "selector", ["article", "xpath: //article", "xpath: string(//@data-html)", "xpath: //article/text()[1]"]
)
def test_an_element_or_a_text_that_is_html(selector: str) -> None:
    text = '<base href="/b/"><body data-html="<p>x</p>"><article>x<p></p></article>'
    assert markdown(text, selector=selector) == "x"


def test_the_base_of_the_document_and_the_attribute_count() -> None:
    text = '<base href="/b/"><article data-html="<a href=c>d</a>"><p><a href="c">d</a></p></article>'
    link = "[d](https://shop.example/b/c)"
    assert markdown(text) == link
    assert markdown(text, attribute="html") == link
    assert markdown(text, attribute="data-html") == link
    assert markdown(text, selector="p", all=True) == [link]


def test_the_text_of_feeds_and_json_is_html() -> None:
    feed = (
        "<rss><item><d>&lt;a href='/q'&gt;q&lt;/a&gt;</d></item><item><d><![CDATA[<b>x</b>]]></d></item>"
        "<item><d><div xmlns='http://www.w3.org/1999/xhtml'><b>y</b></div></d></item></rss>"
    )
    data_def = DataDef(name="d", block="item", fields=(Field(name="f", selector="d", type="markdown"),))
    rows = extract(data_def, feed, kind="xml").rows
    assert [row["f"] for row in rows] == ["[q](https://shop.example/q)", "**x**", "**y**"]
    assert markdown('{"a": "<h1>T</h1>"}', kind="json", selector="jmespath: a") == "# T"
    surrogate = markdown('{"a": "<p>\\ud800x</p>"}', kind="json", selector="jmespath: a")
    assert surrogate.endswith("x")


def test_edits_work_on_the_html_and_a_blank_result_is_missing() -> None:
    text = article("<p>a</p><aside>b</aside>")
    assert markdown(text, replace=(("<aside.*?</aside>", ""),)) == "a"
    assert markdown(text, match="<aside>(.*?)</aside>") == "b"
    assert markdown(article("<div><br></div>"), has_default=True, default="*none*") == "*none*"
    assert markdown(article("<div></div>")) is None


def test_nesting_beyond_the_limit_is_a_fault_of_the_page() -> None:
    deep = page("<body>" + "<b>a" * 2_000)
    (row,) = RecordExtractor(DATA_DEF).extract(deep, CONTEXT).rows
    assert row["text"].startswith("**aaa")
    assert list(deep.faults) == ["`text`: elements nested deeper than 512 levels may be missing in the Markdown"]


def test_it_is_never_converted_in_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is imported in extraction processes alone, and by defs that use it."""
    assert RecordExtractor(DATA_DEF).speed is Speed.SLOW
    code = (
        "import sys; from crawl_engine.extract.records import RecordExtractor\n"
        "from crawl_engine.model.definition import *\n"
        "RecordExtractor(DataDef(name='d', fields=(Field(name='t', type='markdown'),)))\n"
        "assert not {'html_to_markdown', 'lxml'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_its_texts_count_as_those_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_engine.extract.page.reading.MAX_CHARACTERS", 10_000)
    with pytest.raises(PageTooCostly):
        extract(DATA_DEF, "<body>" + "<a href=x>" * 400)


@pytest.mark.parametrize(
    ("html", "seconds", "problem"),
    [
        ("<blockquote>" * 400 + "a<br>" * 800_000, 5.0, "needs more than 400 MB"),
        ("<table>" + "<tr><td rowspan=65534 colspan=1000>x" * 100_000, 5.0, "needs more than 400 MB"),
        ("<p>a <b>b</b></p>" * 500_000, 0.5, "takes more than"),
    ],
    ids=["quotes", "spans", "long"],
)
def test_a_hostile_page_ends_its_process_and_no_other(html: str, seconds: float, problem: str) -> None:
    with ExtractionClient(Settings(parse_limit=seconds)) as client:
        for body, fails in ((html, True), ("<p>b</p>", False)):
            document = TrialDocument(
                body=f"<body>{body}".encode(), content_type="text/html", url="http://a/", fetched_at=0.0, origin="test"
            )
            if fails:
                with pytest.raises(PageUnavailable, match=problem):
                    client.extract(document, Definitions(data_defs=(DATA_DEF,)), DATA_DEF, CONTEXT)
            else:
                found = client.extract(document, Definitions(data_defs=(DATA_DEF,)), DATA_DEF, CONTEXT)
                assert found.rows == ((0, ('{"text":"b"}',)),)


def test_without_the_library_the_defs_have_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defs = tmp_path / "a.yml"
    defs.write_text(
        'locatorGroups: {g: {locators: [{url: "http://a/"}]}}\ntaskGroups: {g: {t: {dataDef: d}}}\n'
        "dataDefs:\n  d:\n    fields:\n      a: {selector: p, type: markdown}\n"
        "      b: {selector: u, fields: {c: {selector: i, type: markdown}}}\n"
    )
    load(defs)
    monkeypatch.setitem(sys.modules, "html_to_markdown", None)
    with pytest.raises(DefsError) as raised:
        load(defs)
    assert [(each.line, each.column, each.code) for each in raised.value.problems] == [
        (6, 30, "missing-library"), (7, 56, "missing-library"),
    ]  # fmt: skip
    assert raised.value.problems[0].message == (
        "`type: markdown` needs a library that is not installed; install it: pip install 'crawl-console[markdown]'"
    )
