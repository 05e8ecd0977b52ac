"""Explains to a user who tries a dataDef why links of the page are not followed."""

from collections.abc import Iterable, Iterator
from itertools import islice

from crawl_engine import urls
from crawl_engine.extract.links.links import LinkFinder, has_nofollow, read_hrefs
from crawl_engine.extract.page.page import MAX_URL_CHARACTERS, host_name
from crawl_engine.extract.page.patterns import PatternTimeout
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.node_value import read_node
from crawl_engine.extract.select.scope import Scope

NOT_FOLLOWED = "not followed: "
"""Prefix of such links among the faults of a page."""
NO_LINK = "no link: "
"""Follows it where a selector finds none."""
_MAX_EXPLAINED = 1_000
_MAX_SHOWN = 200


def explain_links(finders: Iterable[LinkFinder], scope: Scope, reading: PageReading) -> None:
    """Add each link that is not followed to the faults of the page, with the reason and the place of its rule."""
    faults = reading.page.faults
    for finder in finders:
        try:
            for href, reason in islice(_list_reasons(finder, scope, reading), _MAX_EXPLAINED):
                shown = f"{href[:_MAX_SHOWN]}: " if href else ""
                faults[f"{NOT_FOLLOWED}{shown}{reason} ({finder.link.place})"] = None
        except (ValueError, PatternTimeout):
            continue  # the link is rejected, and reported as such


def _list_reasons(finder: LinkFinder, scope: Scope, reading: PageReading) -> Iterator[tuple[str, str]]:
    """Each link as written, empty without one, and the reason."""
    link, page, context = finder.link, reading.page, reading.context
    if link.max_depth is not None and context.depth >= link.max_depth:
        yield "all", f"`maxDepth: {link.max_depth}` of the link, and this page is at depth {context.depth}"
        return
    if context.nofollow and context.meta_nofollow and "nofollow" in page.robots(context.agent):
        yield "all", "the page says nofollow"
        return
    is_empty = True
    for node in finder.select(scope):
        is_empty = False
        hrefs = read_hrefs(node, link)
        if not hrefs:
            yield "an element", f"it has no `{link.attribute}`"
        for href in hrefs:
            if context.nofollow and has_nofollow(read_node(node, "rel")):
                yield href, "it is marked nofollow"
            elif finder.resolve_href(href, reading) is None:
                yield href, _reason(finder, href, reading)
    if is_empty and scope.node is None:
        yield "", f"{NO_LINK}`{link.selector}` matches no element"


def _reason(finder: LinkFinder, href: str, reading: PageReading) -> str:
    written = urls.join(reading.page.base, href, keeps_route=True)
    url = finder.find_url(href, reading)
    if url is None:
        if written is not None and len(written) > MAX_URL_CHARACTERS:
            return f"its URL has more than {MAX_URL_CHARACTERS:,} characters"
        return "it is not an http URL"
    replaced = "" if written is None or not finder.link.replace else f", after `replace` {url[:_MAX_SHOWN]}"
    return finder.refusal(url, reading).format(host=host_name(url), replaced=replaced)
