"""Finds where a page leads by itself: `Refresh` and `<meta http-equiv=refresh>`, as in browsers.

The stage `FollowRefresh` takes it as a redirect.
"""

import re
from collections.abc import Iterable
from typing import ClassVar, Literal

from crawl_engine import urls
from crawl_engine.extract.page.page import Page, header_values, resolve_url
from crawl_engine.late_regex import late_regex
from crawl_engine.model.job import HostPlan, JobKind, LeasedJob
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule, RulePart
from crawl_engine.settings import Settings

_MAX_SECONDS = 5
"""A page that waits longer is meant to be read."""
_REFRESH = "meta[http-equiv=refresh i][content]"
_SPACE = r"[ \t\n\f\r]"
_CONTENT = late_regex(
    rf"{_SPACE}*+(\d++|(?=\.))[\d.]*+(?:{_SPACE}*[;,]{_SPACE}*+|{_SPACE}++|$)"
    rf"(?:url{_SPACE}*+={_SPACE}*+)?(?:\"([^\"]*)|'([^']*)|(.*))",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
"""HTML's shared declarative refresh steps: seconds, then a URL, which may be in quotes."""
_HIDDEN = late_regex(
    r"(<!--.*?(?:-->|$)|<(script|style)\b.*?(?:</\2|$))|<noscript\b.*?(?:</noscript|$)", re.IGNORECASE | re.DOTALL
)
"""A `<noscript>`, or what may hold one as text: group 1."""


class RefreshPart(RulePart, frozen=True):
    """The page leads to another one, or to itself."""

    target: str
    is_own: bool = False

    @property
    def keeps(self) -> Literal["all", "nothing"]:
        return "all" if self.is_own else "nothing"

    def check(self) -> None:
        if not (urls.is_http_url(self.target) or urls.is_file_url(self.target)):
            raise ValueError("a refresh to neither a page nor a file")


class RefreshRule(PageRule, frozen=True):
    """For the setting `meta_refresh`."""

    name: ClassVar[str] = "refresh"
    part: ClassVar[type[RulePart]] = RefreshPart

    def applies(self, _plan: HostPlan, settings: Settings) -> bool:
        return settings.meta_refresh

    def prepare(self, job: LeasedJob, _arrival: Arrival, _settings: Settings) -> str | None:
        return "" if job.kind is JobKind.PAGE else None

    def judge(self, _known: str, judged: JudgedPage) -> RefreshPart | None:
        target = find_refresh(judged.page)
        return RefreshPart(target, target == urls.normalize(judged.page.url)) if target else None


def find_refresh(page: Page) -> str | None:
    """The normalized URL to which the page leads within five seconds, perhaps its own; None: it stays.

    A valid header counts before the page. A `file:` URL is given as written, to be refused.
    """
    headers = header_values(page.headers, "refresh")
    if any(map(_CONTENT.match, headers)):
        return _resolve(page, page.url, _choose(headers))
    if page.kind != "html" or not page.markup.mentions_refresh or page.tree is None:
        return None
    contents = _list_contents(page)
    if not any(_choose([content]) is not None for content in contents):
        return None
    text = page.text
    if "<noscript" in text.lower():
        # whole, as browsers that run scripts do: the parser moves an element such as `<p>` out of one in the head
        contents = _list_contents(
            Page(url=page.url, text=_HIDDEN.sub(r"\1", text), kind="html", status=0, fetched_at=0)
        )
    return _resolve(page, page.base, _choose(contents))


def _resolve(page: Page, base: str, target: str | None) -> str | None:
    if not target:
        return None if target is None else urls.normalize(page.url)
    return target if urls.is_file_url(target) else resolve_url(base, target, None)


def _list_contents(page: Page) -> list[str]:
    return [node.attrs.get("content") or "" for node in (page.tree.css(_REFRESH) if page.tree is not None else ())]


def _choose(contents: Iterable[str]) -> str | None:
    """The URL, as written, of the first valid content; None: it is not valid, or the page is meant to be read."""
    for content in contents:
        match = _CONTENT.match(content)
        if match is not None:
            seconds = match[1].lstrip("0") or "0"
            is_short = len(seconds) == 1 and int(seconds) <= _MAX_SECONDS
            return (match[2] or match[3] or match[4] or "").strip() if is_short else None
    return None
