"""Recognizes a small page that only a script leaves, for another page or for itself with a cookie."""

from typing import NamedTuple

from crawl_engine.extract.page.page import Page
from crawl_engine.late_regex import late_regex

_MAX_BYTES, _MAX_TEXT, _MAX_SHOWN = 8_192, 200, 80
"""Of the page, and characters of its text and of what a message shows."""
_SCRIPT = late_regex(r"(?is)<!--.*?(?:-->|$)|<script\b[^>]*>(.*?)</script")
_UNSEEN = late_regex(r"(?is)<!--.*?(?:-->|$)|<(script|style|noscript|template|title)\b.*?(?:</\1\s*>|$)|<[^>]*>")
_MEDIA = late_regex(r"(?i)<(?:img|svg|video|audio|object|embed|table|input|textarea|select)\b")
_COMMENTS = late_regex(r"(?s)/\*.*?\*/|(?<![:'\"])//[^\n]*")
_TARGET = r"""\s*(?:["'`]([^"'`\n]*)["'`])?"""
_LEAVES = late_regex(
    rf"location(?<!\wlocation)\s*(?:(?:\.\s*href\s*)?=(?!=){_TARGET}|\.\s*(?:replace|assign)\s*\({_TARGET}"
    r"|\.\s*(reload)\s*\()"
)
"""It begins with a plain text, which is found fast: few pages have it."""
_COOKIE = late_regex(r"""\bdocument\s*\.\s*cookie\s*=\s*["'`]([^"'`;\n]+)""")


class ScriptRedirect(NamedTuple):
    """How the script of a page leaves it; the texts are as it writes them, and may be empty."""

    target: str
    cookie: str

    @property
    def shown(self) -> str:
        """What it does, for a message."""
        does = f"leads to {self.target[:_MAX_SHOWN]}" if self.target else "leads on"
        return f"sets the cookie {self.cookie[:_MAX_SHOWN]} and {does}" if self.cookie else does


def may_be_script_redirect(page: Page) -> bool:
    """Whether a page is small, and has the word by which a script leaves it: fast, for each page."""
    return page.kind == "html" and len(page.utf8) <= _MAX_BYTES and b"location" in page.utf8


def find_script_redirect(page: Page) -> ScriptRedirect | None:
    """How a script leaves a page that shows next to nothing; None: it is no such page, or a large one."""
    text = page.text
    if not may_be_script_redirect(page) or not _LEAVES.search(text):
        return None
    script = "\n".join(_COMMENTS.sub("", found) for found in _SCRIPT.findall(text))
    leaves = _LEAVES.search(script)
    if leaves is None or _MEDIA.search(_SCRIPT.sub("", text)):
        return None
    if len(" ".join(_UNSEEN.sub(" ", text).split())) > _MAX_TEXT:
        return None
    cookie = _COOKIE.search(script)
    if leaves[3] and cookie is None:
        return None  # it is loaded again and again, as a page of news
    return ScriptRedirect(leaves[1] or leaves[2] or "", "" if cookie is None else cookie[1].strip())
