"""Events of outcomes: few for many rejected records, of a fetched page as of a stored one; when a retry comes."""

import pytest

from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.record import RejectedCount, Rejection
from crawl_engine.model.retry_policy import OVERLOAD_STATUSES
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.outcomes import OutcomeBuilder, describe_rejections
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.run.events import Event
from tests.unit.node.leased_jobs import leased


def result(rejected: int) -> PageResult:
    shown = tuple(
        Rejection(data_def="d", field="f", reason=f"no {n}", place="x.yml:1:2") for n in range(min(rejected, 5))
    )
    return PageResult(page_kind="html", rejected=shown, rejected_counts=(RejectedCount("d", rejected),))


def test_five_rejections_are_described_and_the_rest_counted() -> None:
    assert describe_rejections(result(0), "http://a/") == []
    assert describe_rejections(result(1), "http://a/") == ["d.f: no 0 x.yml:1:2 on http://a/"]
    assert len(describe_rejections(result(5), "http://a/")) == 5
    assert describe_rejections(result(9), "http://a/")[5:] == ["4 more records rejected on http://a/"]


@pytest.mark.parametrize(
    ("status", "retry_after", "when"),
    [(429, 3.0, "after its host's rest: 3 s at least"), (503, None, "after its host's rest"), (500, None, "in ")],
)
def test_a_retry_says_when_it_comes(status: int, retry_after: float | None, when: str) -> None:
    response = FetchResponse(
        url="http://a/1", status=status, headers=(), body=b"", received=0, elapsed=0.0, content_type="",
        location=None, location_problem="", retry_after=retry_after, exceeds_rate=status in OVERLOAD_STATUSES,
    )  # fmt: skip
    outcome = OutcomeBuilder(source="n1", max_attempts=3).retry_status(leased(1), "http://a/1", response)
    [event] = outcome.find_all(Event)
    assert event.text.startswith(f"HTTP {status}; attempt 2 {when}")


@pytest.mark.parametrize(
    ("url", "size", "text"),
    [
        ("http://a/1", 2_600, "200   12 ms    3 kB   0 rows  "),
        ("http://a/other", 2_600, "200   12 ms    3 kB   0 rows  http://a/other"),
        ("http://a/1", 0, "200   12 ms    0 kB   0 rows  http://a/1; empty page"),
    ],
)
def test_the_event_of_a_page_repeats_no_url_of_its_job(url: str, size: int, text: str) -> None:
    page = PageExtraction(PageResult(page_kind="html"))
    outcome = OutcomeBuilder(source="n1", max_attempts=3).extracted(
        leased(1), page, status=200, url=url, fetch_time="12 ms", size=size, hops=0
    )
    [event] = outcome.find_all(Event)
    assert event.text == text


@pytest.mark.parametrize("retryable", [True, False])
def test_a_request_that_could_not_be_built_says_nothing_of_its_host(retryable: bool) -> None:
    builder = OutcomeBuilder(source="n1", max_attempts=5)
    job = leased("http://a/1")
    for kind, counts in (("variable", False), ("connect", True)):
        outcome = builder.fetch_failed(job, job.url, FetchFailed("no", kind=kind, retryable=retryable))
        assert (outcome.find(HostFailure) is not None) is counts
