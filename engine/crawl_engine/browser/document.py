"""Writes a rendered page down as HTML: shadow roots, frames and captured answers are parts of it."""

import asyncio
import contextlib
import json
import re
from collections.abc import Sequence
from html import escape
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from playwright.async_api import CDPSession, Request, Response
from playwright.async_api import Error as BrowserError

from crawl_engine.extract.documents.json_value import MISSING, parse_guarded_json, parse_json
from crawl_engine.extract.documents.page_states import Part, find_difference, size_of, write_states
from crawl_engine.http.decode import decode
from crawl_engine.model.retry_policy import REDIRECT_STATUSES
from crawl_engine.model.step import BrowserRule
from crawl_engine.runtime.task_set import TaskSet

_SERIALIZE = """
function (whole, limit) {
    const roots = [], collect = root => {
        for (const element of root.querySelectorAll('*'))
            if (element.shadowRoot) { roots.push(element.shadowRoot); collect(element.shadowRoot); }
    };
    collect(document);
    for (const field of document.querySelectorAll('textarea')) field.textContent = field.value;
    const html = document.documentElement, part = whole ? html : document.body;
    const inner = part ? part.getHTML({shadowRoots: roots, serializableShadowRoots: true}) : '';
    if (inner.length > limit) return null;
    if (!whole) return inner;
    const shell = html ? html.cloneNode(false).outerHTML : '', end = shell.lastIndexOf('</');
    const doctype = document.doctype ? `<!DOCTYPE ${document.doctype.name}>` : '';
    return doctype + shell.slice(0, end) + inner + shell.slice(end);
}
"""
"""Gives the document of a page, or its body; null: it is too large. Open shadow roots become templates."""
_SET_MARK = "function (name, value) { this.setAttribute(name, value); }"
_FRAME = '<div data-frame="{url}">{text}</div>'
"""The body of a frame, behind its element."""
_MARK = "data-frame-id"
_OF_THE_PAGE = ("about:srcdoc", "about:blank")
"""Frames that a page writes itself."""
_MAX_FRAMES = 50
_CAPTURED = '\n<script type="application/json" data-capture="{name}" data-url="{url}"{more}>{text}</script>'
"""An answer that the page asked for, behind its document. Its `</` is written `<\\/`, which JSON reads as the same."""
_PROBLEM = ' data-problem="{}"'
"""Why the answer is missing."""
_MAX_CAPTURED = 1_000
_MAX_STATES = 2_000
_URL_CHARACTERS = 2_000
_FIRST_ERROR = 400
_LATE_SECONDS = 1.0
"""So long answers that have begun may take, once the page is used."""


class RenderedTooLarge(Exception):
    """The document has more than `max_body` bytes, with the answers that it keeps."""


class _Captured(Struct):
    name: str
    url: str
    text: str = ""
    problem: str = "its end did not come before the page was used"


class Captures:
    """The answers that a page asks for, by the names of its rule; read as they come."""

    def __init__(self, rule: BrowserRule, max_body: int) -> None:
        self._patterns = [(name, to_pattern(one.url)) for name, one in rule.capture.items()]
        self.max_body = max_body
        self.size = 0
        """Characters of the answers; those beyond the limit are not kept."""
        self._answers: list[_Captured] = []
        self._reading = TaskSet()

    def take(self, response: Response) -> None:
        """Keep an answer, if its URL or one that led to it is captured."""
        if not self._patterns or response.status in REDIRECT_STATUSES:
            return
        asked: Request | None = response.request
        urls = set[str]()
        while asked is not None:
            urls.add(asked.url)
            asked = asked.redirected_from
        for name, pattern in self._patterns:
            if len(self._answers) > _MAX_CAPTURED or not any(map(pattern.fullmatch, urls)):
                continue
            answer = _Captured(name, response.url[:_URL_CHARACTERS])
            self._answers.append(answer)
            if len(self._answers) <= _MAX_CAPTURED:
                self._reading.start(self._read(answer, response))
            else:
                answer.problem = f"a page keeps {_MAX_CAPTURED:,} answers; this one and those after it are lost"

    async def _read(self, answer: _Captured, response: Response) -> None:
        if response.status >= _FIRST_ERROR:
            answer.problem = f"HTTP {response.status}"
            return
        try:
            body = await response.body()
        except BrowserError:
            answer.problem = "the page was left while it came"
            return
        kind = response.headers.get("content-type", "")
        text = _cut_json(body, decode(body, kind).text)
        if not text and body:
            answer.problem = f"it is not JSON, but {kind or 'of no type'}"
            return
        self.size += len(text)
        answer.text, answer.problem = text if self.size <= self.max_body else "", ""

    async def write(self) -> str:
        """The answers as parts of the document."""
        if self._reading:
            await asyncio.wait(self._reading, timeout=_LATE_SECONDS)
        return "".join([_write_answer(one) for one in self._answers])

    def close(self) -> None:
        self._reading.cancel()


def _cut_json(body: bytes, text: str) -> str:
    """The JSON of an answer, without a guard in front of it; empty: it is none."""
    _, guard = parse_guarded_json(body)
    if not guard:
        return "" if parse_json(text) is MISSING else text
    bare = text[text.find(guard) + len(guard) :].lstrip()
    _, end = json.JSONDecoder().raw_decode(bare)
    return bare[:end]


