"""Where redirects may lead, by URL, link and defs; and how hosts come to be named."""

from typing import Any, cast
from unittest.mock import Mock

import pytest

from crawl_engine.model.definition import Definitions
from crawl_engine.model.host import DelayRange, HostRule
from crawl_engine.model.job import HostPlan, LeasedJob
from crawl_engine.model.locator import Locator, LocatorGroup
from crawl_engine.node.requests.named_hosts import NamedHosts, RedirectRule
from tests.unit.node.leased_jobs import change, leased

HOSTS = (
    HostRule(name="cdn.example"), HostRule(name="ports.example:8443"), HostRule(name="10.0.0.9", private=True),
    HostRule(name="10.0.0.9:81", delay=DelayRange(min=1.0)),
    HostRule(name="10.0.0.9:82", private=False), HostRule(name="10.0.0.8"),
)  # fmt: skip


class Db:
    """The part of the store that says which hosts locators name; counts the questions."""

    def __init__(self, *keys: str) -> None:
        self.keys = set(keys)
        self.questions = 0

    def is_named_host(self, run: int, key: str) -> bool:
        self.questions += 1
        return key in self.keys

    def is_named_name(self, run: int, name: str) -> bool:
        self.questions += 1
        return any(key.rpartition(":")[0] == name for key in self.keys)


def named_hosts(db: Db, base_url: str | None = None, versions: dict[int, Definitions] | None = None) -> NamedHosts:
    defs = versions or {}
    cache = Mock(definitions=lambda version: defs.get(version, Definitions(hosts=HOSTS)))
    return NamedHosts(run=1, base_url=base_url, db_access=cast(Any, db), def_cache=cache)


def job(url: str = "https://shop.example/1", *, may_leave_host: bool = False) -> LeasedJob:
    return change(leased(1), url=url, may_leave_host=may_leave_host)


@pytest.mark.parametrize(
    ("target", "strict", "free"),
    [
        ("https://shop.example/2", "", ""),
        ("http://shop.example:8080/2", "", ""),
        ("https://www.shop.example/2", "", ""),
        ("https://shop.example./2", "", ""),
        ("https://other.example/", "leaves", ""),
        ("https://m.shop.example/", "leaves", ""),
        ("https://shop.example.evil.example/", "leaves", ""),
        ("https://wwwshop.example/", "leaves", ""),
        ("https://cdn.example/", "", ""),
        ("https://www.cdn.example/", "", ""),
        ("https://ports.example/", "", ""),
        ("https://list.example/", "", ""),
        ("http://www.list.example:81/", "", ""),
        ("https://93.184.216.34/", "leaves", ""),
        ("http://10.0.0.1/", "address", "address"),
        ("http://10.0.0.8/", "address", "address"),
        ("http://10.0.0.9/", "", ""),
        ("http://10.0.0.9:81/", "", ""),
        ("http://10.0.0.9:82/", "address", "address"),
        ("http://10.0.0.7:8081/", "", ""),
        ("http://10.0.0.7/", "address", "address"),
        ("https://[::ffff:10.0.0.1]/", "address", "address"),
    ],
)
def test_where_a_redirect_may_lead(target: str, strict: str, free: str) -> None:
    rule = RedirectRule(named_hosts(Db("list.example:443", "10.0.0.7:8081")))
    for may_leave_host, expected in ((False, strict), (True, free)):
        refusal = rule.refusal(job(may_leave_host=may_leave_host), "https://shop.example/1", target) or ""
        assert refusal.startswith(f"redirect {expected}" if expected == "leaves" else expected)
        assert bool(refusal) == bool(expected)


def test_a_redirect_may_return_to_the_host_of_the_job() -> None:
    rule = RedirectRule(named_hosts(Db("login.example:443")))
    assert rule.refusal(job(), "https://login.example/in", "https://www.shop.example/1?ok") is None
    assert rule.refusal(job(), "https://login.example/in", "https://evil.example/") is not None


