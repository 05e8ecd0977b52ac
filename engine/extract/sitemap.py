"""Parses sitemaps (sitemaps.org protocol 0.9)."""

from collections.abc import Sequence


def parse_sitemap(text: str) -> tuple[Sequence[str], Sequence[str]]:
    """The URLs of pages and of nested sitemaps, as written. A plain text file lists pages, one URL a line."""
    if "<" not in text:
        return [line.strip() for line in text.splitlines() if line.strip()], []
    from lxml import etree

    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, remove_comments=True)
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError):
        return [], []
    locations: dict[str, list[str]] = {"url": [], "sitemap": []}
    for element in root.iter("{*}loc") if root is not None else ():
        parent = element.getparent()
        kind = etree.QName(parent).localname if parent is not None else ""
        if kind in locations and element.text and element.text.strip():
            locations[kind].append(element.text.strip())
    return locations["url"], locations["sitemap"]
