"""Parses sitemaps (sitemaps.org 0.9), feeds and robots.txt files: their URLs, and when these changed."""

import json
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.extract.documents.xml_repair import may_drop_references, replace_surrogates, resolve_references
from crawl_engine.late_regex import late_regex
from crawl_engine.runtime.mail_date import read_mail_date

if TYPE_CHECKING:
    from lxml.etree import XMLParser, _Element

_W3C_DATE = late_regex(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)? ?(Z|[+-]\d\d:?\d\d))?)?)?", re.ASCII
)
_DATE = late_regex(r"(\d{4}-\d\d-\d\d)[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?", re.ASCII)
"""A time without an offset: its zone is unknown, so only its date counts."""
_FIRST_YEAR = 1990
"""Earlier years stand for an unknown date: programs write 1 or 1970."""
_MAX_DATE_CHARACTERS = 64
_FEED_DATES = frozenset({"pubDate", "date", "updated", "modified"})
_KINDS = ("url", "sitemap")
_START_CHARACTERS = 4_096
_MAX_NOTICE = 65_536
_ROOT = late_regex(r"<(?:\?xml|(?:[\w.-]+:)?(?:urlset|sitemapindex|rss|RDF|feed)\b)", re.IGNORECASE)
_FEEDS = ("{*}rss", "{*}RDF", "{*}feed")
_ROBOTS_LINE = late_regex(r"^[ \t]*(?:user-agent|sitemap)[ \t]*:", re.IGNORECASE | re.MULTILINE)
_SITEMAP_LINE = late_regex(r"^[ \t]*sitemap[ \t]*:[ \t]*([^\s#]+)", re.IGNORECASE | re.MULTILINE)
_CUT_LOCATION = late_regex(r"<(?:[\w.-]+:)?loc(?:\s[^>]*)?>|<!\[CDATA\[(?!.*\]\]>)", re.DOTALL)
"""The last markup of a document that ends within the URL of an entry."""
_MAX_VALUE = 1_000
_SITEMAPS, _GOOGLE = "sitemaps.org/schemas/sitemap/0.9", "www.google.com/schemas/sitemap-"
_PREFIXES = {f"http://www.{_SITEMAPS}": "", f"https://www.{_SITEMAPS}": ""} | {
    f"http://{_GOOGLE}{name}/1.1" if name != "news" else f"http://{_GOOGLE}news/0.9": name
    for name in ("news", "image", "video")
}
"""Prefixes that are the same in each document, by namespace."""
UNKNOWN = 0
"""The moment of an entry without a credible date."""


class SitemapEntries(Struct, frozen=True):
    """The URLs of pages and of nested sitemaps, as written. `modified`: of each page; empty: not asked for."""

    pages: Sequence[str]
    sitemaps: Sequence[str] = ()
    modified: Sequence[int] = ()
    """Wall-clock seconds of the end of the last modification, or UNKNOWN."""
    values: Sequence[str] = ()
    """What each page's entry says under the names that were asked for: a JSON object of texts. Empty: none were."""
    is_cut_short: bool = False
    """Whether the document ends too early. A URL that its end cuts is left out."""

    def cut(self, most: int, most_characters: int) -> tuple["SitemapEntries", int]:
        """The first `most` entries, without overlong URLs and line feeds in them; and how many are left out."""
        kept = [index for index, page in enumerate(self.pages) if len(page) <= most_characters][:most]
        sitemaps = [url.replace("\n", "") for url in self.sitemaps if len(url) <= most_characters][: most - len(kept)]
        entries = SitemapEntries(
            [self.pages[index].replace("\n", "") for index in kept],
            sitemaps,
            [self.modified[index] for index in kept] if self.modified else (),
            [self.values[index] for index in kept] if self.values else (),
            self.is_cut_short,
        )
        return entries, len(self.pages) + len(self.sitemaps) - len(kept) - len(sitemaps)


