"""Where a page leads by itself, read as browsers that run scripts read it."""

import time

import pytest

from crawl_engine.extract.page.page import Page
from crawl_engine.node.rules.refresh import find_refresh

URL = "http://a/dir/page?x=1"


def refresh_of(text: str) -> str | None:
    return find_refresh(Page(url=URL, text=text, kind="html", status=200, fetched_at=0.0))


def of_content(content: str) -> str | None:
    return refresh_of(f'<head><meta http-equiv="refresh" content="{content}"></head><p>x')


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0; URL=/t", "http://a/t"),
        ("0; URL=\n /t", "http://a/t"),
        ("0;url='/t'", "http://a/t"),
        ("0;url='/t' and more", "http://a/t"),
        ("0;url=&quot;/t", "http://a/t"),
        ("5;/t", "http://a/t"),
        ("005 t", "http://a/dir/t"),
        ("5.9,url = http://b/t#top", "http://b/t"),
        (".5;url=?y=2", "http://a/dir/page?y=2"),
        ("0;url=http://user:pw@b/t", "http://b/t"),
        ("3", URL),
        ("3;url=", URL),
        ("3;url=#top", URL),
        ("6;url=/t", None),
        ("600", None),
        ("0url=/t", None),
        ("soon;url=/t", None),
        ("", None),
        ("0;url=javascript:go()", None),
        ("0;url=mailto:me@b", None),
    ],
)
def test_the_content_says_when_and_where(content: str, target: str | None) -> None:
    assert of_content(content) == target


META = '<meta http-equiv=Refresh content="0;url=/t">'
LONG = '<meta http-equiv=refresh content="900">'


@pytest.mark.parametrize(
    "text",
    [
        f"<html><head><title>x</title>{META}</head>",
        f"{META}<h1>moved",
        '<META CONTENT="0;URL=/t" HTTP-EQUIV="REFRESH">',
        f"<head></head><body><p>moved</p>{META}",
        f"<head><noscript><p>scripts!</p>{LONG}</noscript>{META}</head>",
        f"<head><!-- <noscript> -->{META}<!-- </noscript> --></head>",
        f"<head><script>x = '<noscript>'</script>{META}<noscript>no</noscript></head>",
        f"<head><meta http-equiv=refresh content=never>{META}</head>",
        f"<head><base href=http://a/sub/>{META}</head>",
    ],
)
def test_a_page_leads_on(text: str) -> None:
    assert refresh_of(text) == "http://a/t"


@pytest.mark.parametrize(
    "text",
    [
        f"<head><!-- {META} --></head>",
        f"<head><noscript>{META}</noscript></head>",
        f"<head><noscript><style>p {{}}</style>{META}</noscript></head>",
        f"<head><noscript><p>scripts!</p>{META}</noscript></head>",
        f"<body><noscript><div>{META}</div></noscript>",
        f"<head><NOSCRIPT><p>x{META}",
        f"<head><script>write('{META}')</script></head>",
        f"<head><title>{META}</title></head>",
        f"<template>{META}</template>",
        f"<head>{LONG}{META}</head>",
        "<head><meta name=refresh content='0;url=/t'></head>",
        "<head><meta http-equiv=refresh></head>",
        "<p>refresh",
    ],
)
def test_a_page_stays(text: str) -> None:
    assert refresh_of(text) is None


def test_only_html_leads_on_and_no_content_takes_long() -> None:
    assert find_refresh(Page(url=URL, text=META, kind="xml", status=200, fetched_at=0.0)) is None
    begun = time.thread_time()
    assert of_content("0" * 20_000 + "1" * 20_000 + "x") is None
    assert refresh_of(META.replace("0;", "9;") * 1_000 + "<noscript>" * 1_000) is None
    assert time.thread_time() - begun < 1.0


@pytest.mark.parametrize(
    ("header", "target"),
    [
        ("0; url=/t", "http://a/t"),
        ("0;URL='t'", "http://a/dir/t"),
        ("3, /t", "http://a/t"),
        ("0; url=http://user:pw@169.254.169.254/", "http://169.254.169.254/"),
        ("0; url=file:///etc/passwd", "file:///etc/passwd"),
        ("0; url=javascript:go()", None),
        ("0", URL),
        ("600", None),
        ("600; url=/t", None),
    ],
)
@pytest.mark.parametrize("text", ["<p>wait", f"<base href=http://b/>{META.replace('/t', '/meta')}"])
def test_a_header_leads_on_and_counts_before_the_page(header: str, target: str | None, text: str) -> None:
    page = Page(url=URL, text=text, kind="html", status=200, fetched_at=0.0, headers=(("refresh", header),))
    assert find_refresh(page) == target


def test_a_header_that_is_not_valid_leaves_it_to_the_page() -> None:
    page = Page(url=URL, text=META, kind="html", status=200, fetched_at=0.0, headers=(("refresh", "soon"),))
    assert find_refresh(page) == "http://a/t"


def test_a_header_leads_on_from_what_is_no_html() -> None:
    page = Page(url=URL, text="{}", kind="json", status=200, fetched_at=0.0, headers=(("refresh", "1;url=/t"),))
    assert find_refresh(page) == "http://a/t"