def _write_answer(answer: _Captured) -> str:
    more = _PROBLEM.format(escape(answer.problem)) if answer.problem else ""
    # behind `<!--` and `<script`, a script would not end at its end tag
    text = answer.text.replace("</", "<\\/").replace("<!--", "<\\u0021--")
    return _CAPTURED.format(name=answer.name, url=escape(answer.url), more=more, text=text)


def to_pattern(text: str) -> re.Pattern[str]:
    """A pattern for whole URLs, of a text with `*` for any characters."""
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


class CollectedStates:
    """The documents that a page was, for `collect`: each once in a row."""

    def __init__(self, rule: BrowserRule, max_body: int) -> None:
        self._has_frames = rule.frames
        self._max_body = max_body
        self._last: bytes | None = None
        self.differences: list[list[Part]] = []
        """Of each state to the one that followed it."""
        self.size = 0
        """Bytes of the differences, roughly."""

    async def add(self, devtools: CDPSession) -> bytes:
        """The document as it is now. Raises BrowserError, RenderedTooLarge."""
        html = (await _write_html(devtools, self._max_body, frames=self._has_frames)).encode("utf-8", "replace")
        if self._last is not None and html != self._last:
            self.differences.append(find_difference(self._last, html))
            self.size += size_of(self.differences[-1])
        self._last = html
        count = len(self.differences)
        if count > _MAX_STATES or len(html) + self.size > self._max_body:
            limit = f"{self._max_body:,} bytes (max_body)" if count <= _MAX_STATES else f"{_MAX_STATES:,} states"
            raise RenderedTooLarge(f"`collect`: the page has had more than {limit}, after {count:,} changes")
        return html


async def write_document(
    devtools: CDPSession, captures: Captures, states: CollectedStates | None, *, frames: bool
) -> bytes:
    """The document of a page. `frames`: with those of its site. Raises BrowserError, RenderedTooLarge."""
    limit = captures.max_body
    if states is None:
        html = (await _write_html(devtools, limit, frames=frames)).encode("utf-8", "replace")
    else:
        html = await states.add(devtools)
    body = html + (await captures.write()).encode("utf-8", "replace")
    if states is not None and states.differences:
        body = write_states(body, len(html), states.differences)
    if max(len(body), len(html) + captures.size) > limit:
        parts = "the document" if not captures.size else f"the document ({len(html):,}) with its captured answers"
        raise RenderedTooLarge(f"{parts} has more than {limit:,} bytes (max_body)")
    return body


async def _write_html(devtools: CDPSession, limit: int, *, frames: bool) -> str:
    tree = (await devtools.send("Page.getFrameTree"))["frameTree"]
    site = _site(tree["frame"]["url"]) if frames else None
    return await _write_frame(devtools, tree, site, limit, whole=True)


async def _write_frame(devtools: CDPSession, tree: Any, site: str | None, limit: int, *, whole: bool) -> str:
    """`site`: of the frames below that are parts of it; None: none is."""
    inner = [] if site is None else [one for one in tree.get("childFrames", ()) if _is_part(one["frame"]["url"], site)]
    children = inner[:_MAX_FRAMES]
    world = await _open_world(devtools, tree)
    for child in children:
        with contextlib.suppress(BrowserError):  # it has gone
            owner = await devtools.send("DOM.getFrameOwner", {"frameId": child["frame"]["id"]})
            place = {"backendNodeId": owner["backendNodeId"], "executionContextId": world}
            element = (await devtools.send("DOM.resolveNode", place))["object"]
            await _call(devtools, _SET_MARK, [_MARK, child["frame"]["id"]], {"objectId": element["objectId"]})
    texts = await asyncio.gather(*[_write_child(devtools, child, site, limit) for child in children])
    html = await _call(devtools, _SERIALIZE, [whole, limit], {"executionContextId": world})
    if html is None:
        raise RenderedTooLarge(f"the document has more than {limit:,} bytes (max_body)")
    html = str(html)
    for child, text in zip(children, texts, strict=True):
        mark = html.find(f'{_MARK}="{child["frame"]["id"]}"') if text else -1
        end = html.find("</iframe>", mark) + len("</iframe>") if mark >= 0 else 0
        if end > mark >= 0:
            html = html[:end] + _FRAME.format(url=escape(child["frame"]["url"]), text=text) + html[end:]
    return html


async def _write_child(devtools: CDPSession, tree: Any, site: str | None, limit: int) -> str:
    try:
        return await _write_frame(devtools, tree, site, limit, whole=False)
    except BrowserError:  # it has gone, or has no document
        return ""


async def _open_world(devtools: CDPSession, tree: Any) -> int:
    """A JavaScript world of ours in a frame: what the page has put in place of the browser's functions is not there."""
    world = await devtools.send("Page.createIsolatedWorld", {"frameId": tree["frame"]["id"], "worldName": "crawl"})
    return int(world["executionContextId"])


async def _call(devtools: CDPSession, function: str, arguments: Sequence[Any], target: dict[str, Any]) -> Any:
    given = [{"value": value} for value in arguments]
    answer = await devtools.send(
        "Runtime.callFunctionOn",
        {"functionDeclaration": function, "arguments": given, "returnByValue": True, **target},
    )
    if (problem := answer.get("exceptionDetails")) is not None:
        raise BrowserError(
            f"the document cannot be written: {problem.get('exception', {}).get('description', '')[:_URL_CHARACTERS]}"
        )
    return answer["result"].get("value")


def _is_part(url: str, site: str) -> bool:
    return url in _OF_THE_PAGE or _site(url) == site


def _site(url: str) -> str:
    return (urlsplit(url).hostname or "").removeprefix("www.")
