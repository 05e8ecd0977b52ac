"""Digests of documents: what they detect, and those that earlier versions stored."""

import pytest

from crawl_engine.model.content_digest import add_digests, body_digest, document_digest, is_document, row_digests

BODY = b"<h1>a page</h1>" * 5_000


def test_a_document_is_known_by_its_digest() -> None:
    digest = document_digest("http://a/", 200, body_digest(BODY))
    assert is_document(digest, "http://a/", 200, BODY)


@pytest.mark.parametrize(
    ("url", "status", "body"),
    [("http://b/", 200, BODY), ("http://a/", 404, BODY), ("http://a/", 200, BODY[:-1]), ("http://a/", 200, b"")],
)
def test_another_url_status_or_body_is_another_document(url: str, status: int, body: bytes) -> None:
    assert not is_document(document_digest("http://a/", 200, body_digest(BODY)), url, status, body)


def test_a_sum_loses_what_is_subtracted() -> None:
    one, two = body_digest(b"one"), body_digest(b"two")
    total = add_digests(0, [one, two, None])
    assert total - add_digests(0, [two]) == add_digests(0, [one])


@pytest.mark.parametrize("count", [0, 1, 1_024, 2_500])
def test_the_sum_of_packed_digests_is_that_of_each(count: int) -> None:
    digests = row_digests("book", map(str, range(count)))
    assert digests.sum() == add_digests(0, digests)
