"""What is said of JSON that selectors cannot read, and how often."""

import pytest

from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef
from crawl_engine.node.def_cache import CompiledDataDef
from crawl_engine.node.extraction.extractor import SelectorWarnings

EMBEDDED = "`jsonld:` and `jmespath(CSS):` read the JSON in HTML, and this page is"
EXTRACTOR = RecordExtractor(DataDef(name="d"))


def compiled(number: int = 1, *, json: str = "", embedded: str = "") -> CompiledDataDef:
    return CompiledDataDef(
        data_def="d", task="", id=number, extractor=EXTRACTOR, json_selector=json, embedded_selector=embedded
    )


@pytest.mark.parametrize(
    ("data_def", "kind", "warning"),
    [
        (compiled(), "html", None),
        (compiled(json="a"), "json", None),
        (compiled(json="a"), "ndjson", None),
        (compiled(json="a"), "csv", None),
        (compiled(json="a"), "html", "d.a: `jmespath:` reads JSON, and this page is HTML"),
        (compiled(embedded="b"), "html", None),
        (compiled(embedded="b"), "xml", f"d.b: {EMBEDDED} XML"),
        (compiled(json="a", embedded="b"), "csv", f"d.b: {EMBEDDED} CSV"),
    ],
)
def test_selectors_for_another_kind_of_page(data_def: CompiledDataDef, kind: str, warning: str | None) -> None:
    warnings = SelectorWarnings()
    assert warnings.warn([data_def], kind) == (() if warning is None else (warning,))
    assert warnings.warn([data_def], kind) == ()


def test_each_fault_is_said_once() -> None:
    warnings = SelectorWarnings()
    assert warnings.warn([compiled(json="a")], "json", ("x", "y")) == ("x", "y")
    assert warnings.warn([], "html", ("y", "z")) == ("z",)
    assert len(warnings.warn([compiled(1, json="a"), compiled(2, json="a")], "html")) == 2
