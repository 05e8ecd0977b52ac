"""Writes the selectors of a table as selectors of records."""

import itertools
import re
from collections.abc import Mapping

from msgspec import Struct

from engine.defs.conversion.notes import NotConvertible
from engine.extract.axis_finder import render_selector
from engine.extract.selector_syntax import XPATH_PREFIX, selector_problem, split_attribute
from engine.model.axis import SelectorFlavour
from engine.model.variables import variable_names

_TEXT_TEST = re.compile(r":(?:contains|containsOwn|matches|matchesOwn)\(")
_BROWSER_PART = re.compile(r"\b(?:tbody|colgroup)\b|\btable\s*(?:\[[^\]]*\]\s*)*/\s*tr\b")
"""XPath that sees whether a table has the parts that a browser adds."""
_OUTWARD = re.compile(r"\b(?:ancestor|parent|preceding|following)[a-z-]*\s*::|\.\.|(?<![\w-])id\s*\(")
"""XPath that may leave its block."""
_CALL = re.compile(r"(normalize-space|string)\((.*)\)", re.DOTALL)
_TAG = re.compile(r"[A-Za-z][\w-]*|\*")
_CONTENTS = frozenset(("text", "ownText", "html", "outerHtml"))
"""Attributes of a page that a field cannot name: there they mean its content."""

MISSED_BLOCK = "is searched for below the block; in the table the block itself counts, too"
"""What is said of a selector with `misses_block`."""


class RecordSelector(Struct, frozen=True, kw_only=True):
    """A selector of record mode, and what it reads."""

    selector: str
    attribute: str | None = None
    """None: the text, or what an XPath selects."""
    all: bool = False
    """Whether it matches an element and all those in it, so that only all matches together have the text."""
    misses_block: bool = False
    """Whether the selector of the table may match the block itself, too."""


def fill(text: str, texts: Mapping[str, str], flavour: SelectorFlavour) -> str:
    """The selector with its variables replaced. Raises NotConvertible if one has a value for each row."""
    varying = [name for name in variable_names(text) if name not in texts]
    if varying:
        raise NotConvertible(f"`%{{{varying[0]}}}` changes from row to row, and a selector of a record is constant")
    return render_selector(text, flavour, texts)


def spread(text: str, variable: str, first: int, last: int | None, flavour: SelectorFlavour) -> str:
    """The selector that matches at all indexes where it matched at the one of the variable. Raises NotConvertible."""
    mark = re.escape(f"%{{{variable}}}")
    if first == last:
        return re.sub(mark, str(first), text)
    if flavour == "xpath":
        bounds = [f"position() >= {first}"] * (first > 1) + [f"position() <= {last}"] * (last is not None)
        spread_text, count = re.subn(
            rf"\[\s*{mark}\s*\]", lambda _: f"[{' and '.join(bounds)}]" if bounds else "", text
        )
    else:
        ends = [f"n+{first}"] * (first > 1) + [f"-n+{last}"] * (last is not None)
        spread_text, count = re.subn(
            rf":(nth-(?:last-)?(?:child|of-type))\(\s*{mark}\s*\)",
            lambda match: "".join(f":{match.group(1)}({end})" for end in ends),
            text,
        )
    if count != 1 or f"%{{{variable}}}" in spread_text:
        example = "[%{item.index}]" if flavour == "xpath" else ":nth-child(%{item.index})"
        raise NotConvertible(f"`%{{{variable}}}` must stand once, as the whole of a position such as `{example}`")
    return spread_text


def block_selector(text: str, flavour: SelectorFlavour) -> str:
    """The `block` of records. Raises NotConvertible."""
    _check(text, flavour, in_page=True)
    return _checked(f"{XPATH_PREFIX} {text}" if flavour == "xpath" else text)


def in_block(block: str, text: str, flavour: SelectorFlavour) -> RecordSelector:
    """A selector of a field in a block. Raises NotConvertible."""
    _check(text, flavour, in_page=True)
    if flavour == "xpath":
        if _OUTWARD.search(text) or text.lstrip("( ").startswith("/"):
            raise NotConvertible(f"`{text}` leaves the block, and a field sees the inside of its block only")
        return RecordSelector(selector=_checked(f"{XPATH_PREFIX} {text}"))
    css, attribute = _split_css(text)
    if not css:
        raise NotConvertible("a selector is empty")
    may_be_block = bool(_outside(block + css, ",")) or _merge(block, css) is not None
    misses_block = may_be_block and len(_parts(css)) == 1
    if misses_block and _means_block(block, css):
        raise NotConvertible(f"`{css}` may be meant to match the block itself, which a field cannot select")
    return RecordSelector(selector=_checked(css), attribute=attribute, all=_ends_in_any(css), misses_block=misses_block)


