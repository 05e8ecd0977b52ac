"""The rule for canonical URLs: what a page gives as its own, and what becomes of its job."""

import pytest
from msgspec.structs import replace

from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field, TaskGroup
from crawl_engine.model.job import HostPlan, link_key
from crawl_engine.model.link import Carried, Link, LinkRequest
from crawl_engine.node.extraction.page_extraction import apply_data_defs
from crawl_engine.node.rules.canonical import CanonicalPart, CanonicalRule, find_canonical
from crawl_engine.settings import Settings
from tests.unit.extract.pages import CONTEXT, page
from tests.unit.node.leased_jobs import change, leased, visited

BOOKS = RecordExtractor(DataDef(name="d", fields=(Field(name="f"),), links=(Link(selector="a"),)))


def canonical_of(text: str, url: str = "https://shop.example/p?ref=1", requested_url: str = "") -> str | None:
    return find_canonical(page(text, url=url), requested_url, None)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("<link rel=canonical href=/p>", "https://shop.example/p"),
        ("<link rel='alternate CANONICAL' href=/p>", "https://shop.example/p"),
        ("<base href=/b/><link rel=canonical href=p>", "https://shop.example/b/p"),
        ("<link rel=canonical href='https://www.shop.example/p'>", "https://www.shop.example/p"),
        ("<link rel=canonical href='http://shop.example/p'>", "http://shop.example/p"),
        ("<link rel=canonical href='https://u:pw@shop.example/p'>", "https://shop.example/p"),
        ("<link rel=canonical href='https://shop.example/p?ref=1'>", None),
        ("<link rel=canonical href='HTTPS://SHOP.example:443/p?ref=1#x'>", None),
        ("<link rel=canonical href='https://other.example/p'>", None),
        ("<link rel=canonical href='https://shop.example.evil/p'>", None),
        ("<link rel=canonical href=''>", None),
        ("<link rel=canonical href='  '>", None),
        ("<link rel=canonical>", None),
        ("<link rel=canonical href='javascript:x'>", None),
        (f"<link rel=canonical href='/{'x' * 20_000}'>", None),
        ("<link rel=canonicals href=/p>", None),
        ("<body><p><link rel=canonical href=/p>", None),
        ("<link rel=canonical href=/1><link rel=canonical href=/2>", "https://shop.example/1"),
        ("", None),
    ],
)
def test_the_canonical_url_of_a_page(text: str, url: str | None) -> None:
    assert canonical_of(text) == url


def test_only_html_has_a_canonical_url() -> None:
    assert find_canonical(page('{"a": 1}', kind="json"), "", None) is None
    assert find_canonical(page("<head><link rel='canonical' href='/p'/></head>", kind="xml"), "", None) is None


def test_a_page_with_another_canonical_url_gives_nothing() -> None:
    one = page("<link rel=canonical href=/p><a href=/x>")
    found = apply_data_defs(one, replace(CONTEXT, rules={"canonical": ""}), [(BOOKS, True)], 100)
    assert found.parts == {"canonical": CanonicalPart("https://shop.example/p")}
    assert not (found.rows or found.links)
    assert len(apply_data_defs(one, CONTEXT, [(BOOKS, True)], 100).rows[0][1]) == 1
    assert apply_data_defs(one, replace(CONTEXT, rules={"canonical": "https://shop.example/p"}), [], 100).parts == {}


def test_the_canonical_url_is_asked_for_with_what_was_carried_to_its_page() -> None:
    job = change(leased(1), carried=Carried(values={"a": "b"}, blocks="ab").to_json())
    decision = CanonicalPart("http://a/p").decide(job)
    assert decision.reason == "its canonical URL is http://a/p"
    (link,) = decision.links
    assert (link.url, link.group, link.key) == ("http://a/p", "g", link_key("g", "http://a/p"))
    assert link.details is not None
    assert link.details.request == LinkRequest(relation="canonical")
    assert Carried.from_json(link.details.carried) == Carried(values={"a": "b"})


def test_a_page_that_is_one_s_canonical_url_is_not_judged_again() -> None:
    rule, job = CanonicalRule(), leased(1)
    assert rule.prepare(job, visited(), Settings()) == job.url
    assert rule.prepare(change(job, link=LinkRequest(relation="canonical")), visited(), Settings()) is None
    plan = HostPlan(group=TaskGroup(name="g", canonical=True))
    assert (rule.applies(plan, Settings()), rule.applies(HostPlan(), Settings())) == (True, False)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("<p>x", "https://shop.example/tea"), ("<head><link rel=canonical href=/own></head>", "https://shop.example/own")],
)
def test_the_canonical_url_stands_in_the_header_link_unless_the_page_has_one(text: str, canonical: str) -> None:
    one = page(text, url="https://shop.example/p?x=1")
    one.headers = (("link", '<https://shop.example/tea>; rel="canonical"'),)
    assert find_canonical(one, "", None) == canonical