def parse_sitemap(text: str, now: float | None = None, names: Sequence[str] = ()) -> SitemapEntries:
    """The entries of a sitemap or feed. A plain text file lists pages, one URL a line; a robots.txt names sitemaps.

    `now`: the wall-clock second, to read when pages were modified; None: skip that. `names`: of elements whose texts
    are wanted, such as `lastmod`, `news:title`.
    """
    is_markup = text[:_START_CHARACTERS].lstrip().startswith("<")
    if not is_markup and "<loc" not in text and _ROBOTS_LINE.search(text):
        return SitemapEntries((), _SITEMAP_LINE.findall(text))
    if "<" not in text:
        lines = [line.strip() for line in text.splitlines()]
        pages = [line for line in lines if len(line.split()) == 1]  # others are words, not URLs
        return SitemapEntries(
            pages, (), [UNKNOWN] * len(pages) if now is not None else (), ["{}"] * len(pages) if names else ()
        )
    from lxml import etree

    text = text.strip()  # a usual blank line in front would be an error
    if not text.startswith(("<?", "<!")) and (root_tag := _ROOT.search(text, 0, _MAX_NOTICE)) is not None:
        text = text[root_tag.start() :]  # a notice of PHP stands in front
    last = text.rfind("<")
    if _CUT_LOCATION.match(text, last):
        text = text[:last]
    markup = replace_surrogates(text.encode("utf-8", "replace"))
    root, parser = _parse(markup)
    if len(parser.error_log) or may_drop_references(markup):
        repaired = resolve_references(markup)
        if repaired is not markup:
            del root, parser  # now: there may be no memory for two trees
            root, parser = _parse(repaired)
    if root is None:
        return SitemapEntries(())
    entries = _read_entries(root, now, names, may_be_feed=b"item" in markup or b"entry" in markup)
    end = parser.error_log.last_error
    is_cut_short = end is not None and end.type == etree.ErrorTypes.ERR_TAG_NOT_FINISHED
    return replace(entries, is_cut_short=True) if is_cut_short else entries


def _parse(markup: bytes) -> "tuple[_Element | None, XMLParser]":
    """The root element, and the parser with its errors. A declared encoding is ignored: the markup is UTF-8."""
    from lxml import etree

    parser = etree.XMLParser(
        encoding="utf-8", recover=True, resolve_entities=False, no_network=True, remove_comments=True
    )
    try:
        return etree.fromstring(markup, parser), parser
    except (etree.XMLSyntaxError, ValueError):
        return None, parser


def _read_entries(root: Any, now: float | None, names: Sequence[str], *, may_be_feed: bool) -> SitemapEntries:
    feed = next(root.iter(*_FEEDS), None) if may_be_feed else None
    if feed is not None:
        return _read_feed(feed, now, names)
    entries = _read_plain(root) if now is None else _read_dated(root, now)
    return replace(entries, values=_list_values(root, names)) if names else entries


def _list_values(root: Any, names: Sequence[str]) -> list[str]:
    """What the entry of each page says, in the order of the pages."""
    values: list[str] = []
    entry, of_entry = None, ""
    for element in root.iter("{*}loc"):
        parent = element.getparent()
        if parent is None or _local_name(parent) != "url" or not (element.text and element.text.strip()):
            continue
        if parent is not entry:
            entry, of_entry = parent, _describe_entry(parent, names)
        values.append(of_entry)
    return values


def _describe_entry(entry: Any, names: Sequence[str]) -> str:
    """The first text that each of these elements has in an entry."""
    found: dict[str, str] = {}
    for element in entry.iterdescendants("{*}*"):
        name, text = _written_name(element), (element.text or "").strip()
        if text and name in names and name not in found:
            found[name] = " ".join(text[:_MAX_VALUE].split())
    return json.dumps(found, ensure_ascii=False)


def _written_name(element: Any) -> str:
    """The name of an element, with the usual prefix of its namespace: `news:title`; without one, its own."""
    namespace, _, name = element.tag.rpartition("}")
    prefix = _PREFIXES.get(namespace.removeprefix("{"), element.prefix or "")
    return f"{prefix}:{name}" if prefix else name


