"""Values formatted as text."""

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_engine.model.record import to_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("", ""),
        (" a ", " a "),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-7, "-7"),
        (1.5, "1.5"),
        (0.1, "0.1"),
        (Decimal("19.90"), "19.90"),
        (Decimal("1E+3"), "1000"),
        (Decimal("1E-3"), "0.001"),
        ([], ""),
        (["a", "b"], "a|b"),
        ([1, True, None, Decimal("2.50")], "1|true||2.50"),
        ({}, "{}"),
        ({"a": Decimal("1.10"), "b": [None, "ü", False]}, '{"a":1.10,"b":[null,"ü",false]}'),
        ([{"a": 1}, {"a": "x\n"}], '[{"a":1},{"a":"x\\n"}]'),
        ([["a"], "b"], '[["a"],"b"]'),
    ],
)
def test_text_of_a_value(value: object, text: str) -> None:
    assert to_text(value) == text


def test_lists_take_their_own_join() -> None:
    assert to_text(["a", "b"], "; ") == "a; b"


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
nested = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@settings(max_examples=30)
@given(st.dictionaries(st.text(), nested))
def test_objects_are_compact_json(value: dict[str, object]) -> None:
    assert json.loads(to_text(value)) == value
    assert to_text(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
