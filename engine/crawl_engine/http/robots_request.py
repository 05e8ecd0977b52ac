"""Asks for a robots.txt, and takes its text from the answer."""

from crawl_engine import urls
from crawl_engine.http.decode import decode
from crawl_engine.http.errors import AddressRefused, FetchFailed
from crawl_engine.http.redirects import SendHop, follow_redirects
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.job import Request
from crawl_engine.model.retry_policy import retryable_status

MAX_ROBOTS_BYTES = 500 * 1024
"""Bytes of a robots.txt that count, as far as they are whole lines; the rest is ignored, as RFC 9309 allows."""
ROBOTS_BYTES_READ = MAX_ROBOTS_BYTES + 1
"""One more than count, which tells that there are more."""
MAX_ROBOTS_REDIRECTS = 5
"""Redirects of a robots.txt to follow, as RFC 9309 asks."""


async def ask_for_robots(url: str, send: SendHop) -> tuple[int, str]:
    """The status of the robots.txt at a URL, 0 without an answer, and its text, or why it cannot be read.

    Raises AddressRefused if the address guard refuses its own host: that is then said of the page, too.
    """
    try:
        _, response = await follow_redirects(url, Request(), send, limit=MAX_ROBOTS_REDIRECTS)
    except FetchFailed as failure:
        if isinstance(failure, AddressRefused) and failure.host_key == urls.host_key(url):
            raise
        return 0, failure.reason
    return response.status, f"HTTP {response.status}" if retryable_status(response.status) else robots_text(response)


def robots_text(response: FetchResponse) -> str:
    """The text of the response for a robots.txt: empty unless the status is 2xx."""
    if not 200 <= response.status < 300:
        return ""
    body = response.body
    if len(body) > MAX_ROBOTS_BYTES:  # the rest of a rule would be another rule
        body = body[: max(body.rfind(end, 0, MAX_ROBOTS_BYTES) for end in (b"\n", b"\r")) + 1]
    document = decode(body, "text/plain; charset=utf-8")
    if document.kind == "binary":  # by a control byte somewhere: the lines that can be read are rules all the same
        return body.decode("utf-8", "replace")
    return document.text