def _read_plain(root: Any) -> SitemapEntries:
    locations: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for element in root.iter("{*}loc"):
        parent = element.getparent()
        kind = _local_name(parent) if parent is not None else ""
        if kind in locations and element.text and element.text.strip():
            locations[kind].append(element.text.strip())
    return SitemapEntries(locations["url"], locations["sitemap"])


def _read_dated(root: Any, now: float) -> SitemapEntries:
    """One walk in the order of the document: the first `lastmod` of an entry counts for its URLs."""
    locations: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    pages, modified = locations["url"], list[int]()
    entry: Any = None
    date: int | None = None
    for element in root.iter("{*}loc", "{*}lastmod"):
        parent = element.getparent()
        kind = _local_name(parent) if parent is not None else ""
        text = element.text
        if kind not in locations or not text:
            continue  # such as the URL of a picture, inside an entry
        if parent is not entry:
            modified += [UNKNOWN] * (len(pages) - len(modified))
            entry, date = parent, None
        if _local_name(element) == "lastmod":
            if date is None:
                date = read_lastmod(text[:_MAX_DATE_CHARACTERS].strip(), now)
                modified += [date] * (len(pages) - len(modified))
        elif text.strip():
            locations[kind].append(text.strip())
            if kind == "url" and date is not None:
                modified.append(date)
    modified += [UNKNOWN] * (len(pages) - len(modified))
    return SitemapEntries(pages, locations["sitemap"], modified)


def _read_feed(feed: Any, now: float | None, names: Sequence[str]) -> SitemapEntries:
    """The pages of an RSS, RDF or Atom feed. A page is as new as the latest date of its entry."""
    pages, modified, values = list[str](), list[int](), list[str]()
    for entry in feed.iter("{*}item", "{*}entry"):
        link, guid, dates = "", "", [UNKNOWN]
        for child in entry.iterchildren("{*}*"):
            name, text = _local_name(child), (child.text or "").strip()
            if name == "link" and child.get("rel", "alternate") == "alternate":
                link = link or text or child.get("href", "").strip()
            elif name == "guid" and child.get("isPermaLink", "true") == "true":
                guid = text
            elif name in _FEED_DATES and now is not None:
                dates.append(read_lastmod(text, now) or _read_mail_date(text, now))
        if page := link or guid:
            pages.append(page)
            modified.append(max(dates))
            if names:
                values.append(_describe_entry(entry, names))
    return SitemapEntries(pages, (), () if now is None else modified, values)


def _read_mail_date(text: str, now: float) -> int:
    """The date of an RSS feed, to the second, as `read_lastmod`."""
    seconds = read_mail_date(text[:_MAX_DATE_CHARACTERS])
    if seconds is None or seconds > now or time.gmtime(seconds).tm_year < _FIRST_YEAR:
        return UNKNOWN
    return round(seconds) + 1


def _local_name(element: Any) -> str:
    name: str = element.tag.rpartition("}")[2]
    return name


def read_lastmod(text: str, now: float) -> int:
    """The wall-clock second at which the year, month, day, minute or second of a W3C date ends, in UTC.

    UNKNOWN if the text is not such a date, or begins in the future.
    """
    without_offset = _DATE.fullmatch(text)
    parts = _W3C_DATE.fullmatch(text if without_offset is None else without_offset[1])
    if parts is None:
        return UNKNOWN
    year, month, day, hour, minute, second = (None if part is None else int(part) for part in parts.groups()[:6])
    if year is None or year < _FIRST_YEAR:
        return UNKNOWN
    try:
        begin = datetime(year, month or 1, day or 1, hour or 0, minute or 0, second or 0, tzinfo=UTC)
        begin -= _offset(parts[7])
        if month is None:
            end = begin.replace(year=year + 1)
        elif day is None:
            end = (begin + timedelta(days=31)).replace(day=1)
        else:
            end = begin + (timedelta(days=1) if hour is None else timedelta(seconds=60 if second is None else 1))
    except (ValueError, OverflowError):
        return UNKNOWN
    return UNKNOWN if begin.timestamp() > now else round(end.timestamp())


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone == "Z":
        return timedelta()
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return timedelta(minutes=minutes if zone[0] == "+" else -minutes)
