"""Answers that are challenges are recognized by their texts and headers."""

import pytest

from engine.http.challenge import find_challenge
from engine.http.response import FetchResponse
from engine.model.definition import HostRule

TEXTS = (
    b"window._cf_chl_opt",
    b"window.gokuProps",
    b'id="px-captcha"',
    b"ct.captcha-delivery.com/c.js",
    b"Request unsuccessful. Incapsula incident ID",
    b'id="anubis_challenge"',
    b"/.well-known/ddos-guard/js-challenge/",
)


def page(body: bytes) -> FetchResponse:
    return FetchResponse(
        url="http://a/", status=200, headers=(), body=body, received=len(body), elapsed=0.0, content_type="text/html",
        location=None, location_problem=None, retry_after=None,
    )  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_a_challenge_is_recognized_in_the_first_8_kb(text: bytes) -> None:
    rule = HostRule(name="a")
    assert find_challenge(page(b"<html>" + b"x" * 5_000 + text), rule) == f"challenge ({text.decode()})"
    assert find_challenge(page(b"<html>" + b"x" * 9_000 + text), rule) is None


def test_words_that_challenges_share_with_ordinary_pages_are_no_challenge() -> None:
    body = b"<html><script>window.x = 1</script><p>A captcha is a challenge; a cap is none.</p>"
    assert find_challenge(page(body), HostRule(name="a")) is None
