"""Fields that read one value of JSON directly give what the general way gives."""

import json

from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from tests.unit.extract.pages import CONTEXT, page

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12), st.sampled_from(["", " ", " a  b\n", "1.50", "2024-01-31", "true", "7"]),
)  # fmt: skip
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=2))
TYPES: list[str] = ["str", "int", "float", "decimal", "bool", "date", "url", "price"]


def test_a_page_that_is_not_json_has_none() -> None:
    data_def = DataDef(name="d", fields=(Field(name="f", selector="jmespath: @"),))
    assert RecordExtractor(data_def).extract(page("<p>x"), CONTEXT).rows == ({"f": None},)


@given(VALUES, st.sampled_from(TYPES), st.booleans(), st.sampled_from(["v", "v.a", "v[0]", "w", "@.v"]))
def test_the_direct_way_and_the_general_way_agree(value: object, kind: str, required: bool, path: str) -> None:
    source = page(json.dumps({"v": value}), kind="json")
    field = {"name": "f", "selector": f"jmespath: {path}", "type": kind, "required": required}
    direct = DataDef(name="d", fields=(Field(**field),))
    general = DataDef(name="d", fields=(Field(**field, scope="page"),))
    one, two = (RecordExtractor(data_def).extract(source, CONTEXT) for data_def in (direct, general))
    assert one.rows == two.rows
    assert [r.reason for r in one.rejected] == [r.reason for r in two.rejected]
    assert one.counts == two.counts
