"""YAML 1.2 scalars, and the places of nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode, plain_data
from crawl_engine.defs.yaml.tree import parse


def tree(text: str) -> YamlNode:
    problems = Problems()
    root = parse(text, "a.yml", problems)
    assert problems.in_file_order(()) == []
    assert root is not None
    return root


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("0", 0),
        ("-12", -12),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-1.5e-3", -0.0015),
        ("yes", "yes"),
        ("NO", "NO"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("tRue", "tRue"),
        ("12:30", "12:30"),
        ("1:20:30", "1:20:30"),
        ("010", "010"),
        ("0o7", "0o7"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("2024-01-02", "2024-01-02"),
        ("2024-01-02 10:00:00", "2024-01-02 10:00:00"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1.2.3", "1.2.3"),
        ("010.5", "010.5"),
        ("1e999", "1e999"),
        ("9780262033848123456789", "9780262033848123456789"),
        ("=", "="),
        ("'true'", "true"),
        ('"12"', "12"),
        ("!!str 12", "12"),
        ("|\n  12\n", "12\n"),
    ],
)
def test_plain_scalars(written: str, value: object) -> None:
    node = tree(f"a: {written}").entries["a"].node
    result = plain_data(node.value())
    assert (result, type(result)) == (value, type(value))


def test_numbers_keep_their_source_text() -> None:
    values = tree("[1.50, +7, 1e3]").value()
    assert [v.written for v in values] == ["1.50", "+7", "1e3"]
    assert values == [1.5, 7, 1000.0]


def test_places_are_of_keys_and_values() -> None:
    root = tree("a: 1\nb:\n  - {c: [x, 'y']}\n")
    assert (root.key_place("b").line, root.key_place("b").column) == (2, 1)
    inner = root.list_of("b")[0]
    assert (inner.key_place("c").line, inner.key_place("c").column) == (3, 6)
    assert str(inner.list_of("c")[1].place) == "a.yml:3:13"


scalars = st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text(max_size=8)
data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def flow(value: Any) -> str:
    """YAML in flow style, texts quoted."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        return quoted(value)
    return {None: "~", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)


def quoted(text: str) -> str:
    return '"' + "".join(c if c.isascii() and c.isalnum() else f"\\U{ord(c):08X}" for c in text) + '"'


@given(st.dictionaries(st.text(max_size=5), data, max_size=4))
def test_data_round_trips(value: dict[str, Any]) -> None:
    assert plain_data(tree(flow(value)).value()) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, z: 3}", {"x": 1, "y": 2, "z": 3}),
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}", {"x": 3, "y": 2}),
        ("a: &a {x: 1, y: 2}\nb: {z: 0, x: 3, <<: *a}", {"z": 0, "x": 3, "y": 2}),
        ("a: &a {x: 1}\nc: &c {x: 2, y: 2}\nb: {<<: [*a, *c], z: 3}", {"x": 1, "y": 2, "z": 3}),
        ("a: &a {x: 1, y: 1}\nc: &c {<<: *a, y: 2}\nb: {<<: *c}", {"x": 1, "y": 2}),
        ("a: &a {x: {k: 1}}\nb: {<<: *a, x: {l: 2}}", {"x": {"l": 2}}),
        ("a: &a {x: 1}\nb: {<<: *a, x: ~}", {"x": None}),
        ("b: {<<: {x: 1}, <<x: 2, '<<': 3}", {"x": 1, "<<x": 2, "<<": 3}),
        ("a: 1\nb: {<<: [], x: 1}", {"x": 1}),
    ],
)
def test_merge_keys_add_what_a_mapping_does_not_write(text: str, value: dict[str, Any]) -> None:
    merged = tree(text).entries["b"].node
    assert plain_data(merged.value()) == value
    assert list(merged.value()) == list(value), "in the order in which they are written"


def test_a_merged_key_is_where_it_is_written() -> None:
    merged = tree("a: &a\n  x: 1\n  y: 2\nb:\n  <<: *a\n  y: 3\n").entries["b"].node
    places = {key: (entry.place.line, entry.place.column) for key, entry in merged.entries.items()}
    assert places == {"x": (2, 3), "y": (6, 3)}
