"""Checks the keys that name documents inside a page, and whether selectors can match in them."""

from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.extract.select.selector_syntax import EMBEDDED_PREFIX, JMESPATH_PREFIX, JSONLD_PREFIX, split_capture
from crawl_engine.model.link import JSON_FORMATS, PAGE_DATA

_MAX_DOCUMENTS = 2


def check_source(node: YamlNode, problems: Problems) -> bool:
    """Check them in a query or a link. Returns whether it reads a document inside the page."""
    for key in ("from", "match"):
        if key in node.entries and "as" not in node.entries:
            message = f"`{key}` needs `as`, which says how its text is read, such as `as: html` or `as: json`"
            problems.add(node.key_place(key), "missing-key", message)
    if (format_ := node.text_of("as")) in PAGE_DATA and "match" in node.entries:
        message = f"`match` has no effect with `as: {format_}`, which reads all texts together; remove it"
        problems.add(node.key_place("match"), "conflict", message)
    return any(key in node.entries for key in ("from", "match", "as"))


def check_query(query: YamlNode | None, problems: Problems) -> bool | None:
    """Check the queries of a dataDef. Returns whether their documents are JSON; None: they read the page."""
    is_json, depth = None, 0
    while query is not None and query.kind == "mapping":
        if check_source(query, problems):
            depth += 1
            is_json = query.text_of("as") in JSON_FORMATS
        inner = query.get("query")
        for key in ("block", "table"):
            if inner is not None and key in query.entries:
                message = f"`{key}` belongs into the inner `query`, whose documents have the records"
                problems.add(query.key_place(key), "conflict", message)
        if inner is not None and "as" not in query.entries:
            message = "a `query` inside a query searches the documents of the outer one, which has no `from` and `as`"
            problems.add(query.key_place("query"), "missing-key", message)
        if inner is not None and depth >= _MAX_DOCUMENTS:
            message = f"documents inside documents can nest at most {_MAX_DOCUMENTS} levels"
            problems.add(query.key_place("query"), "too-deep", message)
            break
        if inner is not None and split_capture(inner.text_of("from") or ""):
            message = "captured answers belong to the page; write `from` in the outer query"
            problems.add(inner.key_place("from"), "conflict", message)
        query = inner
    return is_json


def check_in_document(node: YamlNode, key: str, problems: Problems, *, is_json: bool) -> None:
    """Check whether the selector under a key can match anything in a document inside the page."""
    written = node.get(key)
    for one in [] if written is None else written.items or [written]:
        selector = one.text.strip() if one.kind == "scalar" else ""
        place = one.place if written is not None and written.items else node.key_place(key)
        if not selector or selector.startswith((JSONLD_PREFIX, EMBEDDED_PREFIX)):
            continue
        if is_json and not selector.startswith(JMESPATH_PREFIX):
            message = f"`{key}`: the documents are JSON, which has no elements; use `jmespath:`"
            problems.add(place, "conflict", message)
        elif not is_json and selector.startswith(JMESPATH_PREFIX):
            message = f"`{key}`: the documents have elements; use a CSS selector or `xpath:`"
            problems.add(place, "conflict", message)
