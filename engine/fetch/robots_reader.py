"""Says what a host's robots.txt allows, for a crawl and for `try`; fetches it for `try`."""

from typing import NamedTuple

from engine import urls
from engine.fetch.decode import decode
from engine.fetch.errors import AddressRefused, FetchFailed
from engine.fetch.redirect_chain import SendHop, follow_redirects
from engine.fetch.response import FetchResponse
from engine.fetch.robots import MAX_ROBOTS_BYTES, RobotsRules, is_readable, robots_rules_for
from engine.model.job import Request

ROBOTS_BYTES_READ = MAX_ROBOTS_BYTES + 1
"""One more than count, which tells that there are more."""
MAX_ROBOTS_REDIRECTS = 5
"""Redirects of a robots.txt to follow, as RFC 9309 asks."""
_MAX_CRAWL_DELAY = 3600.0
"""Seconds between two requests that a robots.txt may ask for; as long as a Retry-After counts."""


class HostRobots(NamedTuple):
    """The robots.txt of one host, as fetched."""

    status: int
    """0: no answer."""
    rules: RobotsRules
    problem: str = ""
    """Why it cannot be read."""

    @property
    def readable(self) -> bool:
        """Whether it says what is allowed; if not, nothing is, until it can be read."""
        return is_readable(self.status)

    @property
    def delay(self) -> float:
        """Seconds between two requests, as far as its Crawl-delay counts; 0: it asks for none."""
        return min(self.rules.crawl_delay or 0.0, _MAX_CRAWL_DELAY)

    def refusal(self, url: str) -> str | None:
        """Why the URL may not be fetched; None: it may."""
        rule = self.rules.refusal(url)
        if rule is None:
            return None
        if not self.readable:
            answer = self.problem.removeprefix("HTTP ")
            return f"robots.txt cannot be read: {answer}" if answer == self.problem else f"robots.txt answered {answer}"
        return disallowed_by(rule)


def disallowed_by(rule: str) -> str:
    """Why a URL may not be fetched that this rule disallows."""
    return f"robots.txt disallows it ({rule})" if rule else "robots.txt disallows it"


def parse_robots(status: int, text: str, agent: str) -> HostRobots:
    """The rules of a robots.txt for a product token. `text`: of the file, or why it cannot be read."""
    return HostRobots(status, robots_rules_for(status, text, agent), "" if is_readable(status) else text)


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
    return response.status, robots_text(response) if is_readable(response.status) else f"HTTP {response.status}"


async def fetch_robots(url: str, send: SendHop, agent: str) -> HostRobots:
    """The rules of the robots.txt at a URL; one that cannot be read disallows everything. Raises AddressRefused."""
    return parse_robots(*await ask_for_robots(url, send), agent)
