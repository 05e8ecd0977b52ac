"""Leased jobs for tests of a node's parts."""

from engine.model.job import JobKind, JobOrigin, LeasedJob, Request


def leased(number: int) -> LeasedJob:
    """A job of a link; its host id is 1."""
    url = f"http://a/{number}"
    return LeasedJob(
        id=number, lease=1, run=1, sequence=1, host=1, kind=JobKind.PAGE, group="g", locator_id=None, root=number,
        locator="", locator_url=url, url=url, origin=JobOrigin.LINK, depth=0, priority=0, attempts=0, crashes=0, hops=0,
        target=None, request=Request(), send_at=None, delay=0.0, stored=None, defs_version=1, links_stale=False,
    )  # fmt: skip
