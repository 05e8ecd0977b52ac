"""Writes a rendered page down as HTML: shadow roots, frames and captured answers are parts of it."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

from playwright.async_api import Error as BrowserError
from playwright.async_api import Frame, Response

_SERIALIZE = """
whole => {
    const roots = [], collect = root => {
        for (const element of root.querySelectorAll('*'))
            if (element.shadowRoot) { roots.push(element.shadowRoot); collect(element.shadowRoot); }
    };
    collect(document);
    for (const field of document.querySelectorAll('textarea')) field.textContent = field.value;
    const html = document.documentElement, part = whole ? html : document.body;
    const inner = part ? part.getHTML({shadowRoots: roots, serializableShadowRoots: true}) : '';
    if (!whole) return inner;
    const shell = html.cloneNode(false).outerHTML, end = shell.lastIndexOf('</');
    const doctype = document.doctype ? `<!DOCTYPE ${document.doctype.name}>` : '';
    return doctype + shell.slice(0, end) + inner + shell.slice(end);
}
"""
"""A function of a page that gives its document, or its body; open shadow roots as `<template shadowrootmode>`."""
_FRAME = '<div data-frame="{url}">{text}</div>'
"""The body of a frame, behind its element."""
_MARK = "data-frame-number"
_MAX_FRAMES = 50
_CAPTURED = '\n<script type="application/json" data-capture="{name}">{text}</script>'
"""An answer that the page asked for, behind its document. Its `</` is written `<\\/`, which JSON reads as the same."""


async def write_document(
    frame: Frame, captured: Sequence[tuple[str, Response]], *, frames: bool, warnings: list[str]
) -> bytes:
    """The document of a main frame. `frames`: with those of its site. Raises BrowserError."""
    parts = [await _write_frame(frame, _site(frame.url) if frames else None, whole=True)]
    for name, response in captured:
        try:
            text = (await response.body()).decode("utf-8", "replace")
        except BrowserError:
            warnings.append(f"the captured answer of {response.url[:300]} is lost: the page has been left")
            continue
        parts.append(_CAPTURED.format(name=name, text=text.replace("</", "<\\/")))
    return "".join(parts).encode("utf-8", "replace")


async def _write_frame(frame: Frame, site: str | None, *, whole: bool) -> str:
    """`site`: of the frames below that are parts of it; None: none is."""
    children = [] if site is None else [one for one in frame.child_frames if _site(one.url) == site][:_MAX_FRAMES]
    for number, child in enumerate(children):
        element = await child.frame_element()
        await element.evaluate(f"(element, number) => element.setAttribute('{_MARK}', number)", number)
    texts = await asyncio.gather(*[_write_child(child, site) for child in children])
    html = str(await frame.evaluate(_SERIALIZE, whole))
    for number, (child, text) in enumerate(zip(children, texts, strict=True)):
        mark = html.find(f'{_MARK}="{number}"')
        end = html.find("</iframe>", mark) + len("</iframe>") if mark >= 0 else 0
        if end > mark >= 0:
            url = child.url.replace("&", "&amp;").replace('"', "&quot;")
            html = html[:end] + _FRAME.format(url=url, text=text) + html[end:]
    return html


async def _write_child(frame: Frame, site: str | None) -> str:
    try:
        return await _write_frame(frame, site, whole=False)
    except BrowserError:  # it has gone, or has no document
        return ""


def _site(url: str) -> str:
    return (urlsplit(url).hostname or "").removeprefix("www.")
