"""Paths that are read directly give what the library of JMESPath gives."""

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.documents.json_expression import JsonExpression

NAMES = st.sampled_from(["a", "b", "c_1", '"x y"', '"é.ü"'])
STEPS = st.one_of(NAMES.map(lambda name: f".{name}"), st.sampled_from(["[]", "[0]", "[1]", "[-1]"]))
PATHS = st.builds(
    lambda name, steps: name + "".join(steps), st.one_of(NAMES, st.just("@")), st.lists(STEPS, max_size=5)
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["a", "b", "c_1", "x y", "é.ü"]), inner, max_size=4),
    ),
    max_leaves=30,
)


@given(PATHS, VALUES)
def test_a_path_selects_what_the_library_selects(path: str, value: object) -> None:
    assert JsonExpression(path).search(value) == jmespath.search(path, value)


@pytest.mark.parametrize("text", ["a.b[?c]", "a[*].b", "length(a)", "a || b", "a[0:2]", "{a: b}", "`1`", "a-b", "a.*"])
def test_other_expressions_are_left_to_the_library(text: str) -> None:
    value = {"a": {"b": [{"c": 1}, {"c": 0}], "x": 1}, "b": 2}
    try:
        expected = jmespath.search(text, value)
    except (ValueError, jmespath.exceptions.JMESPathError):
        expected = None
    try:
        assert JsonExpression(text).search(value) == expected
    except ValueError:
        assert expected is None
