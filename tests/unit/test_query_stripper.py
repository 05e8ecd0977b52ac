"""Query keys that hosts drop: which keys go, and that the rest of a URL stays as it is."""

import re
import time
from fnmatch import fnmatchcase
from urllib.parse import unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.model.definition import DataDef, Definitions, Link, Task, TaskGroup
from crawl_engine.model.fingerprint import PreparedDefs, list_query_rules
from crawl_engine.model.host import DelayRange, HostRule
from crawl_engine.urls import QueryStripper, normalize

SHOP = QueryStripper({"shop.example": ["utm_*", "gclid", "s?d", "filter[size]", "a b", "größe"]})
KEYS = st.sampled_from(
    ["utm_source", "utm_", "gclid", "sid", "Sid", "id", "", "q", "%75tm_x", "a+b", "utm", "[", "%", "ä"]
)
PAIRS = st.one_of(KEYS, st.builds("{}={}".format, KEYS, st.text("aä=;+%?/ 0", max_size=4)))


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?utm_source=a", ""),
        ("?utm_source=a&id=7", "?id=7"),
        ("?id=7&utm_source=a", "?id=7"),
        ("?b=2&utm_a&a=1&utm_b=&b=1", "?b=2&a=1&b=1"),
        ("?utm_", ""),
        ("?utm=1&xutm_a=1", "?utm=1&xutm_a=1"),
        ("?UTM_source=a&Gclid=1", "?UTM_source=a&Gclid=1"),
        ("?sid=1&sad=2&sd=3&said=4", "?sd=3&said=4"),
        ("?%75tm_source=a&utm%5Fx=1", ""),
        ("?a+b=1&a%20b=2&a%2Bb=3", "?a%2Bb=3"),
        ("?filter%5Bsize%5D=1&filter[size]=2&filter[x]=3&filters=4", "?filter[x]=3&filters=4"),
        ("?gr%C3%B6%C3%9Fe=1&gr%F6%DFe=2", "?gr%F6%DFe=2"),
        ("?q=%7e%7E+x%20&utm_a=1&z=a=b?c;d", "?q=%7e%7E+x%20&z=a=b?c;d"),
        ("?q=1;utm_a=2", "?q=1;utm_a=2"),
        ("?utm_a=2;q=1&z", "?z"),
        ("?q=utm_a&id=gclid", "?q=utm_a&id=gclid"),
        ("?x=1&&gclid=2&", "?x=1&&"),
        ("?gclid=2&&", "?&"),
        ("?gclid=2&", ""),
        ("?", "?"),
        ("?&&", "?&&"),
        ("?=gclid", "?=gclid"),
        ("?utm_a=http://b/?utm_c=1", ""),
        ("??utm_a=1", "??utm_a=1"),
        ("", ""),
    ],
)
def test_the_keys_of_a_query(query: str, left: str) -> None:
    assert SHOP.strip_url(f"https://shop.example/p%20/;id=1{query}") == f"https://shop.example/p%20/;id=1{left}"


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("/p/1;sid=7", "/p/1"),
        ("/p/1;sid=7?sid=8&id=9", "/p/1?id=9"),
        ("/a;sid=7/b;sid=8;id=9/c;utm_x=", "/a/b;id=9/c"),
        (";sid=1", None),
        ("/;sid=1", "/"),
        ("/p;sid", "/p;sid"),
        ("/p;sid/x=1", "/p;sid/x=1"),
        ("/p;Sid=7;x=sid=8", "/p;Sid=7;x=sid=8"),
        ("/p;%73id=7;gr%C3%B6%C3%9Fe=1;a%20b=2;a+b=3", "/p;a+b=3"),
        ("/p?q=a;sid=7", "/p?q=a;sid=7"),
        ("/p;;sid=7;", "/p;;"),
        ("/a/..;sid=1/b", "/b"),
        ("/a/%2E%2e;sid=1/b", "/b"),
        ("/a/..;sid=1;id=2/b", "/a/..;id=2/b"),
    ],
)
def test_the_parameters_of_a_path(path: str, left: str | None) -> None:
    url = f"https://shop.example{path}"
    assert SHOP.strip_url(url) == (url if left is None else f"https://shop.example{left}")
    other = url.replace("shop", "other")
    assert SHOP.strip_url(other) == other, "another host"


def test_only_urls_of_the_host_lose_keys() -> None:
    for url in ("https://other.example/?gclid=1", "https://www.shop.example/?gclid=1", "file:///shop.example/?gclid=1"):
        assert SHOP.strip_url(url) == url
    assert SHOP.strip_url("http://shop.example:8080/?gclid=1") == "http://shop.example:8080/"
    assert SHOP.strip_url("http://us:pw@shop.example/?gclid=1") == "http://us:pw@shop.example/"
    assert QueryStripper({"file": ["*"]}).strip_url("file:///a?b") == "file:///a?b"
    assert (
        QueryStripper({"[::1]": ["a"], "xn--mnchen-3ya.de": ["a"]}).strip_url("http://[::1]:8000/?a")
        == "http://[::1]:8000/"
    )
    url = normalize("http://MÜNCHEN.de?a=1") or ""
    assert QueryStripper({"xn--mnchen-3ya.de": ["a"]}).strip_url(url) == "http://xn--mnchen-3ya.de/"