def test_www_of_the_job_is_its_bare_host() -> None:
    rule = RedirectRule(named_hosts(Db()))
    assert rule.refusal(job("http://www.shop.example/"), "http://www.shop.example/", "https://shop.example/") is None


def test_a_redirect_on_one_origin_asks_nothing() -> None:
    db = Db()
    rule = RedirectRule(named_hosts(db))
    assert rule.refusal(job("http://10.0.0.1/"), "http://10.0.0.1/a", "http://10.0.0.1/b") is None
    assert db.questions == 0


@pytest.mark.parametrize(
    ("base_url", "in_defs", "key", "exempt"),
    [
        ("http://10.0.0.1", None, "10.0.0.1:80", True),
        ("http://10.0.0.1", "http://10.0.0.2", "10.0.0.2:80", False),
        (None, "http://0x0a000002:81/x", "10.0.0.2:81", True),
        (None, "http://10.0.0.2", "10.0.0.2:81", False),
    ],
)
def test_the_host_of_the_base_url_is_exempt(base_url: str | None, in_defs: str | None, key: str, exempt: bool) -> None:
    named = named_hosts(Db(), base_url, {1: Definitions(base_url=in_defs)})
    assert named.is_exempt(key, 1) is exempt


def test_a_host_is_asked_for_once_when_exempt_and_always_when_not() -> None:
    db = Db()
    named, planned = named_hosts(db), job()._replace(plan=HostPlan(host_key="a:80"))
    assert not named.is_known_exempt(planned)
    assert not named.exempts(planned)
    db.keys.add("a:80")
    assert named.exempts(planned), "seeding may name it at any time"
    asked = db.questions
    assert named.exempts(planned) and named.is_known_exempt(planned)
    assert db.questions == asked


def test_private_ends_with_the_defs_that_allow_it() -> None:
    private = Definitions(hosts=(HostRule(name="10.0.0.1", private=True),))
    closed = Definitions(hosts=(HostRule(name="10.0.0.1"),))
    named = named_hosts(Db(), versions={1: private, 2: closed})
    earlier = job()._replace(defs_version=1, plan=HostPlan(host_key="10.0.0.1:80"))
    newer = job()._replace(defs_version=2, plan=HostPlan(host_key="10.0.0.1:80"))
    assert named.exempts(earlier) and named.is_known_exempt(earlier)
    assert not named.is_known_exempt(newer)
    assert not named.exempts(newer)
    assert not named.exempts(earlier), "a job of the earlier version obeys the newer one"


@pytest.mark.parametrize(
    ("written", "target", "allowed"),
    [
        ("http://10.0.0.7:8081/a?x", "http://10.0.0.7:8081/b", True),
        ("http://%{env.U}:%{file./a/b}@10.0.0.7:8081/{a,b}", "http://10.0.0.7:8081/b", True),
        (" HTTP://10.0.0.7", "http://10.0.0.7/b", True),
        ("http://10.0.0.7:8081/a", "http://10.0.0.7/b", False),
        ("http://10.0.0.7.example/", "http://10.0.0.7/b", False),
        ("http://h.example/@10.0.0.7/", "http://10.0.0.7/b", False),
        ("http://10.0.0.{6..7}/", "http://10.0.0.7/b", False),
        ("/10.0.0.7", "http://10.0.0.7/b", False),
        ("https://other.example:81/", "https://www.other.example/b", True),
    ],
)
@pytest.mark.parametrize("key", ["urls", "sitemap"])
def test_a_locator_names_its_host_before_it_is_seeded(written: str, target: str, key: str, *, allowed: bool) -> None:
    locator = Locator(name="l", urls=(written,)) if key == "urls" else Locator(name="l", sitemap=written)
    defs = Definitions(locator_groups=(LocatorGroup(name="g", locators=(locator,)),))
    rule = RedirectRule(named_hosts(Db(), versions={1: defs}))
    assert (rule.refusal(job()._replace(defs_version=1), "https://shop.example/1", target) is None) is allowed
