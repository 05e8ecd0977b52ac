"""Which selectors and patterns can be used, and what is said of the others."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.select.selector_syntax import pattern_problem, selector_problem


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "article.product_pod > h3 a[href^='/x']",
        "li:nth-child(2n+1), #id",
        " :has(> img) ",
        "xpath: //a[contains(., 'x')]/@href",
        "xpath:normalize-space(.)",
        "xpath: //a[@x = '[no()]'][position() = 2][last()]/b[../c[2]][count(.//d | e) > 1]",
        "jmespath: items[?price > `1`].name",
        "jsonld: Product",
        " jsonld:3DModel.offers[?price > `1`].name ",
        "jmespath(script#__NEXT_DATA__): props.items[]",
        "jmespath(script[data-x=')'] , p:not(.a)):@",
    ],
)
def test_good_selectors(text: str) -> None:
    assert selector_problem(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a[", "not a CSS selector: a["),
        (":is(h1", "not a CSS selector: :is(h1: `(` is not closed"),
        ("a[href='x", "a string is not closed"),
        ("a /* the link */", "comments in selectors are not supported"),
        ("h1::text", "attribute: ownText"),
        ("a::attr(href)", "attribute: href"),
        ("a::attr( data-x )", "attribute: data-x"),
        ("p::before", "pseudo-element"),
        ("p:contains(x)", "xpath:"),
        ("p:matchesOwn(x)", "match"),
        ("tr:eq(1)", "nth-child"),
        ("> li", "begin"),
        ("//div/a", "xpath:"),
        ("a\0b", "NUL"),
        ("a" * 5_000, "longer"),
        ("xpath:", "nothing follows"),
        ("xpath: //a[", "XPath"),
        ("xpath: nonsense(.)", "XPath"),
        ("xpath: x:y", "XPath"),
        ("xpath: $v", "XPath"),
        ("xpath: //h1[nonsense()]", "unregistered function"),
        ("xpath: //a[b[not(nonsense('[')) and position() = 1]]", "unregistered function"),
        ("xpath: //a[contains(.)]", "number of arguments"),
        ("xpath: //a[@href = $v]", "undefined variable"),
        ("xpath: //a[]", "XPath"),
        ("jmespath:", "nothing follows"),
        ("jmespath: a[?", "JMESPath"),
        ("jmespath: a b", "JMESPath"),
        ("jmespath: lenght(a)", "no function `lenght` (did you mean 'length'?)"),
        ("jmespath: a[?x == b.nope(@)]", "no function `nope`"),
        ("jmespath script: a", "jmespath(CSS)"),
        ("jsonld:", "but nothing follows"),
        ("jsonld: .price", "a type and then JMESPath"),
        ("jsonld: Product offers", "a type and then JMESPath"),
        ("jsonld: Product[0].name", "a type and then JMESPath"),
        ("jsonld: Product | name", "a type and then JMESPath"),
        ("jsonld: Product.", "a type and then JMESPath"),
        ("jsonld: Product.a[", "JMESPath expression"),
        ("jsonld: Product.nope(@)", "no function"),
        ("json-ld: Product", "jsonld: TYPE.path"),
        ("jmespath(script: a", "no closing parenthesis"),
        ("jmespath(a[x=')']: a", "no closing parenthesis"),
        ("jmespath(script) a", "needs a colon"),
        ("jmespath(script)", "needs a colon"),
        ("jmespath(): a", "are empty"),
        ("jmespath(script):", "nothing follows"),
        ("jmespath(a[): b", "not a CSS selector"),
        ("jmespath(xpath: //script): b", "take a CSS selector"),
        ("jmespath(script): b[", "JMESPath expression"),
    ],
)
def test_invalid_selectors(text: str, message: str) -> None:
    problem = selector_problem(text)
    assert problem is not None
    assert message in problem


def test_patterns() -> None:
    for good in ("", "[0-9.]+", r"(?<name>\p{L}+)", "(a+)+$"):
        assert pattern_problem(good) is None
    for bad in ("(", "[", "*", "a{2,1}", "(?P<x>a)(?P<", "\\", "(" * 3_000, "a" * 5_000):
        assert pattern_problem(bad)


@given(st.sampled_from(["", "xpath:", "jmespath:", "jsonld:", "jmespath(a):", "jmespath("]), st.text(max_size=30))
def test_any_text_is_checked(prefix: str, text: str) -> None:
    for problem in (selector_problem(prefix + text), pattern_problem(text)):
        assert problem is None or problem.strip()


def test_each_parser_is_imported_only_when_needed() -> None:
    code = (
        "import sys; from crawl_engine.extract.select.selector_syntax import selector_problem as s; seen = lambda: "
        "[m for m in ('selectolax', 'lxml', 'jmespath') if m in sys.modules]\n"
        "print(seen()); s('a'); print(seen()); s('jmespath: a'); print(seen()); s('xpath: a'); print(seen())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:4] == [
        "[]",
        "['selectolax']",
        "['selectolax', 'jmespath']",
        "['selectolax', 'lxml', 'jmespath']",
    ]


@pytest.mark.parametrize(
    ("selector", "place"),
    [
        ("article..product[", "it breaks at character 9, `.product[`"),
        ("div:nth-child(", "it breaks off at its end"),
        ("li > > a", "it breaks at character 6, `> a`"),
        ("xpath: //a]/b", "it breaks at character 4, `]/b`"),
        ("xpath: //a[@b=", "it breaks off at its end"),
        ("jmespath: a..b", "it breaks at character 3, `.b`"),
        ("jmespath: a.b[", "it breaks off at its end"),
    ],
)
def test_a_selector_that_breaks_is_cut_where_it_does(selector: str, place: str) -> None:
    problem = selector_problem(selector)
    assert problem is not None
    assert problem.endswith(f"; {place}")