def test_a_rule_with_a_port_replaces_the_one_of_its_host() -> None:
    hosts = (
        HostRule(name="a.example", drop=("x",)),
        HostRule(name="a.example:443", drop=("y",)),
        HostRule(name="a.example:8080", delay=DelayRange(min=1.0)),
        HostRule(name="b.example:80", drop=("z",)),
        HostRule(name="c.example", delay=DelayRange(min=1.0)),
        HostRule(name="c.example:81", delay=DelayRange(min=1.0)),
    )
    stripper = QueryStripper.from_rules(list_query_rules(Definitions(hosts=hosts)))
    assert stripper is not None
    paths = [
        "http://a.example/",
        "https://a.example/",
        "http://a.example:8080/",
        "http://b.example/",
        "https://b.example/",
    ]
    left = [stripper.strip_url(f"{path}?x=1&y=2&z=3").partition("?")[2] for path in paths]
    assert left == ["y=2&z=3", "x=1&z=3", "x=1&y=2&z=3", "x=1&y=2", "x=1&y=2&z=3"]
    assert stripper.strip_url("http://c.example:81/?x&y&z") == "http://c.example:81/?x&y&z"


def test_a_star_drops_the_whole_query() -> None:
    stripper = QueryStripper({"h": ["*"]})
    assert stripper.strip_url("http://h/a;b=1;c/d;e=2?f") == "http://h/a;c/d"
    for query in ("a=1", "a=1&b&&c=%FF", "", "&", "=", "%0A=1"):
        assert stripper.strip_url(f"http://h/p?{query}") == "http://h/p"


@given(st.lists(PAIRS, min_size=1, max_size=8))
def test_other_pairs_stay_byte_for_byte_and_twice_is_once(pairs: list[str]) -> None:
    pairs = "&".join(pairs).split("&")
    path = "https://shop.example/p"
    stripped = SHOP.strip_url(f"{path}?{'&'.join(pairs)}")
    assert SHOP.strip_url(stripped) == stripped
    kept = [pair for pair in pairs if not is_dropped(unquote_plus(pair.partition("=")[0]))]
    assert stripped == (f"{path}?{'&'.join(kept)}" if kept == pairs or any(kept) or len(kept) > 1 else path)


def is_dropped(key: str) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in ("utm_*", "gclid", "s?d", "a b", "größe"))


@given(st.one_of(st.text(max_size=30), st.text(";/.?%2esid=", max_size=30)))
def test_a_normalized_url_stays_normalized(rest: str) -> None:
    url = normalize(f"https://shop.example/p{rest}")
    assert url is None or normalize(SHOP.strip_url(url)) == SHOP.strip_url(url)


@given(st.lists(st.text("ab*?[]!-.\\", max_size=6), min_size=1, max_size=3), st.text("ab[]!-.\\\n", max_size=8))
def test_only_the_wildcards_are_special(patterns: list[str], key: str) -> None:
    expected = any(
        re.fullmatch("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), key, re.DOTALL)
        for pattern in patterns
    )
    url = f"http://h/?{key.replace(chr(10), '%0A')}=1"
    assert (QueryStripper({"h": patterns}).strip_url(url) == "http://h/") is expected


def test_a_key_that_is_made_to_be_slow_is_not() -> None:
    stripper = QueryStripper({"h": ["*a*a*a*a*a*a*a*b", "*a?a*?a*c"]})
    url = f"http://h/?{'a' * 16_000}&" + "&".join(["a" * 10] * 1_000)
    began = time.thread_time()
    assert stripper.strip_url(url) == url
    assert time.thread_time() - began < 1.0


def defs(*hosts: HostRule) -> Definitions:
    group = TaskGroup(name="g", tasks=(Task(name="t", data_def="d"),))
    plain = TaskGroup(name="p", tasks=(Task(name="t", data_def="e"),))
    data_defs = (DataDef(name="d", links=(Link(selector="a"),)), DataDef(name="e"))
    return Definitions(task_groups=(group, plain), data_defs=data_defs, hosts=hosts)


def test_without_rules_there_is_no_stripper() -> None:
    plain = defs(HostRule(name="h", delay=DelayRange(min=1.0)), HostRule(name="h:81"))
    assert list_query_rules(plain) == {}
    assert QueryStripper.from_rules(list_query_rules(plain)) is None
    assert PreparedDefs.from_definitions(plain).groups[1].follow_hash == "", "no links"


def test_pages_with_links_are_stale_after_a_change_of_the_rules() -> None:
    def hashes(*hosts: HostRule) -> list[str]:
        return [group.hash for group in PreparedDefs.from_definitions(defs(*hosts)).groups]

    without, one = hashes(HostRule(name="h")), hashes(HostRule(name="h", drop=("a", "b")))
    assert without[0] != one[0]
    assert without[1] == one[1], "it has no links"
    assert one == hashes(HostRule(name="h", drop=("b", "a", "a"))), "the order means nothing"
    shadowed = hashes(HostRule(name="h", drop=("a", "b")), HostRule(name="h:81"))
    others = hashes(HostRule(name="h", drop=("a",))), hashes(HostRule(name="i", drop=("a", "b"))), shadowed
    assert len({without[0], one[0], *(other[0] for other in others)}) == 5


def test_equal_rules_have_equal_keys() -> None:
    first, second = QueryStripper({"h": ["a", "b"]}), QueryStripper({"h": ["b", "a"]})
    assert first.key == second.key
    assert len({first.key, QueryStripper({"h": ["a"]}).key, QueryStripper({"i": ["a", "b"]}).key}) == 3
