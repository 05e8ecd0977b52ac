"""Reads the header `Link` (RFC 8288): the targets of a relation such as `next` or `canonical`."""

from collections.abc import Iterable, Iterator

from crawl_engine.extract.page.page import header_values
from crawl_engine.late_regex import late_regex

_MAX_CHARACTERS = 65_536
"""Of one header: servers do not take longer ones."""
_LINK = late_regex(r"[\s,]*<([^<>]*)>((?:\s*;(?:[^\",;<>]|\"(?:[^\"\\]|\\.)*+\")*+)*+)")
_PARAMETER = late_regex(r";\s*([^\s=;\",]+)\s*(?:=\s*(?:\"((?:[^\"\\]|\\.)*+)\"|([^\s;\",]*)))?")
_ESCAPED = late_regex(r"\\(.)")


def find_linked(headers: Iterable[tuple[str, str]], relation: str) -> str | None:
    """The target, as written, of the first link with this relation (lower case); None: the page names none.

    A link whose `anchor` makes it one of another page does not count.
    """
    for value in header_values(headers, "link"):
        for target, parameters in _iter_links(value[:_MAX_CHARACTERS]):
            if relation in parameters.get("rel", "").lower().split() and not parameters.get("anchor"):
                return target.strip()
    return None


def _iter_links(value: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The links of a header; reading ends at the first part that is none. Of equal parameters the first counts."""
    at = 0
    while (link := _LINK.match(value, at)) is not None:
        parameters: dict[str, str] = {}
        for name, quoted, plain in _PARAMETER.findall(link[2]):
            parameters.setdefault(name.lower(), _ESCAPED.sub(r"\1", quoted) if quoted else plain)
        yield link[1], parameters
        at = link.end()
