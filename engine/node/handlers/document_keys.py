"""The key of the document that the next request of a job fetches."""

from engine.http.redirects import build_target_request
from engine.model.job import LeasedJob, document_key


def next_document_key(job: LeasedJob) -> bytes:
    """The key. A redirect to another origin drops credentials."""
    request = job.request
    if job.target is not None and request.variant:
        request = build_target_request(request, job.url, job.target)
    return document_key(job.target or job.url, request.method, request.body, request.variant)
