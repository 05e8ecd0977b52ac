"""Braces in URLs: expansion, limits, and errors."""

import tracemalloc
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.defs.url_patterns import MAX_URLS, count, expand
from crawl_engine.errors import UsageError


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("http://a/", ["http://a/"]),
        ("", [""]),
        ("/{1..3}", ["/1", "/2", "/3"]),
        ("/{08..11}", ["/08", "/09", "/10", "/11"]),
        ("/{01..2}", ["/01", "/02"]),
        ("/{3..1}", ["/3", "/2", "/1"]),
        ("/{-1..1}", ["/-1", "/0", "/1"]),
        ("/{0..80..20}", ["/0", "/20", "/40", "/60", "/80"]),
        ("/{0..79..20}", ["/0", "/20", "/40", "/60"]),
        ("/{80..0..40}", ["/80", "/40", "/0"]),
        ("/{00..5..5}", ["/00", "/05"]),
        ("/{7..7..3}", ["/7"]),
        ("/{1..3..20}", ["/1"]),
        ("/{1..9..1}", [f"/{n}" for n in range(1, 10)]),
        ("/{3..*}", ["/3"]),
        ("/{0..*..20}", ["/0"]),
        ("/{a,b}{1..2}", ["/a1", "/a2", "/b1", "/b2"]),
        ("/{a,}", ["/a", "/"]),
        (r"/\{1..2}", ["/{1..2}"]),
        (r"/\{a\}/{b\,c,d}", ["/{a}/b,c", "/{a}/d"]),
        ("/%{env.X}/{1..2}", ["/%{env.X}/1", "/%{env.X}/2"]),
        ("/%%{a,b}/{1,2}", ["/%%{a,b}/1", "/%%{a,b}/2"]),
        ("/a}b", ["/a}b"]),
        (r"C:\x", [r"C:\x"]),
    ],
)
def test_expansion(pattern: str, expected: list[str]) -> None:
    assert list(expand(pattern)) == expected
    assert count(pattern) == len(expected)


@pytest.mark.parametrize(
    "pattern",
    ["/{", "/{a", "/{a}", "/{}", "/{a,{b,c}}", "/{a..c}", "/{1..9..2..2}", "/{1....2}", "/{1..2..}", "/{*..9}",
     "/{1..9..1000000000}"],
)  # fmt: skip
def test_invalid_braces_are_rejected(pattern: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand(pattern)
    assert "\\{" in caught.value.remedy
    with pytest.raises(UsageError):
        count(pattern)


@pytest.mark.parametrize("pattern", ["/{0..80..0}", "/{0..80..-20}", "/{80..0..-20}", "/{0..*..0}", "/{1..2..-0}"])
def test_a_step_below_1_is_rejected(pattern: str) -> None:
    with pytest.raises(UsageError, match=r"the step of .* is not 1 or more") as caught:
        expand(pattern)
    assert "{80..0..20} to count down" in caught.value.remedy


def test_the_limit_and_laziness() -> None:
    assert sum(1 for _ in expand("/{1..100000}")) == MAX_URLS
    assert count("/{1..1000}{1..1000}") == 1_000_000
    for pattern in ("/{1..100001}", "/{1..1000}{1..1000}", "/{0..999999999999999999}" * 3):
        with pytest.raises(UsageError, match="at most"):
            expand(pattern)
    tracemalloc.start()
    assert list(islice(expand("/{1..100000}"), 2)) == ["/1", "/2"]
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()


plain = st.text(st.characters(exclude_characters="{}\\%,", exclude_categories=["Cs"]), max_size=6)
lists = st.lists(plain, min_size=2, max_size=4)
ranges = st.tuples(st.integers(-6, 6), st.integers(-6, 6))


@given(st.lists(st.one_of(plain, lists, ranges), max_size=4))
def test_parts_expand_to_their_product_in_order(parts: list[str | list[str] | tuple[int, int]]) -> None:
    pattern, expected = "", [""]
    for part in parts:
        if isinstance(part, str):
            pattern, choices = pattern + part, [part]
        elif isinstance(part, list):
            pattern, choices = pattern + "{" + ",".join(part) + "}", part
        else:
            first, last = part
            pattern += f"{{{first}..{last}}}"
            choices = [str(n) for n in (range(first, last + 1) if first <= last else range(first, last - 1, -1))]
        expected = [before + choice for before in expected for choice in choices]
    assert list(expand(pattern)) == expected
    assert count(pattern) == len(expected)


@given(st.integers(1, 6), st.integers(0, 99), st.integers(0, 99))
def test_padding_keeps_its_width(width: int, first: int, last: int) -> None:
    ends = [str(n).zfill(width) for n in (first, last)]
    expected = list(expand(f"{{{ends[0]}..{ends[1]}}}"))
    assert (expected[0], expected[-1]) == (ends[0], ends[1]) or not any(e[0] == "0" and len(e) > 1 for e in ends)
    assert [int(n) for n in expected] == [*range(first, last + 1)] or [*reversed(expected)] == [
        *expand(f"{{{ends[1]}..{ends[0]}}}")
    ]


@given(st.text(max_size=40))
def test_any_text_expands_or_is_a_usage_error(text: str) -> None:
    try:
        number = count(text)
        if number <= 1000:
            assert sum(1 for _ in expand(text)) == number
    except UsageError as error:
        assert error.exit_code == 2


@given(st.text(st.characters(exclude_characters="\\%", exclude_categories=["Cs"])))
def test_escaped_braces_are_literal(text: str) -> None:
    escaped = text.replace("{", "\\{").replace("}", "\\}")
    assert list(expand(escaped)) == [text]
