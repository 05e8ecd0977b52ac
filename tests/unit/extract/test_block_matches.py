"""One search of a page finds what a search of each of its blocks finds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.extract.page import Page
from engine.extract.records import RecordExtractor
from engine.extract.scope import Scope
from engine.extract.selectors import FlatCssSelector, compile_selector
from engine.model.definition import DataDef, Field
from tests.unit.extract.pages import CONTEXT, page

BLOCK = "div.row"
SELECTORS = (".a", "b.a", "#x", "[title]", "i[title].a", ".row", "div.a", ".none")
ATTRIBUTES = ("", ' class="a"', ' class="b a"', ' title="t"', ' id="x"', ' class="row"')
LISTS = st.lists(st.integers(0, 10**6), min_size=8, max_size=14)


@st.composite
def inner_markup(draw: st.DrawFn, depth: int = 3) -> str:
    """What a block holds, or what stands between blocks: at times a block, too."""
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        tag, attribute = draw(st.sampled_from("bidp")), draw(st.sampled_from(ATTRIBUTES))
        tag = "div" if tag == "d" else tag
        inner = draw(inner_markup(depth - 1)) if depth else ""
        parts.append(f"<{tag}{attribute}>{draw(st.integers(0, 99))}{inner}</{tag}>")
    return "".join(parts)


def matches(document: Page) -> object:
    """What selectors match in all blocks; None where each block is searched for itself."""
    selector = compile_selector(BLOCK)
    assert isinstance(selector, FlatCssSelector)
    return selector.match_blocks(document, selector.all(Scope(document)))


@settings(max_examples=60)
@given(st.lists(st.tuples(inner_markup(), inner_markup()), min_size=8, max_size=12))
def test_both_ways_find_the_same(blocks: list[tuple[str, str]]) -> None:
    text = "".join(f'<div class="row x" title="r">{inner}</div>{between}' for inner, between in blocks)
    fields = tuple(Field(name=f"f{at}", selector=selector) for at, selector in enumerate(SELECTORS))
    together, apart = (
        RecordExtractor(DataDef(name="d", block=block, fields=fields)).extract(page(text), CONTEXT)
        for block in (BLOCK, f"{BLOCK}, .nothing")
    )
    assert together == apart


def rows(count: int, inner: str = "<b class=a>1</b>") -> str:
    return f"<div class=row>{inner}</div>" * count


def test_a_list_of_records_is_searched_at_once() -> None:
    assert matches(page(rows(8))) is not None


@pytest.mark.parametrize(
    "text",
    [
        rows(7),
        rows(2_001),
        rows(8, rows(1)),
        rows(8) + "<p>x</p>" * 400,
    ],
    ids=["few", "too many", "one inside another", "a long page"],
)
def test_other_blocks_are_searched_for_themselves(text: str) -> None:
    assert matches(page(text)) is None


def test_a_selector_of_a_mere_tag_is_searched_for_in_each_block() -> None:
    """All matches of `b` would take longer than its first one."""
    document = page(rows(8, "<b class=a>1</b>" * 9))
    selector = compile_selector(BLOCK)
    assert isinstance(selector, FlatCssSelector)
    blocks = selector.all(Scope(document))
    found = selector.match_blocks(document, blocks)
    assert found is not None
    for text, at_once in (("b", False), (".a", True), (".a:first-child", False), (".a, .b", False)):
        scope = Scope(document, blocks[3], found)
        assert compile_selector(text).first(scope) is not None
        assert (text in found._firsts) is at_once