def on_page(block: str, text: str, flavour: SelectorFlavour, *, as_written: bool = False) -> RecordSelector:
    """One selector of a page for those of a block and of a value in it. Raises NotConvertible.

    `as_written`: XPath is to read the page as it is written, without what a browser adds.
    """
    _check(block, flavour, in_page=as_written)
    _check(text, flavour, in_page=as_written)
    if flavour == "xpath":
        return RecordSelector(selector=_checked(f"{XPATH_PREFIX} {_join_xpath(block, text)}"))
    css, attribute = _split_css(text)
    if block == "html":
        return RecordSelector(selector=_checked(css), attribute=attribute, all=_ends_in_any(css))
    own, below = _join_css(block, css)
    first, *rest = _parts(css)
    takes_all = _ends_in_any(css)
    if own is None or not _means_block(block, first):
        return RecordSelector(
            selector=_checked(below), attribute=attribute, all=takes_all, misses_block=own is not None
        )
    takes_all |= not rest  # there may be several with the block, and the first one blank
    return RecordSelector(selector=_checked(f"{own}, {below}"), attribute=attribute, all=takes_all)


def text_test(text: str) -> str | None:
    """The first pseudo-class of jsoup in a selector that looks at text, such as `:contains(…)`."""
    match = _TEXT_TEST.search(text)
    return None if match is None else f"{match.group()}…)"


def _check(text: str, flavour: SelectorFlavour, *, in_page: bool) -> None:
    test = text_test(text) if flavour == "css" else None
    if test is not None:
        raise NotConvertible(f"records have no `{test}`")
    if flavour == "xpath" and in_page and _BROWSER_PART.search(text):
        message = "reads a table as browsers build it, with `tbody`; here XPath of a record reads the page as written"
        raise NotConvertible(f"`{text}` {message}")


def _checked(selector: str) -> str:
    problem = selector_problem(selector)
    if problem is not None:
        raise NotConvertible(problem)
    return selector


def _split_css(text: str) -> tuple[str, str]:
    css, attribute = split_attribute(text)
    if attribute in _CONTENTS:
        raise NotConvertible(f"`attribute: {attribute}` means the content in a record, not an attribute of that name")
    return css.strip(), attribute or "ownText"


def _join_css(block: str, selector: str) -> tuple[str | None, str]:
    """The selector with the block as its first part, None where that matches nothing, and the one below the block."""
    if _outside(block, ",") or _outside(selector, ","):
        raise NotConvertible("a selector has a comma, and would have to be written for each of its parts")
    first, *_ = _parts(selector)
    rest = selector[len(first) :]
    below = f"{block} {selector}"
    own = _merge(block, first)
    if own is None or rest.lstrip()[:1] in ("+", "~"):  # a sibling of the block is not in it
        return None, below
    return f"{own}{rest}", below


def _means_block(block: str, compound: str) -> bool:
    """Whether a selector that may match the block is likely to be meant so: `*`, or the tag of the block."""
    return compound[:1] == "*" or _tag(compound) == _tag(_last_part(block)) != ""


def _merge(block: str, first: str) -> str | None:
    """The block, if it matches another compound selector, too; None: it cannot, their tags differ."""
    last = _last_part(block)
    tags = (_tag(last), _tag(first))
    if all(tags) and tags[0] != tags[1]:
        return None
    head = block[: len(block) - len(last)]
    return f"{head}{tags[0] or tags[1]}{_without_tag(last)}{_without_tag(first)}"


def _parts(css: str) -> list[str]:
    """The compound selectors, without what stands between them."""
    gaps = [-1, *_outside(css, " >+~"), len(css)]
    return [css[start + 1 : end] for start, end in itertools.pairwise(gaps) if end > start + 1] or [css]


def _last_part(css: str) -> str:
    return _parts(css)[-1]


def _tag(compound: str) -> str:
    """The tag of a compound selector; empty: any."""
    match = _TAG.match(compound)
    return match.group().lower().strip("*") if match is not None else ""


def _without_tag(compound: str) -> str:
    match = _TAG.match(compound)
    return compound if match is None else compound[match.end() :]


def _ends_in_any(css: str) -> bool:
    return _last_part(css) == "*"


def _join_xpath(block: str, text: str) -> str:
    call = _CALL.fullmatch(text.strip())
    if call is not None:
        return f"{call.group(1)}({_join_xpath(block, call.group(2))})"
    for path in (block, text):
        if _outside(path, "|=<>+,") or re.match(r"\s*(?:\(|[\w-]+\((?<!text\()(?<!node\())", path):
            raise NotConvertible(f"`{path}` is no plain path, which could be joined with another")
    if text.startswith("/"):
        raise NotConvertible(f"`{text}` begins at the root, outside its block")
    inner = text.removeprefix(".") if text.startswith(("./", ".//")) else f"/{text}"
    return block if text == "." else f"{block}{inner}"


def _outside(text: str, characters: str) -> list[int]:
    """Where one of the characters stands outside of brackets and quotes."""
    places: list[int] = []
    depth, quote = 0, ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif not depth and character in characters:
            places.append(at)
    return places
