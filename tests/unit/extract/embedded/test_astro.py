"""What pages of Astro give their islands."""

from html import escape

from crawl_engine.extract.documents.json_value import MISSING
from crawl_engine.extract.embedded.astro import read_page_data
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import TextSource
from tests.unit.extract.pages import CONTEXT, page

PROPS = (
    '{"teas":[1,[[0,{"id":[0,1],"name":[0,"Sencha"],"at":[3,"2026-01-31T12:00:00.000Z"]}],[0,{"id":[0,2],"none":[0]}]]],'
    '"big":[6,"12345678901234567890"],"map":[4,[[1,[[0,"a"],[0,1]]]]],"set":[5,[[0,"x"]]],"url":[7,"https://a.example/"],'
    '"pattern":[2,"a+"],"bytes":[8,[1,2]]}'
)


def test_each_value_without_its_type() -> None:
    (data,), fault = read_page_data([PROPS])
    assert fault == ""
    assert data == {
        "teas": [{"id": 1, "name": "Sencha", "at": "2026-01-31T12:00:00.000Z"}, {"id": 2, "none": None}],
        "big": "12345678901234567890", "map": {"a": 1}, "set": ["x"], "url": "https://a.example/", "pattern": None,
        "bytes": [1, 2],
    }  # fmt: skip


def test_islands_of_a_page_give_records() -> None:
    island = f'<astro-island props="{escape(PROPS)}"><p>x</p></astro-island><astro-island props="{{}}"></astro-island>'
    fields = (Field(name="id", selector="jmespath: id", type="int"),)
    data_def = DataDef(name="d", sources=(TextSource(format="astro"),), block="jmespath: [].teas[]", fields=fields)
    assert RecordExtractor(data_def).extract(page(island), CONTEXT).rows == ({"id": 1}, {"id": 2})


def test_none_and_broken_ones() -> None:
    assert read_page_data([]) == (MISSING, "")
    assert read_page_data(["x"]) == (MISSING, "has properties that are no JSON object")
    assert read_page_data(["[" * 100_000])[0] is MISSING
