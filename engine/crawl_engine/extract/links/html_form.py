"""Reads a `<form>` as a browser would submit it, for links and for logins."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from selectolax.lexbor import LexborNode

from crawl_engine.encodings import codec_of
from crawl_engine.extract.links.form_controls import CONTROL_TAGS, is_disabled, is_submit, kind_of, read_fields
from crawl_engine.extract.links.form_encoding import (
    MULTIPART_TYPE,
    PLAIN_TYPE,
    URL_ENCODED,
    FormEncoding,
    FormField,
    charset_name,
)
from crawl_engine.extract.page.page import Page
from crawl_engine.model.link import FORM_TYPE, NO_BUTTON

if TYPE_CHECKING:
    from lxml.etree import _Element

    from crawl_engine.extract.select.node_value import SelectedNode

MAX_FIELDS = 10_000


class HtmlForm(Struct, frozen=True):
    """The request of a form. `action`: a URL as written; empty: the URL of the page."""

    action: str
    method: str
    fields: tuple[FormField, ...]
    """What its controls send, hidden ones too, and its chosen button."""
    encoding: FormEncoding = URL_ENCODED

    @property
    def query_encoding(self) -> FormEncoding:
        """How its fields are written in a URL."""
        return FormEncoding(codec=self.encoding.codec)


def is_form(node: "SelectedNode") -> bool:
    tag = node.tag if isinstance(node, LexborNode) else getattr(node, "tag", None)
    return isinstance(tag, str) and tag.lower() == "form"


def read_form(
    node: "SelectedNode", page: Page, written: Sequence[tuple[str, ...]] = (), submit: str | None = None
) -> HtmlForm | None:
    """The form of a node that `is_form`; None if it lacks the button `submit`. `written`: fields of the defs."""
    form = _find_element(node, page)
    if form is None:
        return HtmlForm("", "GET", ())
    controls = [*_iter_controls(form)]
    buttons = [] if submit == NO_BUTTON else [control for control in controls if _may_submit(control, submit)]
    if not buttons and submit not in (None, NO_BUTTON):
        page.faults[f"a form has no button `{submit}` that may be pressed, and is not sent"] = None
        return None
    button = _choose_button(buttons, written)

    def read(name: str) -> str:
        """An attribute of the form; a button may have its own."""
        own = None if button is None else button.get(f"form{name}")
        return (form.get(name) if own is None else own) or ""

    encoding = _encoding_of(form, read("enctype").lower(), page)
    charset = charset_name(encoding.codec)
    checked = {c.get("name"): c for c in controls if kind_of(c) == "radio" and c.get("checked") is not None}
    fields: list[FormField] = []
    for control in controls:
        kind = kind_of(control)
        if is_disabled(control) or (is_submit(control) and control is not button):
            continue
        if kind == "checkbox" and control.get("checked") is None:
            continue
        if kind == "radio" and checked.get(control.get("name")) is not control:
            continue
        fields += read_fields(control, charset)
    if len(fields) > MAX_FIELDS:
        page.faults[f"a form has more than {MAX_FIELDS:,} fields; the others are not sent"] = None
    method = "POST" if read("method").strip().upper() == "POST" else "GET"
    return HtmlForm(read("action").strip(), method, tuple(fields[:MAX_FIELDS]), encoding)


def with_query(url: str, fields: str) -> str:
    """The URL of a GET form: its encoded fields replace the query of its action."""
    bare = url.partition("#")[0].partition("?")[0]
    return f"{bare}?{fields}" if fields else bare


def _may_submit(control: "_Element", submit: str | None) -> bool:
    """Whether a control is a button of that name or id, or any button if that is None."""
    is_named = submit is None or submit in (control.get("name"), control.get("id"))
    return is_named and is_submit(control) and not is_disabled(control)


def _choose_button(buttons: "Sequence[_Element]", written: Sequence[tuple[str, ...]]) -> "_Element | None":
    """The button with a name and value of the defs, else with a name of theirs, else the first."""
    pairs, names = {tuple(pair) for pair in written}, {pair[0] for pair in written}
    for button in buttons:
        if (button.get("name"), button.get("value") or "") in pairs:
            return button
    return next((button for button in buttons if button.get("name") in names), next(iter(buttons), None))


def _encoding_of(form: "_Element", content_type: str, page: Page) -> FormEncoding:
    """How the form is sent: `accept-charset`, else the encoding of its page."""
    accepted = form.get("accept-charset")
    if accepted is not None:
        codec = next(filter(None, map(codec_of, accepted.split())), "utf-8")
    else:
        codec = page.encoding or _declared_codec(page) or "utf-8"
    if codec.startswith("utf"):
        codec = "utf-8"
    if content_type not in (MULTIPART_TYPE, PLAIN_TYPE):
        return FormEncoding(FORM_TYPE, codec)
    if codec != "utf-8":
        page.faults[f"a form is sent as {content_type} in UTF-8, not in {charset_name(codec)}"] = None
    return FormEncoding(content_type)


def _declared_codec(page: Page) -> str | None:
    """The codec that a `<meta>` of the page names."""
    for meta in page.tree.css("meta") if page.tree is not None else ():
        label = meta.attrs.get("charset") or (meta.attrs.get("content") or "").lower().partition("charset=")[2]
        codec = codec_of(label.strip(" \t\n\f\r\"';"))
        if codec is not None:
            return codec
    return None


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
    from crawl_engine.extract.documents.xpath import parse_outer_html

    return parse_outer_html(node.html or "", "form")


def _iter_controls(form: "_Element") -> "Iterator[_Element]":
    """The controls in the form, and those elsewhere on the page that name it, in the order of the page."""
    name = form.get("id")
    root = form.getroottree().getroot() if name else form
    inside = {*form.iter(*CONTROL_TAGS)} if name else None
    if name and next((other for other in root.iter() if other.get("id") == name), None) is not form:
        name = None  # the first element with an id has it
    for control in root.iter(*CONTROL_TAGS):
        owner = control.get("form")
        belongs = (inside is None or control in inside) if owner is None else owner == name
        if belongs and not any(parent.tag in ("template", "datalist") for parent in control.iterancestors()):
            yield control
