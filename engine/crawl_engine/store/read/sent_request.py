"""Reads what a job sends: from its own row, and from that of its locator."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.model.job import Request
from crawl_engine.model.link import PLAIN_LINK, LinkRequest

_PLAIN_REQUEST = Request()


class SentRequest(Struct, frozen=True):
    link: LinkRequest
    """By the link that leads to it."""
    locator: Mapping[str, Any] | None
    """The request of its locator, where it may count."""
    located: bool
    """Whether it is a page of the locator itself."""

    @classmethod
    def from_rows(cls, link: str | None, locator: str | None, *, located: bool) -> "SentRequest":
        """From the JSON in the row of the job and in that of its locator."""
        fields = orjson.loads(locator) if locator and (located or link is not None) else None
        return cls(LinkRequest.from_json(link), fields, located)

    @property
    def page_number(self) -> int | None:
        """The page's number in the series of its locator; None: it is in none."""
        if self.link.page is not None or not self.located or self.locator is None or "series" not in self.locator:
            return self.link.page
        first: int = self.locator["series"]["first"]  # only later pages have a number of their own
        return first

    @property
    def cookies_along(self) -> tuple[tuple[str, str], ...]:
        """The cookies that links of the page send along, within its group and origin."""
        if not self.located:
            return self.link.cookies
        fields = self.locator
        return _pairs(fields["cookies"]) if fields is not None and "cookie_scope" in fields else ()

    def request(self, url: str, root_url: str) -> Request:
        """The request. A next page gets the headers of its locator where it has the origin of that one's URL."""
        link = self.link
        if link == PLAIN_LINK:
            return self._of_locator() if self.located else _PLAIN_REQUEST
        if link.page is not None:
            request = self._of_locator()
            return request if link.body is None else replace(request, body=link.body)
        if link.relation in ("canonical", "link") and self.located:  # links led to the page of the locator first
            return self._of_locator()
        inherits = link.relation != "link" and urls.origin(url) == urls.origin(root_url)
        request = self._of_locator() if inherits else _PLAIN_REQUEST
        own = {name.lower() for name, _ in link.headers}
        headers = (*[pair for pair in request.headers if pair[0].lower() not in own], *link.headers)
        return replace(
            request, method=link.method, body=link.body, content_type=link.content_type, headers=headers,
            cookies=link.cookies or request.cookies,
        )  # fmt: skip

    def _of_locator(self) -> Request:
        fields = self.locator
        if fields is None:
            return _PLAIN_REQUEST
        return Request(
            method=fields["method"],
            headers=_pairs(fields["headers"]),
            cookies=_pairs(fields["cookies"]),
            body=fields["body"],
            content_type=fields["content_type"],
            userinfo=fields.get("userinfo", ""),
        )


def _pairs(stored: Sequence[tuple[Any, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple([(str(name), str(value)) for name, value in stored]) if stored else ()
