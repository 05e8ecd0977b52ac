"""Reads a `<form>` as a browser would submit it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from selectolax.lexbor import LexborNode

from engine.extract.page.page import Page

if TYPE_CHECKING:
    from lxml.etree import _Element

    from engine.extract.select.node_value import SelectedNode

MAX_FIELDS = 10_000
_CONTROLS = ("input", "select", "textarea", "button")
_BUTTONS = frozenset(("submit", "image"))
_NEVER_SENT = frozenset(("button", "reset", "file", "image"))
_CHECKED = frozenset(("checkbox", "radio"))


class HtmlForm(Struct, frozen=True):
    """The request of a form. `action`: a URL as written; empty: the URL of the page."""

    action: str
    method: str
    fields: tuple[tuple[str, str], ...]
    """Names and values of its controls, hidden ones too, and of its first button."""


def is_form(node: "SelectedNode") -> bool:
    tag = node.tag if isinstance(node, LexborNode) else getattr(node, "tag", None)
    return isinstance(tag, str) and tag.lower() == "form"


def read_form(node: "SelectedNode", page: Page) -> HtmlForm:
    """The form of a node that `is_form`."""
    form = _find_element(node, page)
    if form is None:
        return HtmlForm("", "GET", ())
    fields: list[tuple[str, str]] = []
    has_button = False
    for control in _iter_controls(form):
        kind = _kind_of(control)
        if kind in _BUTTONS and (has_button or _is_disabled(control)):
            continue
        is_button = kind in _BUTTONS
        has_button = has_button or is_button
        if kind in _NEVER_SENT or _is_disabled(control):
            continue
        name = control.get("name")
        if name:
            fields += [(name, value) for value in _values_of(control, kind)]
    if len(fields) > MAX_FIELDS:
        page.faults[f"a form has more than {MAX_FIELDS:,} fields; the others are not sent"] = None
    method = "POST" if (form.get("method") or "").strip().upper() == "POST" else "GET"
    return HtmlForm((form.get("action") or "").strip(), method, tuple(fields[:MAX_FIELDS]))


def with_query(url: str, fields: str) -> str:
    """The URL of a GET form: its encoded fields replace the query of its action."""
    bare = url.partition("#")[0].partition("?")[0]
    return f"{bare}?{fields}" if fields else bare


def _find_element(node: "SelectedNode", page: Page) -> "_Element | None":
    """The form in the tree of lxml: Lexbor moves the controls of a form in a table out of it."""
    if not isinstance(node, LexborNode):
        return node if hasattr(node, "iter") else None  # type: ignore[return-value]
    root, tree = page.element, page.tree
    if root is None or tree is None:
        return _parse_alone(node)
    forms = [*root.iter("form")]
    parsed = tree.css("form")
    index = next((at for at, form in enumerate(parsed) if form.mem_id == node.mem_id), None)
    if index is not None and len(parsed) == len(forms):
        return forms[index]
    return _parse_alone(node)


def _parse_alone(node: LexborNode) -> "_Element | None":
    """The form parsed from its own markup, for a page that the two parsers read differently."""
    from engine.extract.documents.xpath import parse_outer_html

    return parse_outer_html(node.html or "", "form")


def _iter_controls(form: "_Element") -> "Iterator[_Element]":
    """The controls in the form, and those elsewhere on the page that name it, in the order of the page."""
    name = form.get("id")
    root = form.getroottree().getroot() if name else form
    inside = {*form.iter(*_CONTROLS)} if name else None
    for control in root.iter(*_CONTROLS):
        owner = control.get("form")
        belongs = (inside is None or control in inside) if owner is None else owner == name
        if belongs and not any(parent.tag == "template" for parent in control.iterancestors()):
            yield control


def _kind_of(control: "_Element") -> str:
    """The type of a control: that of an input or button, else its tag."""
    tag = str(control.tag)
    if tag == "input":
        return (control.get("type") or "text").strip().lower()
    if tag == "button":
        return "button" if (control.get("type") or "submit").strip().lower() in ("button", "reset") else "submit"
    return tag


def _is_disabled(control: "_Element") -> bool:
    if control.get("disabled") is not None:
        return True
    return any(parent.tag == "fieldset" and parent.get("disabled") is not None for parent in control.iterancestors())


def _values_of(control: "_Element", kind: str) -> Iterator[str]:
    if kind in _CHECKED:
        if control.get("checked") is not None:
            yield control.get("value", "on")
    elif kind == "textarea":
        yield "".join(str(text) for text in control.itertext()).removeprefix("\n")
    elif kind == "select":
        options = [*control.iter("option")]
        chosen = [option for option in options if option.get("selected") is not None]
        if not chosen and control.get("multiple") is None:
            chosen = [option for option in options if option.get("disabled") is None][:1]
        for option in chosen if control.get("multiple") is not None else chosen[-1:]:
            if option.get("disabled") is None:
                value = option.get("value")
                yield " ".join("".join(map(str, option.itertext())).split()) if value is None else value
    else:
        yield control.get("value", "")
