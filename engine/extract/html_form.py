"""Reads a `<form>` as a browser would submit it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborNode

if TYPE_CHECKING:
    from lxml import etree

    from engine.extract.node_value import SelectedNode

_MAX_FIELDS = 1_000


@dataclass(frozen=True, slots=True)
class HtmlForm:
    """What a form sends: `action` is a URL as written, empty for that of the page."""

    action: str
    method: str
    fields: tuple[tuple[str, str], ...]
    """Names and values of its controls, hidden ones too, and of its first button if that has a name."""


def is_form(node: "SelectedNode") -> bool:
    """Whether a selected node is a form."""
    tag = node.tag if isinstance(node, LexborNode) else getattr(node, "tag", None)
    return isinstance(tag, str) and tag.lower() == "form"


def read_form(node: "SelectedNode") -> HtmlForm:
    """The form of a node that `is_form`."""
    form = _parse(node)
    fields = tuple(islice(_fields(form), _MAX_FIELDS))
    method = (form.get("method") or "GET").strip().upper()
    return HtmlForm((form.get("action") or "").strip(), "POST" if method == "POST" else "GET", fields)


def with_query(url: str, fields: str) -> str:
    """The URL that a form with GET asks for: its fields, encoded, replace the query of its action."""
    bare = url.partition("#")[0].partition("?")[0]
    return f"{bare}?{fields}" if fields else bare


def _fields(form: "etree._Element") -> Iterator[tuple[str, str]]:
    """Names and values as a browser sends them when the first button is pressed."""
    pressed = next(filter(_is_submit_button, form.iter("button", "input")), None)
    for control in form.iter("input", "select", "textarea", "button"):
        name = control.get("name")
        if name and not _is_disabled(control):
            for value in _values(control, is_pressed=control is pressed):
                yield str(name), str(value)


def _values(control: "etree._Element", *, is_pressed: bool) -> list[str]:
    value = control.get("value")
    match "button" if control.tag == "button" else _type_of(control) if control.tag == "input" else control.tag:
        case "textarea":
            return [_text_of(control).removeprefix("\n")]
        case "select":
            return _selected(control)
        case "checkbox" | "radio":
            return [] if control.get("checked") is None else ["on" if value is None else value]
        case "button" | "submit":
            return [value or ""] if is_pressed else []
        case "reset" | "image" | "file":
            return []
    return [value or ""]


def _selected(select: "etree._Element") -> list[str]:
    options = [option for option in select.iter("option") if option.get("disabled") is None]
    chosen = [option for option in options if option.get("selected") is not None]
    if select.get("multiple") is None:
        chosen = chosen[-1:] or options[:1]
    return [
        option.get("value") or "" if "value" in option.attrib else " ".join(_text_of(option).split())
        for option in chosen
    ]


def _text_of(element: "etree._Element") -> str:
    return "".join(map(str, element.itertext()))


def _is_submit_button(control: "etree._Element") -> bool:
    if control.tag == "button":
        return _type_of(control) not in ("button", "reset")
    return _type_of(control) in ("submit", "image")


def _is_disabled(control: "etree._Element") -> bool:
    if control.get("disabled") is not None:
        return True
    return any(ancestor.get("disabled") is not None for ancestor in control.iterancestors("fieldset"))


def _type_of(control: "etree._Element") -> str:
    return str(control.get("type") or "").strip().lower()


def _parse(node: "SelectedNode") -> "etree._Element":
    """The form as an element of lxml; an empty one if it cannot be read."""
    from lxml import etree

    if not isinstance(node, LexborNode):
        return node  # type: ignore[return-value]  # it `is_form`
    from engine.extract.xpath import parse_outer_html

    form = parse_outer_html(node.html or "", "form")
    return etree.Element("form") if form is None else form
