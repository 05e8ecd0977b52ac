"""Builds the links of dataDefs from validated terms."""

import json
from typing import Any

from engine.defs.language import LinkTerm, NextTerm
from engine.defs.yaml_node import YamlNode, plain_data
from engine.model.link import Link, NextPage, RequestTemplate


def build_link(term: LinkTerm, node: YamlNode) -> Link:
    """A link as the engine uses it."""
    return Link(
        selector=term.selector or "",
        attribute="href" if term.attribute is None else term.attribute,
        group=term.link_group,
        allow=tuple(term.allow or ()),
        deny=tuple(term.deny or ()),
        same_host=True if term.same_host is None else term.same_host,
        max_depth=term.max_depth,
        priority=term.priority,
        in_block=bool(term.in_block),
        carry=tuple(term.carry or ()),
        request=_request(term),
        place=node.place,
    )


def build_next(term: NextTerm, node: YamlNode) -> NextPage:
    """The next page as the engine finds it."""
    variables = term.__pydantic_extra__ or {}
    return NextPage(
        request=_request(term) or RequestTemplate(),
        variables=tuple((name, selector) for name, selector in variables.items()),
        until_empty=term.until is not None,
        place=node.place,
    )


def _request(term: LinkTerm | NextTerm) -> RequestTemplate | None:
    """What is sent besides a GET of an element's URL; None: nothing."""
    written = term.model_fields_set
    if not written & {"url", "method", "form", "json_"}:
        return None
    form = term.form if "form" in written else {}
    return RequestTemplate(
        url=term.url,
        method=term.method,
        form=tuple((name, value) for name, values in form.items() for value in values),
        has_form="form" in written,
        json=_dump(plain_data(term.json_)) if "json_" in written else None,
    )


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
