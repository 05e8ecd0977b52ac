"""Says why a selector finds nothing on a page: the names that the page has, and the nearest of them."""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from selectolax.lexbor import LexborNode

from crawl_engine.errors import find_similar, quote_text
from crawl_engine.extract.documents.json_expression import list_names
from crawl_engine.extract.documents.json_value import MISSING
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.select.node_value import CONTENT_ATTRIBUTES, JsonValue, read_node
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector_syntax import (
    EMBEDDED_PREFIX,
    JMESPATH_PREFIX,
    JSONLD_PREFIX,
    XPATH_PREFIX,
    split_embedded,
    split_json_ld,
    split_table,
)
from crawl_engine.extract.select.selectors import compile_selector
from crawl_engine.extract.select.table_grid import find_table
from crawl_engine.late_regex import late_regex

if TYPE_CHECKING:
    from crawl_engine.extract.select.node_value import SelectedNode

_MAX_ELEMENTS, _MAX_NAMES, _SHOWN_NAMES, _SHOWN_CHARACTERS = 3_000, 2_000, 8, 60
_CSS_NAMES = late_regex(
    r"\.(?P<class>[\w-]+)|#(?P<id>[\w-]+)|\[\s*(?P<attribute>[\w:-]+)|(?<![\w:(-])(?P<tag>[A-Za-z][\w-]*)"
)
_CSS_VALUES = late_regex(r"\"[^\"]*\"|'[^']*'|::?[\w-]+|=\s*[^\]\s]+")
_XPATH_NAMES = late_regex(
    r"@(?P<attribute>[\w:-]+)|[\"'](?P<class>[\w-]+)[\"']|(?:/|::)(?P<tag>[A-Za-z][\w-]*)(?![\w(:-])"
)
_WRITTEN = {"class": ".", "id": "#", "attribute": "@", "tag": ""}


class Slip(NamedTuple):
    """Why nothing was found."""

    text: str
    is_sure: bool
    """Whether the page has a name, or a text, that shows it."""


def explain_selector(text: str, scope: Scope) -> Slip:
    """Why a selector matches nothing in a page or block."""
    bare = text.strip()
    table = split_table(bare)
    if table is not None:
        nodes = compile_selector(table[0]).all(scope)
        if any(not isinstance(node, str | JsonValue) and find_table(node) is not None for node in nodes):
            return Slip("its table has nothing beside its headings", is_sure=False)
        return Slip("no table is there", is_sure=True) if nodes else explain_selector(table[0], scope)
    if bare.startswith(JMESPATH_PREFIX):
        return _explain_keys(bare.removeprefix(JMESPATH_PREFIX).strip(), scope.value)
    if bare.startswith(JSONLD_PREFIX):
        return _explain_json_ld(bare.removeprefix(JSONLD_PREFIX).strip(), scope.page.root)
    if bare.startswith(EMBEDDED_PREFIX):
        bare, expression = split_embedded(bare)
        nodes = compile_selector(f"{EMBEDDED_PREFIX}{bare}): @").all(scope)
        values = [node.value for node in nodes if isinstance(node, JsonValue)]
        if values:
            return _explain_keys(expression, values[0] if len(values) == 1 else values)
    return _explain_markup(bare, scope)


def explain_header(name: str, page: Page) -> Slip:
    """Why an answer gives no value of a header."""
    names = [written for written, _ in page.headers]
    return Slip("", is_sure=False) if name.lower() in names else _choose(name.lower(), names, "headers are", "")


def explain_column(heading: str, headings: Collection[str]) -> Slip:
    """Why a table has no column, or row, of that heading."""
    return _choose(" ".join(heading.split()), headings, "the headings are", "")


def explain_values(nodes: "Iterable[SelectedNode]", attribute: str, match: str | None, *, maps: bool) -> Slip:
    """Why the elements or values that a selector matches give no value."""
    nodes = list(islice(nodes, _MAX_ELEMENTS))
    texts = (" ".join((read_node(node, attribute) or "").split()) for node in nodes)
    sample = quote_text(next(filter(None, texts), "")[:_SHOWN_CHARACTERS])
    if sample != quote_text(""):
        what = "`match` matches none" if match is not None else "`map` has none" if maps else "nothing is left"
        if match is not None and maps:
            what = "`match` and `map` leave nothing"
        return Slip(f"{what} of its texts, such as {sample}", is_sure=True)
    names = _attributes_of(nodes)
    if attribute not in CONTENT_ATTRIBUTES:
        return _choose(attribute, names, "its elements have the attributes", "attribute: ")
    return Slip(f"its elements have no text{_list(names, ', and the attributes')}", is_sure=False)


