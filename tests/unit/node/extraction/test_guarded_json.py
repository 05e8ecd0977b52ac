"""JSON bodies behind a guard are read as JSON, with a warning; scripts are not."""

import pytest

from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.node.extraction.page_extraction import apply_data_defs, parse_page
from tests.unit.extract.pages import CONTEXT, URL

JSON = '{"items":[{"name":"json"}]}'
ITEM = DataDef(name="item", block="jmespath: items", fields=(Field(name="name", selector="jmespath: name"),))


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        (f"/**/jQuery1123_456({JSON});", "application/javascript"),
        (f"callback && callback({JSON})", "text/javascript"),
        (f"/**/ typeof cb === 'function' && cb({JSON});", "text/javascript; charset=utf-8"),
        (f'/**/typeof(a.b)=="function"&&a.b({JSON})', "application/json"),
        (f"/**/rails_1({JSON})", "text/javascript"),
        (f"// API callback\nhandle({JSON});", "text/javascript"),
        (f"/*O_o*/\n/* a */ google.visualization.Query.setResponse({JSON});", "text/plain"),
        (f"throw 1; <dont be evil> {JSON}", "application/json"),
        (f"{{}} && {JSON}", "application/json"),
        (f"{{}}&&{JSON}", "text/html"),
        (f")]}}',\n{JSON}", "application/json"),
        (f")]}}'{JSON}", "text/plain"),
        (f"while(1);{JSON}", "application/json"),
        (f"for (;;); {JSON}", "text/html"),
        (f"/* {JSON} */", "application/json"),
        (f"/* note */ {JSON}", "application/json"),
        (f"\ufeff a.b[0]({JSON}) ;\n", "text/html"),
    ],
)
def test_a_guard_is_read_over_and_said(body: str, type_: str) -> None:
    page = parse_page(body.encode(), type_, url=URL, status=200, fetched_at=0.0)
    result = apply_data_defs(page, CONTEXT, [(RecordExtractor(ITEM), True)], 100)
    assert result.rows == ((0, ('{"name":"json"}',)),)
    (warning,) = result.warnings
    assert warning.code == "json-type"
    assert "stands in front; they are read as JSON" in warning.text


@pytest.mark.parametrize(
    "body",
    [f"typeof f === 'string' && f({JSON})", f"typeof f === 'function' || f({JSON})", f"// a {JSON}", f"{{}}&&f({JSON})",
     f"f({JSON}); g()", f"var a = {JSON}", f"if({JSON})", f"f({JSON}", f"for(;;);{JSON})", "f({a: 1})", "<p>f({})"],
)  # fmt: skip
def test_a_script_is_no_json(body: str) -> None:
    assert parse_page(body.encode(), "text/html", url=URL, status=200, fetched_at=0.0).kind == "html"
