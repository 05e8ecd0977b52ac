"""Which stored documents serve a job, and how the headers of an answer 304 change those of its document."""

import pytest
from msgspec.structs import replace

from crawl_engine.model.job import HostPlan, StoredPage
from crawl_engine.node.handlers.freshness import Headers, StoredVersion, may_serve
from tests.unit.node.leased_jobs import leased

STORED = StoredPage(page=7, url="http://a/1", status=200, content_type="text/html", size=4, fetched_at=1.0)
CAME: Headers = (("content-type", "text/html"), ("etag", '"1"'), ("date", "Mon"), ("vary", "a"), ("vary", "b"))


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        ((), None),
        ((("etag", '"1"'), ("date", "Mon")), None),
        ((("etag", '"2"'),), (CAME[0], *CAME[2:], ("etag", '"2"'))),
        (
            (("last-modified", "Tue"), ("date", "Tue")),
            (*CAME[:2], *CAME[3:], ("last-modified", "Tue"), ("date", "Tue")),
        ),
        ((("vary", "c"),), (*CAME[:3], ("vary", "c"))),
        ((("content-type", "text/plain"), ("content-encoding", "gzip"), ("connection", "close")), None),
        ((("set-cookie", "a=1"),), (*CAME, ("set-cookie", "a=[not stored]"))),
    ],
)
def test_a_304_changes_the_headers_that_it_has(received: Headers, expected: Headers | None) -> None:
    assert StoredVersion(STORED, b"", CAME).changed_headers(received) == expected


@pytest.mark.parametrize(
    ("loader", "wanted", "is_own", "serves"),
    [
        (None, "", False, True),
        (None, "a", False, True),
        ("", "", False, True),
        ("a", "a", False, True),
        ("a", "b", False, False),
        ("a", "", False, False),
        ("", "a", False, False),
        ("a", "b", True, True),
    ],
)
def test_a_document_serves_who_would_load_it_so_and_who_had_it(
    loader: str | None, wanted: str, is_own: bool, serves: bool
) -> None:
    job = leased(1)._replace(plan=HostPlan(loading=wanted))
    assert may_serve(job, replace(STORED, loader=loader), lambda *_: is_own) is serves
