"""The YAML that is written is read back as it was, and is written as a person would."""

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from engine.defs.conversion.yaml_parts import tree
from engine.defs.problems import Problems
from engine.defs.yaml_node import YamlNode
from engine.defs.yaml_tree import parse
from engine.defs.yaml_writer import write

WRITTEN = [
    "010",
    "1e5",
    "yes",
    "12:30",
    "null",
    "~",
    "",
    "- a",
    "a: b",
    "x #y",
    "=",
    "0x1f",
    "1_0",
    "'\\\"",
    " a",
    "a\n",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(WRITTEN)
PARTS: Any = st.recursive(
    TEXTS | st.booleans(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(TEXTS, part, max_size=3),
    max_leaves=8,
)


def read(text: str) -> YamlNode:
    problems = Problems()
    root = parse(text, "a.yml", problems)
    assert not problems.has_errors, text
    assert root is not None
    return root


@given(st.dictionaries(TEXTS.filter(bool), PARTS, min_size=1, max_size=3))
def test_every_part_is_read_back(parts: dict[str, Any]) -> None:
    text = write(tree({"steps": parts}), ["steps"], ["A head: with signs #"], {})
    assert read(text).value() == {"steps": parts}
    assert yaml.safe_load(text) == {"steps": parts}  # what other programs read


def test_numbers_and_nothing_are_written_as_they_were() -> None:
    root = read("a: {b: 0.50, c: 010, d: , e: 1e5, f: 'x', g: true, h: \"1\"}")
    assert write(root, ["a"], [], {}) == "a:\n  b:\n    0.50\n".replace("\n    ", " ") + (
        '\n  c: "010"\n\n  d: null\n\n  e: 1e5\n\n  f: x\n\n  g: true\n\n  h: "1"\n'
    )


def test_texts_are_quoted_where_they_need_it() -> None:
    parts = {"d": {"a": "h3 > a", "b": "#x", "c": r"\d: ", "d": "it's: so", "e": "%{x}", "f": ["a", {"b": "c"}]}}
    assert (
        write(tree({"dataDefs": parts}), ["dataDefs"], [], {})
        == """\
dataDefs:
  d:
    a: h3 > a
    b: "#x"
    c: '\\d: '
    d: "it's: so"
    e: "%{x}"
    f:
      - a
      - b: c
"""
    )


def test_comments_are_one_or_more_whole_lines() -> None:
    text = write(tree({"a": {"b": "c"}}), ["a"], ["head"], {("a", "b"): ["one\n  two: \x07three", "word " * 40]})
    assert read(text).value() == {"a": {"b": "c"}}
    lines = text.splitlines()
    assert lines[:4] == ["# head", "", "a:", "  # one two: three"]
    assert all(len(line) <= 120 for line in lines)
    assert lines[5].startswith("  #   word")
