"""Answers that are challenges are recognized by their texts and headers."""

import pytest

from crawl_engine.http.challenge import find_challenge
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.host import HostRule

TEXTS = (
    b"window._cf_chl_opt",
    b"window.gokuProps",
    b'id="px-captcha"',
    b"ct.captcha-delivery.com/",
    b"Request unsuccessful. Incapsula incident ID",
    b'id="anubis_challenge"',
    b"/.well-known/ddos-guard/js-challenge/",
)


TEXTS_OF_SMALL = (
    b"Please consult with your administrator.<br><br>Your support ID is",
    b"Please enable JavaScript to view the page content.<br/>Your support ID is",
    b"<title>Pardon Our Interruption",
    b"sucuri_cloudproxy_js",
    b"/errors/validateCaptcha",
    b"/_sec/verify?provider=interstitial",
    b"<title>Checking you are not a bot",
)
INCAPSULA = b"""<html><head><META NAME="robots" CONTENT="noindex,nofollow">
<meta name="viewport" content="width=device-width"><script src="/_Incapsula_Resource?SWJIYLWA=5074a7"></script>"""
ALIYUN = b"<html><script>var arg1='48DA6BE93A7C54CC0F';var _0x4818=['acw'];</script></html>"


def page(body: bytes, status: int = 200) -> FetchResponse:
    return FetchResponse(
        url="http://a/", status=status, headers=(), body=body, received=len(body), elapsed=0.0,
        content_type="text/html", location=None, location_problem=None, retry_after=None,
    )  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_a_challenge_is_recognized_in_the_first_8_kb(text: bytes) -> None:
    rule = HostRule(name="a")
    assert find_challenge(page(b"<html>" + b"x" * 5_000 + text), rule) == f"challenge ({text.decode()})"
    assert find_challenge(page(b"<html>" + b"x" * 9_000 + text), rule) is None


@pytest.mark.parametrize("text", TEXTS_OF_SMALL)
def test_some_texts_are_those_of_a_challenge_in_a_small_page_alone(text: bytes) -> None:
    rule = HostRule(name="a")
    assert find_challenge(page(b"<html>" + b"x" * 5_000 + text), rule) == f"challenge ({text.decode()})"
    assert find_challenge(page(b"<html>" + text + b"x" * 40_000), rule) is None


@pytest.mark.parametrize("body", [INCAPSULA, ALIYUN])
def test_scripts_of_makers_are_a_challenge_where_they_are_the_page(body: bytes) -> None:
    assert find_challenge(page(body), HostRule(name="a")) is not None


@pytest.mark.parametrize(
    "body",
    [
        b"<html><title>Tea</title><p>1 EUR</p><script src='/_Incapsula_Resource?SWJIYLWA=719d'></script>",
        b"<meta name=robots content='noindex,nofollow'><title>T</title><script src='/_Incapsula_Resource?x'></script>",
        b"<html><script>var arg1='tea';</script><p>tea</p>",
        b"<title>Help</title><p>Please enable JavaScript to view the page content.</p>",
        b"<title>News</title><h1>Pardon Our Interruption: a play</h1><p>Your support ID is on the invoice.</p>",
    ],
)
def test_what_makers_add_to_ordinary_pages_is_no_challenge(body: bytes) -> None:
    assert find_challenge(page(body), HostRule(name="a")) is None


def test_an_empty_202_is_a_challenge_and_a_page_with_that_status_is_none() -> None:
    assert find_challenge(page(b"", 202), HostRule(name="a")) == "challenge (HTTP 202 without a page)"
    assert find_challenge(page(b"<p>accepted</p>", 202), HostRule(name="a")) is None
    assert find_challenge(page(b"", 200), HostRule(name="a")) is None


def test_words_that_challenges_share_with_ordinary_pages_are_no_challenge() -> None:
    body = b"<html><script>window.x = 1</script><p>A captcha is a challenge; a cap is none.</p>"
    assert find_challenge(page(body), HostRule(name="a")) is None
