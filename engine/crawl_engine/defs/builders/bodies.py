"""Encodes the bodies of locators: form fields and JSON, whose texts may have ranges and lists.

A body with braces is kept in pieces: literal text, encoded, and at odd positions the braces as written.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from msgspec import UNSET

from crawl_engine.defs import url_patterns
from crawl_engine.defs.language.keys import WrittenLocator, written_urls
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.url_patterns import BadStep
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.encodings import quote_form_text
from crawl_engine.errors import UsageError, quote_text, suggest
from crawl_engine.late_regex import late_regex
from crawl_engine.model.link import FORM_TYPE, JSON_NUMBER, JSON_TYPE
from crawl_engine.model.variables import NUMBER_SEED, SECRET_PREFIXES, SEED, variable_names

_SPACED_BRACE = late_regex(r"(?<![%\\])\{\s|\s\}")
_VARIABLE = late_regex(r"(%%\{|%\{[^{}]*\})")


def encode_body(written: WrittenLocator) -> tuple[tuple[str, ...], str | None]:
    """The pieces of a body (empty without a body), and its content type. Variables stay; the sender replaces them."""
    if written.form is not None:
        return _encode_form(written.form), FORM_TYPE
    if written.json is not UNSET:
        pieces = _Pieces()
        _add_json(written.json, pieces, frozenset(written.numbers))
        return tuple(pieces.list), JSON_TYPE
    return () if written.body is None else (written.body,), None


def expand_body(pieces: Sequence[str], content_type: str | None) -> Iterator[str]:
    """The bodies that pieces stand for; the last brace varies fastest."""
    encode = encode_alternative(content_type)
    parts = [
        list(map(encode, url_patterns.list_alternatives(piece))) if position % 2 else [piece]
        for position, piece in enumerate(pieces)
    ]
    return map("".join, product(*parts))


def encode_alternative(content_type: str | None) -> Callable[[str], str]:
    """How what a brace stands for is written in a body of that type."""
    return quote_form_text if content_type == FORM_TYPE else _encode_json_alternative


def check_bodies(locator: YamlNode, problems: Problems) -> None:
    """Check how many requests the ranges and lists in `form` or `json` of a locator make."""
    check_numbers(locator, problems, is_locator=True)
    for key in ("form", "json"):
        entry = locator.entries.get(key)
        if entry is None:
            continue
        texts = [part for part in iter_scalars(entry.node) if isinstance(part.value(), str)]
        for part in texts if key == "json" else ():
            _check_steps(part, problems)
        counts = [1 if key == "json" and _is_literal(part.text) else _count(part) for part in texts]
        bodies = prod(counts)
        if all(count == 1 for count in counts):
            continue
        if "sitemap" in locator.entries:
            message = f"a sitemap is one request: ranges and lists in `{key}` cannot stand beside `sitemap`"
            problems.add(entry.place, "conflict", f"{message}; write a locator of its own for them")
        requests = bodies * max(1, sum(_count(url) for url in written_urls(locator)))
        if requests > url_patterns.MAX_URLS:
            message = f"the locator expands to {requests:,} requests; at most {url_patterns.MAX_URLS:,} are allowed"
            problems.add(entry.place, "bad-range", f"{message}: use smaller ranges, or several locators")


def check_numbers(request: YamlNode, problems: Problems, *, is_locator: bool) -> None:
    """Check `numbers`: each is a key of `json`, and what its texts stand for are numbers."""
    entry, body = request.entries.get("numbers"), request.get("json")
    if entry is None:
        return
    if body is None:
        problems.add(entry.place, "missing-key", "`numbers` are keys of `json`; write it, or remove them")
        return
    found = dict[str, list[YamlNode]]()
    _collect_texts(body, "", found)
    for name in request.list_of("numbers"):
        if name.text not in found:
            message = f"`json` has no key '{name.text}'{suggest(name.text, sorted(found))}"
            problems.add(name.place, "unknown-key", message)
        for text in found.get(name.text, ()):
            if isinstance(text.value(), str) and (problem := _number_problem(text.text.strip(), is_locator=is_locator)):
                problems.add(text.place, "bad-number", f"'{name.text}' is sent as a number: {problem}")


def _collect_texts(node: YamlNode, key: str, found: dict[str, list[YamlNode]]) -> None:
    """The scalars of JSON by the key in which they, or the lists around them, stand."""
    if node.kind == "scalar":
        found.setdefault(key, []).append(node)
    for part in node.items:
        _collect_texts(part, key, found)
    for name, entry in node.entries.items():
        found.setdefault(name, [])
        _collect_texts(entry.node, name, found)


def _number_problem(text: str, *, is_locator: bool) -> str:
    """Why a text can stand for no number; empty: it can."""
    variables = f"one `%{{{SEED}NAME}}`" if is_locator else "one variable"
    wanted = f"write a number, {'a range, a list of numbers, ' if is_locator else ''}or {variables}, alone"
    try:
        (token,) = url_patterns.split(text)
        alternatives = url_patterns.list_alternatives(text) if token.kind == "brace" and is_locator else [text]
    except (UsageError, ValueError):  # not one part
        return wanted
    if token.kind == "variable":
        is_seed = text.startswith(f"%{{{SEED}")
        is_secret = any(name.startswith(SECRET_PREFIXES) for name in variable_names(text))
        return "" if (is_seed if is_locator else not is_secret) and text.startswith("%{") else wanted
    # of a range its ends tell: all of it is padded, or nothing
    for one in (alternatives[0], alternatives[-1]) if len(alternatives) > 1_000 else alternatives:
        if not JSON_NUMBER.fullmatch(one):
            return f"{quote_text(one)} is none as JSON writes it; {wanted}"
    return ""


def warn_of_json_text(node: YamlNode, problems: Problems) -> None:
    """Warn of a quoted object or list: the server would get it as a text."""
    if node.kind == "scalar" and node.text.lstrip().startswith(("{", "[")) and "%{" not in node.text[:2]:
        message = "`json` is a text, and is sent with quotes; write the object without them, or use `body`"
        problems.warn(node.place, "json-text", message)


def iter_scalars(node: YamlNode) -> Iterator[YamlNode]:
    """The scalars of a value, without the keys of mappings."""
    if node.kind == "scalar":
        yield node
    for part in [*node.items, *(entry.node for entry in node.entries.values())]:
        yield from iter_scalars(part)


def _count(node: YamlNode) -> int:
    """The number of texts that a text expands to; 1 for invalid braces, which another check reports."""
    try:
        return url_patterns.count_alternatives(node.text)
    except UsageError:
        return 1


def _check_steps(node: YamlNode, problems: Problems) -> None:
    """Refuse a range with a step below 1: other invalid braces are literal in JSON."""
    try:
        url_patterns.count_alternatives(node.text)
    except BadStep as error:
        problems.add(node.place, "bad-range", f"{error.message} {error.remedy}")
    except UsageError:
        pass


def _is_literal(text: str) -> bool:
    """Whether the braces of a JSON text are literal, such as in a GraphQL query."""
    if _SPACED_BRACE.search(text):
        return True
    try:
        url_patterns.count_alternatives(text)
    except UsageError:
        return True
    return False


class _Pieces:
    """Collects pieces: adjacent literals are one."""

    def __init__(self) -> None:
        self.list = [""]

    def add_literal(self, text: str) -> None:
        self.list[-1] += text

    def add_brace(self, text: str) -> None:
        self.list += [text, ""]


def _encode_form(form: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    pieces = _Pieces()
    separator = ""
    for key, values in form.items():
        for value in values:
            pieces.add_literal(f"{separator}{quote_form_text(key)}=")
            separator = "&"
            for kind, text in url_patterns.split(value):
                if kind == "brace":
                    pieces.add_brace(text)
                else:
                    pieces.add_literal(quote_form_text(text) if kind == "text" else _encode_form_variable(text))
    return tuple(pieces.list)


def _encode_form_variable(text: str) -> str:
    encoded = []
    for piece in _VARIABLE.split(text):
        if piece == "%%{":
            encoded.append(quote_form_text("%{"))
        else:
            encoded.append(piece if piece.startswith("%{") else quote_form_text(piece))
    return "".join(encoded)


def _add_json(value: Any, pieces: _Pieces, numbers: Collection[str], *, is_number: bool = False) -> None:
    """Add the JSON text of a value, as `json.dumps` writes it without blanks. `numbers`: keys whose texts are some."""
    if isinstance(value, str) and is_number:
        _add_number(value, pieces)
    elif isinstance(value, str):
        pieces.add_literal('"')
        _add_json_text(value, pieces)
        pieces.add_literal('"')
    elif isinstance(value, dict):
        for position, (key, item) in enumerate(value.items()):
            pieces.add_literal(f"{',' if position else '{'}{_dump(key)}:")
            _add_json(item, pieces, numbers, is_number=key in numbers)
        pieces.add_literal("}" if value else "{}")
    elif isinstance(value, list):
        pieces.add_literal("[")
        for position, item in enumerate(value):
            pieces.add_literal("," if position else "")
            _add_json(item, pieces, numbers, is_number=is_number)
        pieces.add_literal("]")
    else:
        pieces.add_literal(_dump(value))


def _add_number(value: str, pieces: _Pieces) -> None:
    """Add a number, a brace that stands for some, or the variable of one, without quotes."""
    (token,) = url_patterns.split(value.strip())
    if token.kind == "brace":
        pieces.add_brace(token.text)
    else:
        pieces.add_literal(token.text.replace(f"%{{{SEED}", f"%{{{NUMBER_SEED}"))


def _add_json_text(value: str, pieces: _Pieces) -> None:
    if _is_literal(value):
        pieces.add_literal(_dump(value)[1:-1])
        return
    for kind, text in url_patterns.split(value):
        if kind == "brace":
            pieces.add_brace(text)
        elif text == "{" and kind == "text" and pieces.list[-1].endswith("%"):
            pieces.add_literal("%{")  # else the sender would read a variable
        else:
            pieces.add_literal(_dump(text)[1:-1])


def _encode_json_alternative(text: str) -> str:
    return _dump(text)[1:-1].replace("%{", "%%{")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
