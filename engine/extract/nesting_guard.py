"""How deep the tags of a text nest, judged before it is parsed. Reads bytes once, left to right; builds no tree."""

import re

MAX_OPEN_TAGS = 10_000
"""Open tags above each other; deeper documents cost the parser and the selectors minutes."""

_MIN_TAG_BYTES = 3
_MAX_SCAN_STEPS = 2_000_000

_TAG = re.compile(rb"<(/?[a-z][^\s/>]*)(?:[^<>]*?(/)>)?")

_VOID = frozenset(b"area base basefont bgsound col embed frame input keygen link param source track wbr".split())
_IMPLIED = frozenset(b"caption colgroup option tbody td tfoot th thead tr".split())
# These end a foreign (svg, math) region or are void there too, so they never pile up anywhere.
_NEVER_NESTED = frozenset(b"p li dd dt br hr img meta".split())
_BARRIERS = frozenset(b"applet html marquee object table template".split())
_SPECIAL = _BARRIERS | frozenset(
    b"address article aside blockquote body button center details dir div dl fieldset figcaption figure footer form "
    b"frameset h1 h2 h3 h4 h5 h6 head header hgroup iframe listing main menu nav noembed noframes noscript ol "
    b"optgroup plaintext pre script search section select style summary textarea title ul xmp".split()
)


def nests_too_deep(markup: bytes) -> bool:
    """Whether lower-case HTML opens more than `LIMIT` tags within each other.

    Void elements, and those whose end tag HTML implies, are not counted. End tags count as the parser
    heeds them: one that closes nothing, or is cut off by a block element, changes nothing.
    Free below 30,000 bytes, two counts (≈ 1 µs a KB) below 10,000 start tags, else about 0.3 µs a tag.
    """
    if len(markup) <= MAX_OPEN_TAGS * _MIN_TAG_BYTES:
        return False
    tags = markup.count(b"<")
    if tags <= MAX_OPEN_TAGS or tags - markup.count(b"</") <= MAX_OPEN_TAGS:
        return False
    foreign = b"<svg" in markup or b"<math" in markup
    flat = _NEVER_NESTED if foreign else _NEVER_NESTED | _VOID | _IMPLIED
    stack: list[bytes] = []
    held: dict[bytes, int] = {}
    steps = 0
    for tag, closed in _TAG.findall(markup):
        if tag[0] != 0x2F:
            if tag in flat or (closed and foreign and tag not in _SPECIAL):
                continue
            stack.append(tag)
            held[tag] = held.get(tag, 0) + 1
            if len(stack) > MAX_OPEN_TAGS:
                return True
        elif held.get(tag[1:]):
            reach = _count_closed(stack, tag[1:])
            steps += abs(reach)
            if steps > _MAX_SCAN_STEPS:
                return True
            for _ in range(reach):
                held[stack.pop()] -= 1
    return False


def _count_closed(stack: list[bytes], name: bytes) -> int:
    """How many open tags an end tag closes; not above 0 (the steps looked, negated) when it is cut off."""
    walls = _BARRIERS if name in _SPECIAL else _SPECIAL
    for count, tag in enumerate(reversed(stack), 1):
        if tag == name:
            return count
        if tag in walls:
            return -count
    return 0