def _explain_markup(selector: str, scope: Scope) -> Slip:
    page = scope.page
    if page.kind not in ("html", "xml"):
        return Slip(f"the page is {page.kind.upper()}, which has no elements", is_sure=True)
    if scope.node is not None and compile_selector(selector).first(Scope(page)) is not None:
        return Slip("it matches outside of the block: `scope: page` reads the whole page", is_sure=True)
    is_xpath = selector.startswith(XPATH_PREFIX)
    found = _names_of(_elements_of(Scope(page)))
    bare = selector if is_xpath else _CSS_VALUES.sub(" ", selector)
    for match in (_XPATH_NAMES if is_xpath else _CSS_NAMES).finditer(bare):
        kind, name = str(match.lastgroup), match[str(match.lastgroup)]
        known = found["class"] | found["id"] if is_xpath and kind == "class" else found[kind]
        if name not in known and name.lower() not in known:
            return _choose(name, known, "", "" if is_xpath and kind == "class" else _WRITTEN[kind])
    return Slip("", is_sure=False)


def _explain_keys(expression: str, value: Any) -> Slip:
    """Why an expression finds nothing: a key is not there, nor at its place, if the expression is a path."""
    if value is MISSING:
        return Slip("", is_sure=False)
    known = _keys_of(value)
    for name in re.findall(r'"[^"]+"|[\w@-]+', expression) if re.fullmatch(r"[\w@.\[\]\"-]+", expression) else ():
        bare = name.strip('"')
        if bare.isdecimal() or bare == "@":
            continue
        values = value if isinstance(value, list) else [value]
        values = [one for one in values[:_MAX_NAMES] if isinstance(one, dict)]
        if not any(bare in one for one in values):
            names = dict.fromkeys([key for one in values for key in one])
            return _choose(bare, names or known, "the keys there are" if names else "", "")
        value = [part for one in values for part in _as_list(one.get(bare))]
    slips = [_choose(bare, known, "", "") for bare in sorted(list_names(expression)) if bare not in known]
    return next((slip for slip in slips if slip.is_sure), slips[0] if slips else Slip("", is_sure=False))


def _explain_json_ld(text: str, page: Page) -> Slip:
    type_, path = split_json_ld(text)
    if type_ not in page.json_ld:
        return _choose(type_, page.json_ld.keys(), "the types of its JSON-LD are", "")
    return _explain_keys(path, [*page.json_ld[type_]]) if path else Slip("", is_sure=False)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _keys_of(value: Any) -> dict[str, None]:
    """The keys at any place of a value."""
    keys: dict[str, None] = {}
    todo, seen = [value], 0
    while todo and seen < _MAX_ELEMENTS:
        one, seen = todo.pop(), seen + 1
        if isinstance(one, dict):
            keys |= dict.fromkeys(one)
            todo.extend(one.values())
        elif isinstance(one, list):
            todo.extend(one[:_MAX_NAMES])
    return keys


def _choose(name: str, known: Collection[str], listed: str, mark: str) -> Slip:
    """The nearest of the known names; else, if `listed` says what they are, the first of them."""
    names = list(islice(known, _MAX_NAMES))
    similar = find_similar(name, names) or next((one for one in names if one.lower() == name.lower()), None)
    if similar is not None:
        return Slip(f"did you mean `{mark}{similar}`?", is_sure=True)
    return Slip(_list(names, listed) if listed else f"no `{mark}{name}` is there", is_sure=False)


def _list(names: Iterable[str], what: str) -> str:
    shown = [f"`{name}`" for name in islice(names, _SHOWN_NAMES)]
    return f"{what} {', '.join(shown)}" if shown else ""


def _elements_of(scope: Scope) -> "Iterator[Any]":
    """The first elements of a page."""
    if scope.page.tree is not None:
        return islice(iter(scope.page.tree.css("*")), _MAX_ELEMENTS)
    element = scope.page.element
    return iter(()) if element is None else islice(element.iter("*"), _MAX_ELEMENTS)


def _names_of(elements: Iterable[Any]) -> dict[str, dict[str, None]]:
    """The names of elements by what they are."""
    found: dict[str, dict[str, None]] = {"class": {}, "id": {}, "attribute": {}, "tag": {}}
    for element in elements:
        found["tag"][str(element.tag).rpartition("}")[2]] = None
        for name, value in _attributes(element):
            found["attribute"][name] = None
            if name == "class":
                found["class"] |= dict.fromkeys((value or "").split())
            elif name == "id" and value:
                found["id"][value] = None
    return found


def _attributes_of(nodes: "Iterable[SelectedNode]") -> dict[str, None]:
    elements = [node for node in nodes if not isinstance(node, str | JsonValue)]
    return dict.fromkeys([name for element in elements for name, _ in _attributes(element)])


def _attributes(element: Any) -> Iterable[tuple[str, str | None]]:
    return (element.attributes if isinstance(element, LexborNode) else dict(element.attrib)).items()
