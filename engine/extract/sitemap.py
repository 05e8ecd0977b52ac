"""Sitemaps (sitemaps.org, protocol 0.9): which pages and which further sitemaps a file names."""

from collections.abc import Sequence


def parse_sitemap(text: str) -> tuple[Sequence[str], Sequence[str]]:
    """URLs of pages, and of sitemaps, as written; a plain list of URLs, one a line, counts as pages."""
    if "<" not in text:
        return [line.strip() for line in text.splitlines() if line.strip()], []
    from lxml import etree

    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, remove_comments=True)
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError):
        return [], []
    found: dict[str, list[str]] = {"url": [], "sitemap": []}
    for element in root.iter("{*}loc") if root is not None else ():
        parent = element.getparent()
        kind = etree.QName(parent).localname if parent is not None else ""
        if kind in found and element.text and element.text.strip():
            found[kind].append(element.text.strip())
    return found["url"], found["sitemap"]
