"""The filter grammar: what each term means, and what is said of a mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.filter_syntax import TextSearch, job_filter, parse, parse_events
from engine.errors import UsageError
from engine.store.db.filter import Comparison, GlobFilter, JobFilter


def test_every_kind_of_term() -> None:
    told = parse('host:Shop.example state:failed,skipped group:Books !host:a:81 age>5m attempts>2 time !"no answer"')
    assert told.hosts == GlobFilter(("shop.example",), ("a:81",))
    assert told.states == GlobFilter(("failed", "skipped"))
    assert told.groups == GlobFilter(("Books",))
    assert told.comparisons == (Comparison("age", ">", 300), Comparison("attempts", ">", 2))
    assert told.searches == (TextSearch("time"), TextSearch("no answer", negated=True))
    assert told.kinds == GlobFilter(("page",))
    assert not told.countable
    assert parse("host:a state:done kind:robots").countable
    assert parse("  ") == JobFilter()
    assert parse("crashes:2").comparisons == (Comparison("crashes", "=", 2),)
    assert parse("!depth>=3").comparisons == (Comparison("depth", "<", 3),)


def test_events() -> None:
    told = parse_events("level:error source:n1,n2 !kind:stage age<1h boom")
    assert (told.levels, told.sources) == (GlobFilter(("ERROR",)), GlobFilter(("n1", "n2")))
    assert told.kinds == GlobFilter((), ("stage",))
    assert told.ages == (Comparison("age", "<", 3600),)
    assert told.accepts("BOOM")
    with pytest.raises(UsageError, match="unknown key 'host'"):
        parse_events("host:x")


@pytest.mark.parametrize(
    ("text", "texts", "wanted"),
    [
        ("shop", ("http://SHOP.example/", ""), True),
        ("!shop", ("http://shop.example/", "x"), False),
        ("!shop", ("http://a/", ""), True),
        ("HTTP.50[0-9]", ("http://a/", "HTTP 503"), True),
        ("https://a/", ("https://a/x",), True),
        ("localhost:8080", ("http://localhost:8080/",), True),
        ('"two words"', ("http://a/", "in two words"), True),
        ('"host:x"', ("about host:x",), True),
        (r'"say \"no\""', ('say "no"',), True),
        ("page=2", ("http://a/?page=2",), True),
        ("a b", ("http://a/b",), True),
        ("a !b", ("http://a/b",), False),
        ("(?-i:A)", ("http://a/",), False),
    ],
    ids=str,
)
def test_words_are_searched(text: str, texts: tuple[str, ...], wanted: bool) -> None:
    assert parse(text).accepts(*texts) is wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hots:x", r"unknown key 'hots' \(did you mean 'host'\?\)"),
        ("state:faild", r"unknown state 'faild' \(did you mean 'failed'\?\)"),
        ("kind:x", "unknown kind 'x'"),
        ("size>3", "unknown key 'size'"),
        ("attempts>many", "'many' cannot be compared with attempts"),
        ("attempts>5m", "cannot be compared"),
        ("age>5y", "'5y' cannot be compared with age"),
        ("age:5m", "Compare, as in age>2|cannot be told"),
        ("host:", "nothing behind 'host:'"),
        ("!", "nothing to search for"),
        ('""', "nothing to search for"),
        ('"open', "a quote is not closed"),
        ("(", "no regular expression"),
    ],
    ids=str,
)
def test_a_mistake_is_told(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        parse(text)
    assert caught.value.remedy


def test_what_is_known_is_told() -> None:
    with pytest.raises(UsageError) as caught:
        parse("colour:red")
    assert "host:" in caught.value.remedy
    assert "age>" in caught.value.remedy


def test_a_pattern_of_its_own_is_not_parsed() -> None:
    told = job_filter("a host:b", ["failed"])
    assert told.searches == (TextSearch("a host:b"),)
    assert told.states == GlobFilter(("failed",))
    assert told.text == "state:failed a host:b"


def test_a_slow_pattern_is_given_up() -> None:
    with pytest.raises(UsageError, match="takes too long"):
        parse("(a|aa)+$b").accepts("a" * 60 + "c")


@given(st.text(max_size=40))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    for read in (parse, parse_events):
        try:
            read(text)
        except UsageError as error:
            assert error.message
