"""Skips a small page that only a script leaves, for another page or for itself with a cookie."""

from typing import ClassVar, NamedTuple

from crawl_engine.extract.page.page import Page
from crawl_engine.late_regex import late_regex
from crawl_engine.model.job import HostPlan, JobKind, LeasedJob
from crawl_engine.node.rules.page_series import NOTHING_SHOWN
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule, RulePart, SkipPage
from crawl_engine.settings import Settings

_IN_SERIES = "in a series"

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

    @property
    def advice(self) -> str:
        """How else than in a browser one comes past the page."""
        if self.cookie:
            return ", or send the cookie: `cookies` of the host"
        return ", or name its target as a URL" if self.target else ""


class ScriptedPart(RulePart, frozen=True):
    """Only a script leaves the page."""

    leads_on: bool
    """Whether another page might have followed it."""

    def decide(self, _job: LeasedJob) -> SkipPage:
        reason = "only a script leaves the page (see the warning script-redirect)"
        return SkipPage(reason=reason, confirm=NOTHING_SHOWN if self.leads_on else "")


class ScriptedRule(PageRule, frozen=True):
    """Knows whether the page is one of a series. A page that a plugin loads has its own way."""

    name: ClassVar[str] = "scripted"
    part: ClassVar[type[RulePart]] = ScriptedPart
    reads_rows: ClassVar[bool] = True

    def applies(self, plan: HostPlan, _settings: Settings) -> bool:
        return not plan.has_loader

    def prepare(self, job: LeasedJob, _arrival: Arrival, _settings: Settings) -> str | None:
        if job.kind is not JobKind.PAGE:
            return None
        return "" if job.lineage.page_number is None else _IN_SERIES

    def judge(self, known: str, judged: JudgedPage) -> ScriptedPart | None:
        page = judged.page
        if judged.links or not judged.extractors or not may_be_script_redirect(page) or _has_values(judged):
            return None
        scripted = find_script_redirect(page)
        if scripted is None:
            return None
        name = judged.extractors[0].name
        text = f"{name}: only the script of {page.url} leaves it: it {scripted.shown}. Such pages are skipped;"
        page.warn(name, "", "script-redirect", f"{text} `loader: browser` runs it{scripted.advice}")
        return ScriptedPart(bool(known) or judged.leads_on)


def may_be_script_redirect(page: Page) -> bool:
    """Whether a page is small, and has the word by which a script leaves it: fast, for each page."""
    return page.kind == "html" and len(text := page.utf8) <= _MAX_BYTES and b"location" in text


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


def _has_values(judged: JudgedPage) -> bool:
    """Whether dataDefs found something on the page besides its title."""
    title = None if judged.page.tree is None else judged.page.tree.css_first("title")
    nothing = (None, "", () if title is None else " ".join(title.text().split()))
    for extractor, extraction in zip(judged.extractors, judged.found, strict=True):
        missing = {name for name, count in extraction.counts.missing if count == extraction.counts.records}
        names = [name for name in extractor.read_fields if name not in missing]
        if any(row.get(name) not in nothing for row in extraction.rows for name in names):
            return True
    return False
