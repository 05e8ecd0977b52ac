"""Detects markup that would choke a parser: tags nested too deep, formatting reopened too often.

The checks read the bytes and build no tree.
"""

import re

from engine.extract.markup import FORMATTING_NAMES, Markup

MAX_OPEN_TAGS = 10_000
"""Depth of open tags; deeper documents cost the parser and the selectors minutes."""

MAX_REOPENED_ELEMENTS = 1_000_000
"""Elements that the parser may create by reopening formatting tags; each takes about 0.45 KB."""

_PIECES, _PIECES_FOR = 64, 8
_MAX_SCAN_STEPS = 2_000_000
_MIN_CHECKED_TAGS = 2_000

_TAG = re.compile(rb"<(/?[a-z][^\s/>]*)(?:[^<>]*?(/)>)?")

_VOID = frozenset(b"area base basefont bgsound col embed frame input keygen link param source track wbr".split())
_IMPLIED = frozenset(b"caption colgroup option tbody td tfoot th thead tr".split())
# These end a foreign (svg, math) region or are void there too, so they never nest.
_NEVER_NESTED = frozenset(b"p br hr img meta".split())
# The next start tag of the same name closes them, unless an element lies between that counts itself.
_SELF_CLOSED = frozenset(b"a nobr".split())
_HEADINGS = frozenset(b"h1 h2 h3 h4 h5 h6".split())
# The start tag of an item closes an open item of its list, unless a special element other than these lies between.
_ITEMS = {b"li": (b"li",), b"dd": (b"dd", b"dt"), b"dt": (b"dd", b"dt")}
_INSIDE_ITEMS = frozenset(b"address div".split())
_BARRIERS = frozenset(b"applet html marquee object table template".split())
_SPECIAL = _BARRIERS | frozenset(
    b"address article aside blockquote body button center dd details dir div dl dt fieldset figcaption figure footer"
    b" form frameset h1 h2 h3 h4 h5 h6 head header hgroup iframe li listing main menu nav noembed noframes noscript ol "
    b"optgroup plaintext pre script search section select style summary textarea title ul xmp".split()
)

_SCOPED = _SPECIAL - frozenset((b"optgroup", b"noscript"))
"""Their end tags close what is open inside of them; those of the two end at a special element."""

_ITEM_BARRIERS = {tag: _SPECIAL - _INSIDE_ITEMS - {tag} for tag in _ITEMS}

# In svg and math these end the foreign region.
_BREAKOUTS = frozenset(
    b"b big blockquote body br center code dd div dl dt em embed font h1 h2 h3 h4 h5 h6 head hr i img li listing menu"
    b" meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var /p /br".split()
)
_FOREIGN = {b"svg": b"svg ", b"math": b"math "}
"""Roots of foreign regions, and what stands before the names of open elements in them."""
_INTEGRATION_POINTS = frozenset(
    [b"svg " + name for name in b"foreignobject desc title".split()]
    + [b"math " + name for name in b"mi mo mn ms mtext".split()]
)
"""Foreign elements whose content is HTML."""
_AMBIGUOUS = (b"<annotation-xml", b"<font")
"""Whether what is in the first, and behind the second, is HTML depends on attributes: then nothing counts as flat."""

_FORMATTING = re.compile(rb"<(?:(" + FORMATTING_NAMES + rb")[\s/]|/(" + FORMATTING_NAMES + rb")[\s/>]|[a-z])")

_MAX_REOPENED_PLAIN = 3 * 13
_FORMATTING_TAG = re.compile(rb"<(/?)" + FORMATTING_NAMES + rb"[\s/>]")


