"""Fetches a host's robots.txt and says whether it allows a URL, for a crawl and for `try`."""

from typing import NamedTuple

from engine.fetch.decode import decode
from engine.fetch.redirect_chain import SendHop, follow_redirects
from engine.fetch.response import FetchResponse
from engine.fetch.robots import MAX_ROBOTS_BYTES, RobotsRules, robots_rules_for
from engine.model.job import Request

_MAX_REDIRECTS = 5
"""Redirects of a robots.txt to follow, as RFC 9309 asks."""


class HostRobots(NamedTuple):
    """The robots.txt of one host, as fetched."""

    status: int
    rules: RobotsRules

    def refusal(self, url: str, user_agent: str) -> str | None:
        """Why the URL may not be fetched; None: it may."""
        if self.rules.allowed(url, user_agent):
            return None
        return f"robots.txt answered {self.status}" if self.status >= 500 else "robots.txt disallows it"


def parse_robots(status: int, text: str) -> HostRobots:
    """The rules of a robots.txt with that status and text."""
    return HostRobots(status, robots_rules_for(status, text))


async def fetch_robots(url: str, send: SendHop) -> tuple[FetchResponse, str]:
    """The final response for a robots.txt, and its text: empty unless the status is 2xx. Raises FetchFailed."""
    _, response = await follow_redirects(url, Request(), send, limit=_MAX_REDIRECTS)
    if response.status >= 300:
        return response, ""
    return response, decode(response.body[:MAX_ROBOTS_BYTES], "text/plain; charset=utf-8").text
