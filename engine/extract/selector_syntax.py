"""Whether a selector or a pattern can be parsed, said in a user's words. Knows the grammars; no page, no defs."""

import re

import regex

XPATH_PREFIX = "xpath:"
JMESPATH_PREFIX = "jmespath:"
MAX_LENGTH = 4_000

_CSS_HINTS = (
    (re.compile(r"::?text\b"), "`::text` is not CSS; the text is taken by default, or write `attribute: ownText`"),
    (re.compile(r"::attr\(\s*([^)]*?)\s*\)"), "`::attr(…)` is not CSS; write `attribute: {0}` instead"),
    (
        re.compile(r"::[a-z-]+", re.IGNORECASE),
        "a pseudo-element holds no data; select the element, name an `attribute`",
    ),
    (
        re.compile(r":contains(?:Own)?\(", re.IGNORECASE),
        "`:contains(…)` is not CSS; use `xpath: //…[contains(., 'text')]`",
    ),
    (re.compile(r":matches(?:Own)?\("), "`:matches(…)` is not CSS; select the elements and use `match`"),
    (re.compile(r":(?:eq|gt|lt|first|last|even|odd)\b(?!-)"), "use `:nth-child(…)` or `:nth-of-type(…)` to count"),
    (re.compile(r"^\s*[>+~]|[>+~,]\s*$"), "a selector cannot begin or end with `>`, `+`, `~` or a comma"),
    (re.compile(r"^\s*//?[\w*@.]|\[@"), "this looks like XPath; write `xpath:` before it"),
    (re.compile(r"%\{"), "variables cannot stand in a selector"),
)


def selector_problem(text: str) -> str | None:
    """Why a selector (CSS, or with the prefix `xpath:` or `jmespath:`) cannot be used; None when it can.

    The parser libraries are imported on the first use of their flavour. About 3 µs for CSS.
    """
    bare = text.strip()
    if not bare:
        return "the selector is empty"
    if len(bare) > MAX_LENGTH:
        return f"the selector is longer than {MAX_LENGTH} characters"
    if "\0" in bare:
        return "the selector holds a NUL character"
    if bare.startswith(XPATH_PREFIX):
        return _xpath_problem(bare.removeprefix(XPATH_PREFIX).strip())
    if bare.startswith(JMESPATH_PREFIX):
        return _jmespath_problem(bare.removeprefix(JMESPATH_PREFIX).strip())
    return _css_problem(bare)


def pattern_problem(text: str) -> str | None:
    """Why a regular expression of the `regex` package cannot be used; None when it can."""
    if len(text) > MAX_LENGTH:
        return f"the pattern is longer than {MAX_LENGTH} characters"
    try:
        regex.compile(text)
    except regex.error as error:
        at = "" if error.pos is None else f" at character {error.pos + 1}"
        return f"not a regular expression: {error.msg}{at}"
    except (RecursionError, OverflowError, MemoryError, ValueError, IndexError, KeyError):
        return "not a regular expression that can be compiled; write a simpler one"
    return None


def _css_problem(text: str) -> str | None:
    from selectolax.lexbor import LexborHTMLParser, SelectolaxError

    try:
        LexborHTMLParser("").css(text)
    except SelectolaxError:
        for pattern, hint in _CSS_HINTS:
            found = pattern.search(text)
            if found:
                return hint.format(*found.groups())
        return f"not a CSS selector: {_shorten(text)}"
    except ValueError as error:
        return f"not a CSS selector: {error}"
    return None


def _xpath_problem(text: str) -> str | None:
    from lxml import etree

    if not text:
        return "nothing follows `xpath:`"
    nothing = etree.Element("html")
    try:
        for part in (text, *(f"self::*[{judged}]" for judged in _predicates(text))):
            # Unknown functions, prefixes and variables show only when an expression runs, and that of a predicate
            # runs only where there is something to judge.
            etree.XPath(part, regexp=False)(nothing)
    except (etree.XPathError, ValueError) as error:
        return f"not an XPath expression: {str(error).lower()} in {_shorten(text)}"
    return None


def _predicates(text: str) -> list[str]:
    """What stands in brackets, inner ones too; texts in quotes hold none."""
    found: list[str] = []
    begun: list[int] = []
    quote = ""
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign == "[":
            begun.append(at + 1)
        elif sign == "]" and begun:
            found.append(text[begun.pop() : at])
    return found


def _jmespath_problem(text: str) -> str | None:
    import jmespath
    from jmespath.exceptions import JMESPathError

    if not text:
        return "nothing follows `jmespath:`"
    try:
        jmespath.compile(text)
    except (JMESPathError, ValueError, RecursionError) as error:
        told = str(error).splitlines()
        return f"not a JMESPath expression: {told[0].rstrip(': ') if told else 'too deeply nested'}"
    return None


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
