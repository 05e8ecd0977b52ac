"""What a dataDef gives on a page outside of a run: the same if it takes longer than its caller can wait."""

import pytest
from msgspec.structs import replace

from crawl_engine.extract.page.context import Context
from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.model.link import Carried, Link
from crawl_engine.node.extraction import inline
from crawl_engine.preview.extraction_client import ExtractionClient, TrialDocument
from crawl_engine.preview.page_trial import PageTrial
from crawl_engine.settings import Settings

PAGE = TrialDocument(
    body=b"<h1>a</h1><a href=/x>x</a>", content_type="text/html", url="http://h/", fetched_at=0.0, origin="file"
)
DATA_DEF = DataDef(name="d", fields=(Field(name="h", selector="h1"),), links=(Link(selector="a"),))
CONTEXT = Context(group="g", locator="l", locator_url="http://h/", depth=0, run="r", run_time="")


@pytest.mark.parametrize(("patience", "processes"), [(10.0, 0), (-1.0, 1)])
def test_a_page_that_takes_long_is_extracted_within_the_limits_of_a_process(
    monkeypatch: pytest.MonkeyPatch, patience: float, processes: int
) -> None:
    monkeypatch.setattr(inline, "INLINE_SECONDS", patience)
    with ExtractionClient(Settings()) as client:
        page = client.extract(PAGE, Definitions(data_defs=(DATA_DEF,)), DATA_DEF, CONTEXT)
        assert len(client._pool.pids if client._pool else []) == processes
    assert (page.page_kind, page.rows) == ("html", ((0, ('{"h":"a"}',)),))
    assert [link.url for link in page.links] == ["http://h/x"]


@pytest.mark.parametrize(
    ("field", "warning"),
    [
        (Field(name="f", column="Name", selector="a"), None),
        (Field(name="f", column="Nam"), "d.f: no column `Nam`; the columns of the table are `Name`, `2023 / H1`"),
        (Field(name="f", column="Name", selector="b"), "d.f: selector `b` matches nothing in 1 block"),
    ],
)
def test_a_trial_names_the_columns_of_a_table(field: Field, warning: str | None) -> None:
    markup = "<table><tr><th rowspan=2>Name<th>2023<tr><th>H1<tr><td><a href=/>x</a><td>1</table>"
    tried = DataDef(name="d", block="table: table", fields=(field,))
    with ExtractionClient(Settings()) as client:
        trial = PageTrial(Definitions(data_defs=(tried,)), tried, client, explains_links=True)
        shown = trial.run(replace(PAGE, body=markup.encode(), content_type="text/html"), CONTEXT)
    assert shown.warnings == (() if warning is None else (warning,))


def test_what_a_stored_page_carries_reaches_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "INLINE_SECONDS", -1.0)
    data_def = DataDef(name="d", fields=(Field(name="c", value="%{carried.x}"),))
    origin = replace(CONTEXT, carried=Carried.from_json('[{"x":"1"},""]').values)
    with ExtractionClient(Settings()) as client:
        result = PageTrial(Definitions(data_defs=(data_def,)), data_def, client).run(PAGE, origin)
    assert result.rows == ('{"c":"1"}',)


@pytest.mark.parametrize(
    ("body", "data_def", "warning"),
    [
        ("<li>a", {"block": "article.pod"}, "d: block `article.pod` matches nothing on this page"),
        ("<li>a", {"block": "xpath: //ul"}, "d: block `xpath: //ul` matches nothing on this page"),
        ("<li>a<li>b", {"block": "li"}, "d.price: selector `.price` matches nothing in 2 blocks"),
        ("<p>a", {}, "d.price: selector `.price` matches nothing in this page"),
        ("<li>a<i class=price>", {"block": "li"}, "d.tags: selector `u` matches nothing in 1 block"),
        ("<li>a<i class=price>1</i><u>b</u>", {"block": "li"}, None),
        ('{"items": []}', {"block": "jmespath: item"}, "d: block `jmespath: item` matches nothing on this page"),
    ],
)
def test_a_trial_names_the_first_selector_that_matches_nothing(
    body: str, data_def: dict[str, str], warning: str | None
) -> None:
    fields = (
        Field(name="url", value="%{document.url}"),
        Field(name="price", selector=".price", default="0", has_default=True),
        Field(name="tags", selector="u", all=True),
    )
    tried = DataDef(name="d", fields=fields, **data_def)
    definitions = Definitions(data_defs=(tried,))
    kind = "application/json" if body.startswith("{") else "text/html"
    document = replace(PAGE, body=body.encode(), content_type=kind)
    with ExtractionClient(Settings()) as client:
        shown = PageTrial(definitions, tried, client, explains_links=True).run(document, CONTEXT)
        assert shown.warnings == (() if warning is None else (warning,))
        assert PageTrial(definitions, tried, client).run(document, CONTEXT).warnings == ()
