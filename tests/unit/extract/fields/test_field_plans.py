"""The compiled steps of a field give what the order of its keys says; the text of an element is that of its parts."""

import re
from decimal import Decimal
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawl_engine.extract.fields.convert import reader_of
from crawl_engine.extract.fields.field_texts import FieldTexts, no_converters
from crawl_engine.extract.page.patterns import MAX_REPLACED_CHARACTERS, Replacement, TimeBudget
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.node_value import read_text
from crawl_engine.model.definition import Field
from tests.unit.extract.pages import CONTEXT, page

TEXTS = st.text(alphabet="ab£,.-^&| \n\u00a0019~]x", max_size=12)
PATTERNS = ("[£,]", "[ab]", "a", " b", "[a.]", ",", "[^a]", "[a-b]", "[\\d]", "a|b", "x?", "[ab&&b]", "[a~]", "b+", ".")
TEMPLATES = ("", "-", "a", "xy", ", ", r"<\g<0>>")


def expected(field: Field, text: str) -> str:
    """The text after `whitespace`, `replace` and `match`, as the documents say; what is empty stays empty."""
    if field.whitespace is None:
        text = text.strip() if field.type == "json" or field.attribute == "html" else " ".join(text.split())
    for pattern, template in field.replace:
        text = re.sub(pattern, template, text) if text else ""
    if field.match is not None and text:
        found = re.search(field.match, text)
        text = found.group(0) if found else ""
    return text if field.whitespace == "keep" and field.type == "str" and text.strip() else text.strip()


@given(
    TEXTS,
    st.lists(st.tuples(st.sampled_from(PATTERNS[:11]), st.sampled_from(TEMPLATES)), max_size=2),
    st.sampled_from([None, "[0-9]+", "[^,]*$"]),
    st.sampled_from([None, "keep"]),
    st.sampled_from(["str", "int", "json"]),
    st.sampled_from(["text", "html"]),
)
def test_steps_are_those_of_the_keys(
    text: str,
    pairs: list[tuple[str, str]],
    match: str | None,
    whitespace: Literal["keep"] | None,
    kind: str,
    attribute: str,
) -> None:
    field = Field(name="f", replace=tuple(pairs), match=match, whitespace=whitespace, type=kind, attribute=attribute)
    assert FieldTexts(field, no_converters).edit(text, PageReading(page(""), CONTEXT)) == expected(field, text)


@given(st.sampled_from(PATTERNS), st.sampled_from(TEMPLATES), TEXTS)
def test_plain_characters_are_replaced_as_a_pattern_does(pattern: str, template: str, text: str) -> None:
    budget = TimeBudget()
    searched = Replacement(f"(?:{pattern})", template)  # a group is always searched for
    assert Replacement(pattern, template).apply(text, budget) == searched.apply(text, budget)


@pytest.mark.parametrize("pattern", ["a", "[ab]", "(?:a)"])
def test_a_replacement_that_grows_too_long_is_refused(pattern: str) -> None:
    replacement = Replacement(pattern, "x" * (MAX_REPLACED_CHARACTERS // 10))
    assert len(replacement.apply("a" * 9, TimeBudget())) == 9 * (MAX_REPLACED_CHARACTERS // 10)
    with pytest.raises(ValueError, match="writes over 10,000,000 characters"):
        replacement.apply("a" * 11, TimeBudget())


@pytest.mark.parametrize(("digits", "fits"), [(1_000, True), (1_001, False)])
def test_a_decimal_has_so_many_digits_at_most(digits: int, fits: bool) -> None:
    convert = reader_of("decimal").converter(Field(name="f", type="decimal"))
    for text in ("1" * digits, "." + "1" * (digits - 1), f"1e{digits}", f"1E-{digits}"):
        if fits:
            assert convert(text, "") == Decimal(text)
        else:
            with pytest.raises(ValueError, match="has more than 1000 digits"):
                convert(text, "")


def visible_text(node: LexborNode) -> str:
    """The same by recursion."""
    if node.is_text_node:
        return node.text_content or ""
    if node.tag in ("script", "style"):
        return ""
    space = " " if node.tag in ("p", "td", "div", "br", "ul", "li") else ""
    return space + "".join(map(visible_text, node.iter(include_text=True))) + space


@st.composite
def markup(draw: st.DrawFn, depth: int = 3) -> str:
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        tag = draw(
            st.sampled_from(["", "p", "td", "div", "br", "ul", "li", "b", "i", "script", "style", "template", "!"])
        )
        inner = draw(markup(depth - 1)) if depth and draw(st.booleans()) else draw(st.sampled_from(["", "x", " y\n"]))
        parts.append(inner if not tag else "<!-- c -->" if tag == "!" else f"<{tag}>{inner}</{tag}>")
    return "".join(parts)


@given(markup())
def test_the_text_of_an_element_is_that_of_its_parts(text: str) -> None:
    for node in LexborHTMLParser(f"<body>{text}").css("*"):
        if node.tag not in ("script", "style"):
            assert (read_text(node) or "").split() == visible_text(node).split()