def nests_too_deep(markup: Markup) -> bool:
    """Whether HTML nests more than `MAX_OPEN_TAGS` tags.

    Void elements and elements with an implied end tag do not count. End tags count as the parser treats them:
    one without a matching start tag, or behind a block element, changes nothing. A page where start tags
    nowhere outnumber end tags by that many is not scanned: thousands of end tags without a start tag could hide its
    depth, and cost the extraction process its CPU limit.
    Free below 10,000 tags; else two counts (≈ 1.5 µs a KB), or about 0.3 µs a tag.
    """
    if markup.tags <= MAX_OPEN_TAGS:
        return False
    pieces = max(_PIECES, _PIECES * markup.tags // (_PIECES_FOR * MAX_OPEN_TAGS))  # each with few start tags
    return _leaves_open(markup.text, MAX_OPEN_TAGS, pieces) and _opens_more_tags(markup.lower, MAX_OPEN_TAGS)


def _leaves_open(markup: bytes, limit: int, pieces: int) -> bool:
    """Whether start tags outnumber end tags by more than `limit` at some place, about: read in pieces."""
    size = len(markup) // pieces + 1
    left_open = 0
    for start in range(0, len(markup), size):
        ended = markup.count(b"</", start, start + size)
        started = markup.count(b"<", start, start + size) - ended
        if left_open + started > limit:
            return True
        left_open = max(0, left_open + started - ended)
    return False


def _opens_more_tags(markup: bytes, limit: int) -> bool:
    """Whether more than `limit` tags are open at one place of lower-case HTML."""
    has_foreign = b"<svg" in markup or b"<math" in markup
    return _OpenTags(is_mixed=has_foreign and any(tag in markup for tag in _AMBIGUOUS)).exceed(limit, markup)


class _OpenTags:
    """The open tags at one place. Names in a foreign region begin with its own, as in `svg path`."""

    def __init__(self, *, is_mixed: bool) -> None:
        """`is_mixed`: whether HTML and foreign elements cannot be distinguished."""
        self._is_mixed = is_mixed
        self._flat = _NEVER_NESTED if is_mixed else _NEVER_NESTED | _VOID | _IMPLIED | _SELF_CLOSED
        self._stack: list[bytes] = []
        self._counts: dict[bytes, int] = {}
        self._flat_open = 0
        """Flat tags that are open behind the last one of the stack, about."""
        self._steps = 0

    def exceed(self, limit: int, markup: bytes) -> bool:
        """Whether more than `limit` are open anywhere in lower-case HTML, or the scan takes too many steps."""
        stack = self._stack
        for tag, self_closing in _TAG.findall(markup):
            top = stack[-1] if stack else b""
            if b" " in top and self._handle_foreign(tag, top, closed=bool(self_closing)):
                pass
            elif tag[0] == 0x2F:
                self._end(tag[1:])
            elif tag not in self._flat:
                self._start(tag, closed=bool(self_closing))
            elif tag not in _NEVER_NESTED and tag not in _VOID:
                self._flat_open += 1
            if len(stack) > limit or self._steps > _MAX_SCAN_STEPS:
                return True
        return False

    def _handle_foreign(self, tag: bytes, top: bytes, *, closed: bool) -> bool:
        """Open or close what a tag does in the region of `top`; False: it is a tag of HTML, and may end the region."""
        region, is_end = top.partition(b" ")[0] + b" ", tag[0] == 0x2F
        if tag in _BREAKOUTS and top not in _INTEGRATION_POINTS and (is_end or not self._is_mixed):
            while self._stack and b" " in self._stack[-1] and self._stack[-1] not in _INTEGRATION_POINTS:
                self._close(1)
            return False
        if is_end:
            return self._end_foreign(region + tag[1:])
        if tag in _NEVER_NESTED if self._is_mixed else top in _INTEGRATION_POINTS:
            return False
        if not closed:
            self._open(region + tag)
        return True

    def _end_foreign(self, name: bytes) -> bool:
        """Close up to a foreign element; False: none of that name is open behind the last HTML element."""
        if not self._counts.get(name):
            return False
        for count, opened in enumerate(reversed(self._stack), 1):
            if opened == name or b" " not in opened:
                self._steps += count
                if opened == name:
                    self._close(count)
                return opened == name
        return False

    def _start(self, tag: bytes, *, closed: bool) -> None:
        if tag in _FOREIGN:
            if not closed:
                self._open(_FOREIGN[tag] + tag)
            return
        for item in _ITEMS.get(tag, ()):
            if self._counts.get(item):
                self._close(self._find(item, _ITEM_BARRIERS[item]))
        if tag in _HEADINGS and self._stack and self._stack[-1] in _HEADINGS and not self._flat_open:
            self._close(1)
        elif tag in (b"button", b"select") and self._counts.get(tag):
            self._close(self._find(tag, _BARRIERS))
            if tag == b"select":  # it stands for the end tag
                return
        elif tag == b"form" and self._counts.get(tag) and not self._counts.get(b"template"):
            return  # forms do not nest
        self._open(tag)

    def _end(self, name: bytes) -> None:
        if not self._counts.get(name):
            self._flat_open = max(0, self._flat_open - (name in self._flat))
        elif name == b"form":  # what is open inside of it stays open
            if count := self._find(name, _BARRIERS):
                self._counts[self._stack.pop(-count)] -= 1
        else:
            self._close(self._find(name, _BARRIERS if name in _SCOPED else _SPECIAL))

    def _open(self, tag: bytes) -> None:
        self._flat_open = 0
        self._stack.append(tag)
        self._counts[tag] = self._counts.get(tag, 0) + 1

    def _close(self, count: int) -> None:
        self._flat_open = 0
        for _ in range(count):
            self._counts[self._stack.pop()] -= 1

    def _find(self, name: bytes, barriers: frozenset[bytes]) -> int:
        """How many open tags close with the last `name`; 0 where one of the barriers stops it."""
        for count, tag in enumerate(reversed(self._stack), 1):
            if tag == name:
                self._steps += count
                return count
            if tag in barriers or tag in _INTEGRATION_POINTS:
                self._steps += count
                return 0
        return 0


def may_reopen(markup: Markup, elements: int) -> bool:
    """Whether the parser may make more elements than that of unclosed formatting tags.

    Free for few tags (632 for 100,000 elements), then about 30 ns a tag, and for many tags 0.2 µs a formatting tag.
    """
    tags = markup.tags
    if tags * tags <= 4 * elements:  # half of them opened, and repeated in each of the other half
        return False
    # of identical tags three are repeated, and those without attributes are few
    if (markup.formatting_tags + _MAX_REOPENED_PLAIN) * tags <= elements:
        return False
    return _most_open_formatting_tags(markup.lower) * tags > elements


def _most_open_formatting_tags(markup: bytes) -> int:
    """At most so many formatting tags are open at one place; links do not count."""
    open_total = most = 0
    for end in _FORMATTING_TAG.findall(markup):
        if not end:
            open_total += 1
            most = max(most, open_total)
        elif open_total:
            open_total -= 1
    return most


def may_search_long(markup: Markup, steps: int) -> bool:
    """Whether the parser may look at more open tags than that: `<hr>` in thousands of `<q>` searches all for a `<p>`.

    Free for few tags (4,000 for 4,000,000 steps); else two counts, or about 0.3 µs a tag.
    """
    tags = markup.tags
    if tags * tags <= 4 * steps:  # half of them opened, and searched for each of the other half
        return False
    limit = steps // tags
    pieces = max(_PIECES, _PIECES * tags // (_PIECES_FOR * limit))
    return _leaves_open(markup.text, limit, pieces) and _opens_more_tags(markup.lower, limit)


def reopens_too_many(markup: Markup) -> bool:
    """Whether the parser would create more than `MAX_REOPENED_ELEMENTS` elements from unclosed formatting tags.

    HTML reopens an unclosed `<b>` or `<font>` in every block that follows: 2,000 of them before 2,000 blocks, 45 KB,
    become 4,000,000 elements and 1.8 GB. Only tags with attributes count: of identical tags three are reopened.
    Free below 2,000 tags; else about 60 ns a tag, 0.3 µs a formatting tag.
    """
    if markup.tags <= _MIN_CHECKED_TAGS or markup.formatting_tags * markup.tags <= MAX_REOPENED_ELEMENTS:
        return False
    open_counts: dict[bytes, int] = {}
    open_total = reopened = 0
    for opened, closed in _FORMATTING.findall(markup.lower):
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
