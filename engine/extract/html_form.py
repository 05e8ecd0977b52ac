"""Reads a `<form>` as a browser would submit it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from selectolax.lexbor import LexborNode

if TYPE_CHECKING:
    from lxml.html import FormElement

    from engine.extract.node_value import SelectedNode

_MAX_FIELDS = 1_000
_BUTTONS = "descendant::button[not(@type) or @type='submit'][@name]|descendant::input[@type='submit'][@name]"


@dataclass(frozen=True, slots=True)
class HtmlForm:
    """What a form sends: `action` is a URL as written, empty for that of the page."""

    action: str
    method: str
    fields: tuple[tuple[str, str], ...]
    """Names and values of its controls, hidden ones too, and of its first button."""


def is_form(node: "SelectedNode") -> bool:
    """Whether a selected node is a form."""
    tag = node.tag if isinstance(node, LexborNode) else getattr(node, "tag", None)
    return isinstance(tag, str) and tag.lower() == "form"


def read_form(node: "SelectedNode") -> HtmlForm:
    """The form of a node that `is_form`."""
    form = _parse(node)
    fields = [(str(name), str(value)) for name, value in form.form_values()[:_MAX_FIELDS]]
    buttons = form.xpath(_BUTTONS)
    if buttons and buttons[0].get("disabled") is None:
        fields.append((buttons[0].get("name"), buttons[0].get("value") or ""))
    method = (form.get("method") or "GET").strip().upper()
    return HtmlForm((form.get("action") or "").strip(), "POST" if method == "POST" else "GET", tuple(fields))


def with_query(url: str, fields: str) -> str:
    """The URL that a form with GET asks for: its fields, encoded, replace the query of its action."""
    bare = url.partition("#")[0].partition("?")[0]
    return f"{bare}?{fields}" if fields else bare


def encode_fields(fields: tuple[tuple[str, str], ...]) -> str:
    """The fields as a URL's query."""
    return "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in fields)


def _parse(node: "SelectedNode") -> "FormElement":
    """The form as an element of lxml, which knows what a browser sends of each control; an empty one if unreadable."""
    from lxml import etree, html

    if isinstance(node, LexborNode):
        markup = node.html or "<form></form>"
    else:
        from engine.extract.xpath import outer_html

        markup = outer_html(node)  # type: ignore[arg-type]
    try:
        form = html.document_fromstring(f"<body>{markup}</body>").find(".//form")
    except (etree.LxmlError, ValueError):
        form = None
    return html.fragment_fromstring("<form></form>") if form is None else form
