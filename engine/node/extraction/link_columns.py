"""The links of a page as columns, on their way from an extraction process to the node."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, repeat
from operator import methodcaller
from typing import Any

from msgspec import Struct

from engine.model.job import KEY_BYTES
from engine.model.link import LinkDetails
from engine.model.record import ExtractedLink, Texts, as_text
from engine.node.extraction.wire_values import count_of, integer_of, text_of
from engine.node.lines import pack_lines, read_lines

_LINKS_PER_STEP = 1_000
"""Links whose keys are compared at once."""
_has_scheme = methodcaller("startswith", ("http://", "https://", "file:///"))


class LinkColumns(Struct, frozen=True, kw_only=True):
    """Links of a page as columns. `runs`: how many in a row have this group, priority, depth and freedom to leave.

    `details`: as many lines as links, empty for most; none at all where all links are plain.
    """

    urls: Texts = ()
    keys: bytes | memoryview = b""
    runs: tuple[tuple[int, str, int, int | None, bool], ...] = ()
    details: Texts = ()

    def to_links(self, is_new: Callable[[bytes], bool] | None = None) -> Iterator[ExtractedLink]:
        """The links whose key `is_new`, one by one, and those that carry values; without it all."""
        urls, lines = iter(self.urls), iter(self.details or repeat(""))
        at = 0
        for count, group, priority, max_depth, may_leave_host in self.runs:
            for left in range(count, 0, -_LINKS_PER_STEP):
                step = min(left, _LINKS_PER_STEP)
                keys = self._keys_of(at, step)
                at += step
                new = set(keys if is_new is None else filter(is_new, keys))
                if not new and not self.details:  # most links of most pages are known: their URLs are passed over
                    deque(islice(urls, step), maxlen=0)
                    continue
                for key, url, line in zip(keys, islice(urls, step), lines, strict=False):
                    if key not in new and not line:
                        continue
                    details = LinkDetails.from_line(as_text(line)) if line else None
                    if key in new or (details is not None and details.carried is not None):
                        yield ExtractedLink(as_text(url), group, priority, max_depth, key, may_leave_host, details)

    def _keys_of(self, start: int, count: int) -> list[bytes]:
        """The keys of so many links."""
        keys = bytes(self.keys[start * KEY_BYTES : (start + count) * KEY_BYTES])
        return [keys[at : at + KEY_BYTES] for at in range(0, len(keys), KEY_BYTES)]


class PackedLinks(Struct, frozen=True):
    """Links as a message holds them: fields of its header, and bytes behind it."""

    fields: dict[str, Any]
    parts: tuple[bytes, ...]
    size: int
    """Bytes of what they unpack to."""


def pack_links(links: Sequence[ExtractedLink]) -> PackedLinks:
    """The message of links."""
    urls, urls_size = pack_lines([link.url for link in links])
    details, details_size = b"", 0
    if any(link.details is not None for link in links):
        details, details_size = pack_lines([link.details.to_line() if link.details else "" for link in links])
    runs: list[list[Any]] = []
    for link in links:
        run = [link.group, link.priority, link.max_depth, link.may_leave_host]
        if runs and runs[-1][1:] == run:
            runs[-1][0] += 1
        else:
            runs.append([1, *run])
    fields = {"links": runs, "urls": (len(urls), urls_size)}
    if details:
        fields["details"] = (len(details), details_size)
    keys = b"".join([link.key for link in links])
    return PackedLinks(fields, (urls, details, keys), urls_size + details_size + len(keys))


def links_size(fields: dict[str, Any]) -> int:
    """The bytes of the URLs and details that a message says it has. Raises ValueError."""
    return count_of(fields["urls"][1]) + count_of(fields.get("details", (0, 0))[1])


def unpack_links(fields: dict[str, Any], body: memoryview) -> LinkColumns:
    """The links of a message. Raises ValueError, TypeError or LookupError where it is none."""
    runs = tuple(
        (
            count_of(count), text_of(group), integer_of(priority),
            None if depth is None else integer_of(depth), leaves is True,
        )
        for count, group, priority, depth, leaves in fields["links"]
    )  # fmt: skip
    packed_urls, urls_size = map(count_of, fields["urls"])
    packed_details, details_size = map(count_of, fields.get("details", (0, 0)))
    total = sum(run[0] for run in runs)
    if len(body) != packed_urls + packed_details + total * KEY_BYTES:
        raise ValueError("sizes do not add up")
    urls = read_lines(body[:packed_urls], total, urls_size)
    if not all(map(_has_scheme, urls if isinstance(urls, tuple) else map(as_text, urls))):
        raise ValueError("a link is neither http nor a file")
    details: Texts = ()
    if packed_details:
        details = read_lines(body[packed_urls : packed_urls + packed_details], total, details_size)
        for line in details:
            if line:
                LinkDetails.from_line(as_text(line))
    keys = body[packed_urls + packed_details :]
    return LinkColumns(urls=urls, keys=bytes(keys) if isinstance(urls, tuple) else keys, runs=runs, details=details)
