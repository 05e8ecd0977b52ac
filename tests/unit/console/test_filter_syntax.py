"""The filter grammar: the meaning of each term, and the error of each mistake."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_console.filter_syntax import SearchPattern, TextSearch, event_filter, job_filter, parse, parse_events
from crawl_engine.errors import UsageError
from crawl_engine.store.db.filter import Comparison, GlobFilter, JobFilter


def test_every_kind_of_term() -> None:
    filter_ = parse('host:Shop.example state:failed,skipped group:Books !host:a:81 age>5m attempts>2 time !"no answer"')
    assert filter_.hosts == GlobFilter(("shop.example",), ("a:81",))
    assert filter_.states == GlobFilter(("failed", "skipped"))
    assert filter_.groups == GlobFilter(("Books",))
    assert filter_.comparisons == (Comparison("age", ">", 300), Comparison("attempts", ">", 2))
    assert filter_.searches == (TextSearch("time"), TextSearch("no answer", negated=True))
    assert filter_.kinds == GlobFilter(("page",))
    assert not filter_.countable
    assert parse("host:a state:done kind:robots").countable
    assert parse("  ") == JobFilter()
    assert parse("crashes:2").comparisons == (Comparison("crashes", "=", 2),)
    assert parse("!depth>=3").comparisons == (Comparison("depth", "<", 3),)


def test_outcomes_of_steps() -> None:
    filter_ = parse("outcome:Error,warning !outcome:ok")
    assert filter_.outcomes == GlobFilter(("error", "warning"), ("ok",))
    assert not filter_.countable
    assert job_filter("outcome:error").outcomes == GlobFilter(("error",))


def test_events() -> None:
    filter_ = parse_events("level:error source:n1,n2 !kind:stage age<1h boom")
    assert (filter_.levels, filter_.sources) == (GlobFilter(("ERROR",)), GlobFilter(("n1", "n2")))
    assert filter_.kinds == GlobFilter((), ("stage",))
    assert filter_.ages == (Comparison("age", "<", 3600),)
    assert filter_.accepts("BOOM")
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
    ("text", "message"),
    [
        ("hots:x", r"unknown key 'hots' \(did you mean 'host'\?\)"),
        ("state:faild", r"unknown state 'faild' \(did you mean 'failed'\?\)"),
        ("kind:x", "unknown kind 'x'"),
        ("outcome:eror", r"unknown outcome 'eror' \(did you mean 'error'\?\)"),
        ("!outcome:*", "unknown outcome"),
        ("size>3", "unknown key 'size'"),
        ("attempts>many", "'many' is not a value of attempts"),
        ("attempts>5m", "'5m' is not a value of attempts"),
        ("age>5y", "'5y' is not a value of age"),
        ("age:5m", "'age:5m' is not supported"),
        ("host:", "no value after 'host:'"),
        ("!", "nothing to search for"),
        ('""', "nothing to search for"),
        ('"open', "unclosed quote"),
        ("(", "not a regular expression"),
    ],
    ids=str,
)
def test_a_mistake_is_reported(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse(text)
    assert caught.value.remedy


def test_an_unknown_key_lists_the_valid_ones() -> None:
    with pytest.raises(UsageError) as caught:
        parse("colour:red")
    assert "host:" in caught.value.remedy
    assert "age>" in caught.value.remedy


@pytest.mark.parametrize(
    "pattern",
    ["a b", "retry:", "^run .* DONE$", "http://x/1", "HTTP 50[0-9]", "shop:80/a", "cannot be read: timeout", "(?i:x)"],
)
def test_a_match_without_keys_is_one_regular_expression(pattern: str) -> None:
    filter_ = job_filter(pattern, ["failed"])
    assert filter_.searches == (TextSearch(pattern),)
    assert filter_.states == GlobFilter(("failed",))
    assert filter_.text == f"state:failed {pattern}"
    assert event_filter(pattern, ["WARNING", "ERROR"]).searches == (TextSearch(pattern),)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("foo:bar", "foo"), ("hots:x", "hots"), ("State:failed", "State"), ("/books foo:bar", "foo"),
        ("data_def:book", "data_def"), ('groop:"a b"', "groop"), ("attemps>3", "attemps"), ("x<=1", "x"),
    ],
)  # fmt: skip
def test_an_unknown_key_in_a_match_is_refused(text: str, key: str) -> None:
    for read in (job_filter, event_filter, parse, parse_events):
        with pytest.raises(UsageError, match=f"unknown key '{key}'") as caught:
            read(text)
        assert "in quotes" in caught.value.remedy
    with pytest.raises(UsageError, match="did you mean 'host'"):
        job_filter("hots:x")
    assert job_filter('"foo:bar"').searches


def test_a_match_with_keys_is_a_filter() -> None:
    filter_ = job_filter("time host:b attempts>2 !robots", ["failed"])
    assert filter_ == parse("state:failed time host:b attempts>2 !robots")
    assert event_filter("source:n1 kind:page", ["ERROR"]) == parse_events("level:error source:n1 kind:page")
    with pytest.raises(UsageError, match="unknown key 'colour'"):
        job_filter("host:b colour:red")


def test_a_match_never_widens_the_state() -> None:
    assert job_filter("state:done state:failed", ["failed", "skipped"]).states == GlobFilter(("failed",))
    assert job_filter("!state:done", ["done"]).states == GlobFilter(("done",), ("done",))
    with pytest.raises(UsageError, match="no job has a state of both"):
        job_filter("state:done", ["failed"])


def test_a_slow_pattern_is_stopped() -> None:
    with pytest.raises(UsageError, match="takes too long"):
        parse("(a|aa)+$b").accepts("a" * 60 + "c")


def test_a_lenient_pattern_never_raises() -> None:
    literal = SearchPattern("a(", strict=False)
    assert literal.pattern == "a("
    assert [match.span() for match in literal.finditer("xA( a(")] == [(1, 3), (4, 6)]
    slow = SearchPattern("(a|aa)+$b", strict=False)
    assert slow.search("a" * 60 + "c") is None
    assert slow.search("ab") is None


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for read in (parse, parse_events):
        try:
            read(text)
        except UsageError as error:
            assert error.message


@given(st.text("aB1._%/é", min_size=1, max_size=4), st.text("AbB1._%é/", max_size=9))
def test_sql_selects_each_row_that_a_search_accepts(pattern: str, text: str) -> None:
    search = TextSearch(pattern.replace("/", r"\."))
    if search.like is not None and search.accepts(text):
        with closing(sqlite3.connect(":memory:")) as db:
            assert db.execute(r"SELECT ? LIKE ? ESCAPE '\'", (text, search.like)).fetchone() == (1,)


@pytest.mark.parametrize(
    ("pattern", "like"),
    [("/c1_", r"%/c1\_%"), (r"a\.b.%", r"%a\.b_\%%"), ("a+", None), (r"\d", None), ("é", None)],
)
def test_plain_text_has_a_pattern_of_sql(pattern: str, like: str | None) -> None:
    assert TextSearch(pattern).like == like


def test_a_long_text_is_searched_without_sql() -> None:
    assert TextSearch("a" * 20_000).like is None
