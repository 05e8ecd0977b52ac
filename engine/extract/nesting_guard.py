"""Detects markup that would choke a parser: tags nested too deep, formatting reopened too often.

Both checks read the bytes once and build no tree.
"""

import re

MAX_OPEN_TAGS = 10_000
"""Depth of open tags; deeper documents cost the parser and the selectors minutes."""

MAX_REOPENED_ELEMENTS = 1_000_000
"""Elements that the parser may create by reopening formatting tags; each takes about 0.45 KB."""

_MIN_TAG_BYTES = 3
_MAX_SCAN_STEPS = 2_000_000
_MIN_CHECKED_TAGS = 2_000

_TAG = re.compile(rb"<(/?[a-z][^\s/>]*)(?:[^<>]*?(/)>)?")

_VOID = frozenset(b"area base basefont bgsound col embed frame input keygen link param source track wbr".split())
_IMPLIED = frozenset(b"caption colgroup option tbody td tfoot th thead tr".split())
# These end a foreign (svg, math) region or are void there too, so they never nest.
_NEVER_NESTED = frozenset(b"p li dd dt br hr img meta".split())
_BARRIERS = frozenset(b"applet html marquee object table template".split())
_SPECIAL = _BARRIERS | frozenset(
    b"address article aside blockquote body button center details dir div dl fieldset figcaption figure footer form "
    b"frameset h1 h2 h3 h4 h5 h6 head header hgroup iframe listing main menu nav noembed noframes noscript ol "
    b"optgroup plaintext pre script search section select style summary textarea title ul xmp".split()
)

_FORMATTING_NAMES = rb"(?:[bius]|em|tt|big|code|font|nobr|small|strike|strong)"
_FORMATTING_WITH_ATTRIBUTES = re.compile(rb"<" + _FORMATTING_NAMES + rb"[\s/]")
_FORMATTING = re.compile(rb"<(?:(" + _FORMATTING_NAMES + rb")[\s/]|/(" + _FORMATTING_NAMES + rb")[\s/>]|[a-z])")


def nests_too_deep(markup: bytes) -> bool:
    """Whether lower-case HTML nests more than `MAX_OPEN_TAGS` tags.

    Void elements and elements with an implied end tag do not count. End tags count as the parser treats them:
    one without a matching start tag, or behind a block element, changes nothing.
    Free below 30,000 bytes; two counts (≈ 1 µs a KB) below 10,000 start tags; else about 0.3 µs a tag.
    """
    if len(markup) <= MAX_OPEN_TAGS * _MIN_TAG_BYTES:
        return False
    return _opens_more_tags(markup, MAX_OPEN_TAGS)


def exceeds_depth(markup: bytes, depth: int) -> bool:
    """Whether HTML of any case may nest more than `depth` tags: about 0.4 µs a tag, for few start tags nothing."""
    return _opens_more_tags(markup.lower(), depth)


def _opens_more_tags(markup: bytes, limit: int) -> bool:
    tags = markup.count(b"<")
    if tags <= limit or tags - markup.count(b"</") <= limit:
        return False
    foreign = b"<svg" in markup or b"<math" in markup
    flat = _NEVER_NESTED if foreign else _NEVER_NESTED | _VOID | _IMPLIED
    stack: list[bytes] = []
    open_counts: dict[bytes, int] = {}
    steps = 0
    for tag, self_closing in _TAG.findall(markup):
        if tag[0] != 0x2F:
            if tag in flat or (self_closing and foreign and tag not in _SPECIAL):
                continue
            stack.append(tag)
            open_counts[tag] = open_counts.get(tag, 0) + 1
            if len(stack) > limit:
                return True
        elif open_counts.get(tag[1:]):
            closing = _count_closed(stack, tag[1:])
            steps += abs(closing)
            if steps > _MAX_SCAN_STEPS:
                return True
            for _ in range(closing):
                open_counts[stack.pop()] -= 1
    return False


def _count_closed(stack: list[bytes], name: bytes) -> int:
    """How many open tags an end tag closes; zero or the negated number of steps when a barrier stops it."""
    barriers = _BARRIERS if name in _SPECIAL else _SPECIAL
    for count, tag in enumerate(reversed(stack), 1):
        if tag == name:
            return count
        if tag in barriers:
            return -count
    return 0


def reopens_too_many(markup: bytes) -> bool:
    """Whether the parser would create more than `MAX_REOPENED_ELEMENTS` elements from unclosed formatting tags.

    HTML reopens an unclosed `<b>` or `<font>` in every block that follows: 2,000 of them before 2,000 blocks, 45 KB,
    become 4,000,000 elements and 1.8 GB. Only tags with attributes count: of identical tags three are reopened.
    Takes lower-case HTML. One count (0.4 µs a KB) below 2,000 tags; else about 60 ns a tag, 0.3 µs a formatting tag.
    """
    tags = markup.count(b"<")
    if tags <= _MIN_CHECKED_TAGS or len(_FORMATTING_WITH_ATTRIBUTES.findall(markup)) * tags <= MAX_REOPENED_ELEMENTS:
        return False
    open_counts: dict[bytes, int] = {}
    open_total = reopened = 0
    for opened, closed in _FORMATTING.findall(markup):
        if opened:
            open_counts[opened] = open_counts.get(opened, 0) + 1
            open_total += 1
        elif closed:
            if open_counts.get(closed):
                open_counts[closed] -= 1
                open_total -= 1
        else:
            reopened += open_total
            if reopened > MAX_REOPENED_ELEMENTS:
                return True
    return False
