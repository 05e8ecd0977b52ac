"""Leased jobs for tests of a node's parts."""

from typing import Any

from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.model.job import HostPlan, JobKind, JobLineage, JobOrigin, LeasedJob, Request
from crawl_engine.node.handlers.visited_page import VisitedPage
from crawl_engine.node.requests.request_sender import Attempt


def leased(number: int) -> LeasedJob:
    """A job of a link; its host id is 1."""
    url = f"http://a/{number}"
    return LeasedJob(
        id=number, lease=1, run=1, sequence=1, host=1, kind=JobKind.PAGE, group="g", url=url,
        lineage=JobLineage(None, number, "", url, JobOrigin.LINK, 0, 0), attempts=0, crashes=0, hops=0, target=None,
        request=Request(), defs_version=1, plan=HostPlan(host_key="a:80"),
    )  # fmt: skip


def visited(**fields: Any) -> VisitedPage:
    """A page with these fields, and an attempt without costs."""
    return VisitedPage(attempt=Attempt(1, ByteBudget(capacity=10_000_000, largest=10_000_000).open_share()), **fields)


def change(job: LeasedJob, **fields: Any) -> LeasedJob:
    """The job with other values, also of its lineage, terms and extraction."""
    for name in ("lineage", "terms", "extraction"):
        part = getattr(job, name)
        own = {key: fields.pop(key) for key in part._fields if key in fields}
        job = job._replace(**{name: part._replace(**own)})
    return job._replace(**fields)
