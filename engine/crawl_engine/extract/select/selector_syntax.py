"""Checks the syntax of selectors and patterns; explains problems in user terms."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

from crawl_engine.errors import suggest
from crawl_engine.late_regex import late_regex

XPATH_PREFIX = "xpath:"
JMESPATH_PREFIX = "jmespath:"
JSONLD_PREFIX = "jsonld:"
TableHeader = Literal["rows", "first", "columns"]
"""`rows`: in those of `thead`, else the leading ones of `th` alone; `first`: in the first row, `columns`: column."""
TABLE_PREFIXES: Mapping[str, TableHeader] = MappingProxyType(
    {"table:": "rows", "table(first):": "first", "table(columns):": "columns"}
)
"""Begin the selector of a table whose body rows, or columns, are the blocks, by where its headings are."""
EMBEDDED_PREFIX = "jmespath("
"""Begins JMESPath on the JSON in an element: `jmespath(CSS): expression`."""
_COMMENT_PREFIX = "comment("
_HEADER = late_regex(r"header:\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)")
_HEADER_VARIABLE = late_regex(r"\s*header:(?:\s|$)")
_CAPTURE = late_regex(r"capture:\s*([A-Za-z][A-Za-z0-9_-]{0,63})")
_MEMBER = late_regex(r"member:\s*(\S(?:[^\x00-\x1f]{0,198}\S)?)")
MAX_LENGTH = 4_000
_ATTRIBUTE = late_regex(r"^(.*\S)\s+attribute:\s*(\S+)\s*$", re.DOTALL)

_JSONLD = late_regex(r"(\w[\w-]*)\s*(?:\.\s*(.+))?", re.DOTALL)

_CSS_HINTS = (
    (late_regex(r"^jmespath\b"), "write `jmespath: …` on JSON, and `jmespath(CSS): …` on the JSON in an element"),
    (late_regex(r"^json-?ld\b", re.IGNORECASE), "write `jsonld: TYPE.path`"),
    (late_regex(r"^table(?:\(\w*\))?:\s"), "write `query: {{table: …}}` for the rows of a table"),
    (late_regex(r"^response\.(?:css|xpath)\(|^soup\.|^\$\("), "write the selector alone, such as `li a`"),
    (late_regex(r"::?text\b"), "`::text` is not CSS; the text is the default, or write `attribute: ownText`"),
    (late_regex(r"::attr\(\s*([^)]*?)\s*\)"), "`::attr(…)` is not CSS; write `attribute: {0}` instead"),
    (
        late_regex(r"::[a-z-]+", re.IGNORECASE),
        "a pseudo-element holds no data; select the element and name an `attribute`",
    ),
    (
        late_regex(r":contains(?:Own)?\(", re.IGNORECASE),
        "`:contains(…)` is not CSS; use `xpath: //…[contains(., 'text')]`",
    ),
    (late_regex(r":matches(?:Own)?\("), "`:matches(…)` is not CSS; select the elements and use `match`"),
    (late_regex(r":(?:eq|gt|lt|first|last|even|odd)\b(?!-)"), "use `:nth-child(…)` or `:nth-of-type(…)` to count"),
    (late_regex(r"^\s*[>+~]|[>+~,]\s*$"), "a selector cannot begin or end with `>`, `+`, `~` or a comma"),
    (late_regex(r"^\s*//?[\w*@.]|\[@"), "this looks like XPath; write `xpath:` before it"),
    (late_regex(r"%\{"), "variables are not supported in selectors"),
)


def selector_problem(text: str) -> str | None:
    """Why a selector (CSS, or with a prefix such as `xpath:`) cannot be used; None when it can."""
    bare = text.strip()
    if not bare:
        return "the selector is empty"
    if len(bare) > MAX_LENGTH:
        return f"the selector is longer than {MAX_LENGTH} characters"
    if "\0" in bare:
        return "the selector contains a NUL character"
    if bare.startswith(XPATH_PREFIX):
        return _xpath_problem(bare.removeprefix(XPATH_PREFIX).strip())
    if bare.startswith(JMESPATH_PREFIX):
        return _jmespath_problem(bare.removeprefix(JMESPATH_PREFIX).strip())
    if bare.startswith(JSONLD_PREFIX):
        return _jsonld_problem(bare.removeprefix(JSONLD_PREFIX).strip())
    if bare.startswith(EMBEDDED_PREFIX):
        return _embedded_problem(bare)
    return _css_problem(bare)


def source_problem(text: str) -> str | None:
    """Why the `from` of a document inside a page cannot be used; None when it can."""
    bare = text.strip()
    if bare.startswith("header:") and not split_header(bare):
        return "write the name of a header behind `header:`, such as `header: X-Items`"
    if bare.startswith("capture:"):
        return None if split_capture(bare) else "write the name of a `capture` of the browser behind `capture:`"
    if bare.startswith("member:"):
        return None if split_member(bare) else "write the name of a file in the archive, such as `member: *.csv`"
    if bare.startswith(_COMMENT_PREFIX):
        css = split_comment(bare)
        return selector_problem(css) if css else "write `comment(CSS)`, such as `comment(#stats)`"
    return None if split_header(bare) else selector_problem(bare)


def split_header(text: str) -> str:
    """The name of `header: NAME`; empty for another source."""
    found = _HEADER.fullmatch(text.strip())
    return "" if found is None else found[1]


def read_header_name(text: str) -> str:
    """The name of `header: NAME` in a variable of `next`; empty for a selector, such as `header:hover`."""
    return split_header(text) if _HEADER_VARIABLE.match(text) else ""


def variable_problem(text: str) -> str | None:
    """Why a variable of `next` cannot be read: by a selector, or by `header: NAME`; None when it can."""
    return source_problem(text) if _HEADER_VARIABLE.match(text) else selector_problem(text)


def split_capture(text: str) -> str:
    """The name of `capture: NAME`; empty for another source."""
    found = _CAPTURE.fullmatch(text.strip())
    return "" if found is None else found[1]


def split_member(text: str) -> str:
    """The pattern of `member: NAME`; empty for another source."""
    found = _MEMBER.fullmatch(text.strip())
    return "" if found is None else found[1]


def split_comment(text: str) -> str:
    """The CSS selector of `comment(CSS)`; empty for another source."""
    bare = text.strip()
    is_whole = bare.startswith(_COMMENT_PREFIX) and bare.endswith(")")
    return bare.removeprefix(_COMMENT_PREFIX)[:-1].strip() if is_whole else ""


def is_json_selector(text: str) -> bool:
    return text.strip().startswith((JMESPATH_PREFIX, JSONLD_PREFIX, EMBEDDED_PREFIX))


def split_table(text: str) -> tuple[str, TableHeader] | None:
    """The selector of a table, and where its headings are; None for another selector."""
    bare = text.strip()
    found = next((prefix for prefix in TABLE_PREFIXES if bare.startswith(f"{prefix} ")), None)
    return None if found is None else (bare.removeprefix(found).strip(), TABLE_PREFIXES[found])


def join_table(selector: str, header: TableHeader) -> str:
    """The selector of the body rows, or columns, of a table."""
    return f"{next(prefix for prefix, rows in TABLE_PREFIXES.items() if rows == header)} {selector.strip()}"


def split_json_ld(text: str) -> tuple[str, str]:
    """The type and the path (empty: the object itself) behind `jsonld:`. Raises `ValueError`."""
    match = _JSONLD.fullmatch(text)
    if match is None:
        what = f"not `{_shorten(text)}`" if text else "but nothing follows"
        raise ValueError(f"`jsonld:` needs a type and then JMESPath, such as `jsonld: Product.offers.price`, {what}")
    return match[1], match[2] or ""


def split_embedded(text: str) -> tuple[str, str]:
    """The CSS selector and the JMESPath expression of `jmespath(CSS): expression`. Raises `ValueError`."""
    end = _closing_parenthesis(text, len(EMBEDDED_PREFIX))
    if end is None:
        raise ValueError("`jmespath(` has no closing parenthesis; write `jmespath(CSS): …`")
    rest = text[end + 1 :].lstrip()
    if not rest.startswith(":"):
        raise ValueError("`jmespath(…)` needs a colon behind its parenthesis; write `jmespath(CSS): …`")
    css, expression = text[len(EMBEDDED_PREFIX) : end].strip(), rest[1:].strip()
    if not css:
        raise ValueError("the parentheses of `jmespath(…)` are empty; write the CSS selector of an element there")
    if not expression:
        raise ValueError("nothing follows `jmespath(…):`; write `@` for the whole JSON")
    return css, expression


def split_attribute(text: str) -> tuple[str, str]:
    """A selector of a table, and the attribute that its suffix ` attribute: href` takes; empty: the text."""
    match = _ATTRIBUTE.match(text)
    return (text, "") if match is None else (match.group(1), match.group(2))


def pattern_problem(text: str) -> str | None:
    """Why a regular expression of the `regex` package cannot be used; None when it can."""
    if len(text) > MAX_LENGTH:
        return f"the pattern is longer than {MAX_LENGTH} characters"
    import regex  # defs without patterns do not load it

    try:
        regex.compile(text)
    except regex.error as error:
        at = "" if error.pos is None else f" at character {error.pos + 1}"
        return f"not a regular expression: {error.msg}{at}"
    except (RecursionError, OverflowError, MemoryError, ValueError, IndexError, KeyError):
        return "this regular expression does not compile; write a simpler one"
    return None


def template_problem(pattern: str, template: str) -> str | None:
    r"""Why a text cannot replace matches of a pattern, or None. `\1` and `\g<name>` are groups."""
    if len(template) > MAX_LENGTH:
        return f"the text is longer than {MAX_LENGTH} characters"
    import regex

    compiled = regex.compile(pattern)
    try:
        compiled.sub(template, "x")  # for an empty text, it would not read the template
    except (regex.error, IndexError, ValueError) as error:
        return f"the text {_shorten(template)} is not a replacement: {error}; a backslash before a digit names a group"
    numbers = [int(number) for number in re.findall(r"\\(?:g<)?([0-9]+)", template.replace("\\\\", ""))]
    if max(numbers, default=0) > compiled.groups:
        return f"the text {_shorten(template)} names group {max(numbers)}, and the pattern has {compiled.groups}"
    return None


def _css_problem(text: str) -> str | None:
    from crawl_engine.extract.select.css import LexborError, read_selector

    try:
        read_selector(text)
    except LexborError:
        for pattern, hint in _CSS_HINTS:
            match = pattern.search(text)
            if match:
                return hint.format(*match.groups())
        return f"not a CSS selector: {_shorten(text)}{_css_break(text)}"
    except UnicodeEncodeError as error:
        return f"not a CSS selector: {error}"
    except ValueError as error:
        return f"not a CSS selector: {_shorten(text)}: {error}"
    return None


def _css_break(text: str) -> str:
    """The place at which cssselect, which keeps positions, gives up; empty if it does not."""
    import cssselect

    try:
        cssselect.parse(text)
    except cssselect.SelectorSyntaxError as error:
        at = re.search(r" at (\d+)>?$", str(error))
        return _describe_break(text, int(at[1])) if at else ""
    return ""


def _describe_break(text: str, index: int) -> str:
    if index >= len(text):
        return "; it breaks off at its end"
    return f"; it breaks at character {index + 1}, `{_shorten(text[index:])}`"


def _xpath_problem(text: str) -> str | None:
    from lxml import etree

    if not text:
        return "nothing follows `xpath:`"
    document = etree.Element("html")
    try:
        for part in (text, *(f"self::*[{predicate}]" for predicate in _predicates(text))):
            # lxml reports unknown functions, prefixes and variables only at evaluation, and evaluates a predicate
            # only when its step matches a node.
            etree.XPath(part, regexp=False)(document)
    except (etree.XPathError, ValueError) as error:
        place = ""
        if isinstance(error, etree.XPathSyntaxError) and part == text:
            place = next((_describe_break(text, entry.column) for entry in error.error_log), "")
        return f"not an XPath expression: {str(error).lower()} in {_shorten(text)}{place}"
    return None


def _predicates(text: str) -> list[str]:
    """The texts between brackets, nested ones too; brackets in quoted strings do not count."""
    predicates: list[str] = []
    starts: list[int] = []
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "[":
            starts.append(at + 1)
        elif char == "]" and starts:
            predicates.append(text[starts.pop() : at])
    return predicates


def _closing_parenthesis(text: str, start: int) -> int | None:
    """The index of the parenthesis that closes the one open at `start`; those in strings do not count."""
    depth, quote, escaped = 1, "", False
    for at in range(start, len(text)):
        char = text[at]
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
            if not depth:
                return at
    return None


def _jsonld_problem(text: str) -> str | None:
    try:
        _, path = split_json_ld(text)
    except ValueError as error:
        return str(error)
    return _jmespath_problem(path) if path else None


def _embedded_problem(text: str) -> str | None:
    try:
        css, expression = split_embedded(text)
    except ValueError as error:
        return str(error)
    if css.startswith((XPATH_PREFIX, JMESPATH_PREFIX, JSONLD_PREFIX)):
        return "the parentheses of `jmespath(…)` take a CSS selector"
    return _css_problem(css) or _jmespath_problem(expression)


def _jmespath_problem(text: str) -> str | None:
    import jmespath
    from jmespath.exceptions import JMESPathError
    from jmespath.functions import Functions

    if not text:
        return "nothing follows `jmespath:`"
    try:
        expression = jmespath.compile(text)
        # the library only looks a function up when it is called
        known = list(Functions.FUNCTION_TABLE)
        unknown = next((name for name in _called_functions(expression.parsed) if name not in known), "")
        if unknown:
            return f"JMESPath has no function `{unknown}`{suggest(unknown, known)}"
    except (JMESPathError, ValueError, RecursionError) as error:
        lines = str(error).splitlines()
        reason = lines[0].partition(": Parse error at")[0].rstrip(": ") if lines else "nested too deep"
        index = getattr(error, "lex_position", None)
        return f"not a JMESPath expression: {reason}{'' if index is None else _describe_break(text, int(index))}"
    return None


def _called_functions(tree: dict[str, Any]) -> Iterator[str]:
    todo = [tree]
    while todo:
        node = todo.pop()
        if node["type"] == "function_expression":
            yield node["value"]
        todo.extend(child for child in node["children"] if isinstance(child, dict))


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
