"""Checks the links of dataDefs: what they select, send and carry, and the pages of a series."""

import re
from collections.abc import Iterator, Sequence

from crawl_engine.defs import url_patterns
from crawl_engine.defs.builders.bodies import check_numbers, iter_scalars, warn_of_json_text
from crawl_engine.defs.checks.conflicts import check_header_names
from crawl_engine.defs.checks.fields import check_candidates
from crawl_engine.defs.checks.series import add_no_content, has_content
from crawl_engine.defs.checks.text_sources import check_source
from crawl_engine.defs.language.keys import data_def_of, has_records, is_table, iter_all_tasks, keys_of
from crawl_engine.defs.language.kinds import has_control_characters, is_step, url_problem
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.defs.yaml.redaction import shown_key
from crawl_engine.errors import UsageError, find_similar, quote_text, suggest
from crawl_engine.late_regex import late_regex
from crawl_engine.model.link import NextPage
from crawl_engine.model.variables import (
    CARRIED,
    DOCUMENT_VARIABLES,
    FIELD,
    HEADER,
    SECRET_PREFIXES,
    is_page_variable,
    secret_name_problem,
    variable_names,
)

_NEXT_KEYS = frozenset(keys_of(NextPage))
_RELATION = late_regex(r"[A-Za-z][\w.:/?&%#~-]*", re.ASCII)
_VARIABLE = late_regex(r"%\{[^{}]*\}")
_NAME = late_regex(r"[A-Za-z_][A-Za-z0-9_]*")


def check(root: YamlNode, problems: Problems) -> None:
    """Checks each dataDef in record mode."""
    for _, data_def in root.entries_of("dataDefs"):
        if data_def.node.kind != "mapping" or is_table(data_def.node):
            continue
        for link in data_def.node.list_of("links"):
            if link.kind == "mapping":
                _LinkCheck(data_def.node, link, problems).check()
        next_page = data_def.node.get("next")
        if next_page is not None and next_page.kind == "mapping":
            _check_next(data_def.node, next_page, problems)
    _check_carried(root, problems)


class _LinkCheck:
    """The check of one link."""

    def __init__(self, data_def: YamlNode, link: YamlNode, problems: Problems) -> None:
        self._link = link
        self._problems = problems
        self._fields = {name: entry.node for name, entry in data_def.entries_of("fields")}
        self._has_block = has_records(data_def)
        in_block = link.get("inBlock")
        self._in_block = in_block is not None and in_block.value() is True
        self._is_of_page = in_block is None or in_block.value() is False

    def check(self) -> None:
        link = self._link
        if "selector" not in link.entries and "url" not in link.entries:
            self._problems.add(link.place, "missing-key", "a link needs a `selector`, or a `url`")
        for key in ("selector", "attribute"):
            if "url" in link.entries and key in link.entries:
                self._add(key, "conflict", f"`url` is the URL of the link, and `{key}` selects one; keep one")
        check_candidates(link, self._problems)
        _check_request(link, self._problems)
        _check_headers(link, self._problems)
        check_source(link, self._problems)
        if self._in_block and "as" in link.entries:
            self._add("inBlock", "conflict", "`inBlock` searches the block, and `from` another text; keep one")
        if self._in_block and not self._has_block:
            message = "`inBlock` needs the `query.block` of the dataDef: without it, the page is the only record"
            self._add("inBlock", "missing-key", message)
        if "submit" in link.entries and ("form" not in link.entries or "url" in link.entries):
            message = (
                "`submit` chooses the button of a form that `selector` selects; add `form`, `{}` to send it as it is"
            )
            self._add("submit", "missing-key", message)
        self._check_carry()
        for name, field in link.entries_of("form"):
            if any(map(_expands_elsewhere, iter_scalars(field.node))):
                message = f"`{name}` is sent as written: ranges and lists expand in locators alone"
                self._problems.warn(field.place, "no-effect", f"{message}; write a link for each text")
        for key in ("url", "form", "json", "headers"):
            entry = link.entries.get(key)
            for scalar in iter_scalars(entry.node) if entry is not None else ():
                self._check_variables(scalar, in_body=_is_body(link, key))

    def _check_carry(self) -> None:
        carry = self._link.get("carry")
        if carry is None or carry.kind == "mapping" or carry.value() is None or isinstance(carry.value(), bool):
            return
        names = [carry] if carry.kind == "scalar" else carry.items
        if not names:
            self._add("carry", "no-effect", "`carry` is empty; name fields, or remove it")
        seen: set[str] = set()
        for name in names:
            if name.kind != "scalar" or not name.text.strip():
                continue
            if name.text in seen:
                self._problems.add(name.place, "duplicate-name", f"`carry` names '{name.text}' twice")
            seen.add(name.text)
            self._check_field(name, name.text)

    def _check_field(self, node: YamlNode, name: str) -> None:
        """Check that a field has a value where the link is searched."""
        field = self._fields.get(name)
        if field is None:
            self._problems.add(node.place, "unknown-field", f"unknown field '{name}'{suggest(name, [*self._fields])}")
            return
        if field.is_true("fromStep"):
            message = f"a step fills '{name}' later: links are searched before; carry a field with a selector"
            self._problems.add(node.place, "conflict", message)
        elif self._has_block and self._is_of_page and self._is_of_records(field):
            message = f"'{name}' belongs to the records, and this link to the page; add `inBlock: true` to the link"
            self._problems.add(node.place, "conflict", f"{message}, or `scope: page` to the field")

    def _is_of_records(self, field: YamlNode, *readers: YamlNode) -> bool:
        """Whether the value of a field, or one in its `value`, stands in the block."""
        if "value" not in field.entries:
            return "scope" not in field.entries
        names = [name.removeprefix(FIELD) for name in variable_names(field.text_of("value") or "")]
        read = [self._fields.get(name, self._fields.get(name.partition(".")[0])) for name in names]
        chain = (*readers, field)  # the defs may have a cycle, which another check reports
        return any(one is not None and one not in chain and self._is_of_records(one, *chain) for one in read)

    def _check_variables(self, node: YamlNode, *, in_body: bool) -> None:
        for name in variable_names(node.text):
            if name.startswith(FIELD):
                self._check_field(node, name.removeprefix(FIELD))
            elif not (is_page_variable(name) or _is_environment(name, in_body=in_body)):
                names = [*DOCUMENT_VARIABLES, *(f"{FIELD}{field}" for field in self._fields)]
                _add_unknown_variable(node, name, names, self._problems)

    def _add(self, key: str, code: str, message: str) -> None:
        self._problems.add(self._link.key_place(key), code, message)


def _check_next(data_def: YamlNode, node: YamlNode, problems: Problems) -> None:
    requests = [key for key in ("url", "form", "json") if key in node.entries]
    variables = [key for key in node.entries if key not in _NEXT_KEYS]
    steps = [name for name in variables if is_step(node.text_of(name) or "")]
    _check_headers(node, problems)
    if steps or "header" in node.entries:
        _check_variables(node, "headers", [], problems)
    if steps:
        _check_steps(
            data_def, node, steps, [key for key in node.entries if key not in (*steps, "until", "headers")], problems
        )
        return
    for name in variables:
        if not _NAME.fullmatch(name):
            message = f"'{name}' is not the name of a variable: letters, digits and _ only"
            problems.add(node.key_place(name), "bad-name", message)
    if "header" in node.entries:
        header = node.text_of("header")
        if header and not _RELATION.fullmatch(header):
            message = f"{quote_text(header)} is not a relation; write it alone: `header: next`"
            problems.add(node.entries["header"].node.place, "bad-relation", message)
        for key in [*requests, *variables, *(["method"] if "method" in node.entries else [])]:
            message = f"`{key}` has no effect beside `header`, which gives the whole URL; remove one of them"
            problems.add(node.key_place(key), "conflict", message)
        if "until" in node.entries and not has_content(data_def):
            add_no_content(node, problems)
        return
    if not requests:
        message = "`next` needs a `url`, `form` or `json` that asks for the next page, such as"
        message += " `url: '/items?after=%{cursor}'`; or a `header`, or a number to add, such as `offset: 20`"
        problems.add(node.place, "missing-key", message)
        return
    _check_request(node, problems)
    used: set[str] = set()
    for key in (*requests, "headers"):
        used |= _check_variables(node, key, variables, problems)
    url, form = node.get("url"), node.get("form")
    is_readable = (url is None or url.kind == "scalar") and (form is None or form.kind == "mapping")
    for name in variables if is_readable else ():
        if name not in used:
            similar = find_similar(name, sorted(_NEXT_KEYS))
            cure = f"did you mean `{similar}`?" if similar else f"write `%{{{name}}}` in `{requests[0]}`, or remove it"
            problems.add(node.key_place(name), "unused", f"nothing uses the variable '{name}'; {cure}")
    if not variables and not any(name.startswith(HEADER) for name in used):
        message = "nothing of `next` changes from page to page; add a variable"
        problems.add(
            node.place,
            "no-variable",
            f"{message}, such as `cursor: 'jmespath: paging.next'` or `page: 'header: X-Next-Page'`",
        )
    if "until" in node.entries and not has_content(data_def):
        add_no_content(node, problems)


def _check_steps(
    data_def: YamlNode, node: YamlNode, steps: list[str], others: list[str], problems: Problems
) -> None:  # fmt: skip
    """Check a `next` that adds numbers to parameters of the URL. `others`: its keys that do not."""
    for key in others:
        message = f"`{key}` has no effect beside `{steps[0]}`, which is added to a parameter of the page's URL"
        problems.add(node.key_place(key), "conflict", f"{message}; remove one of them")
    if not has_content(data_def):
        add_no_content(node, problems, steps[0])


def _check_carried(root: YamlNode, problems: Problems) -> None:
    """Check that what a dataDef reads as carried is carried to a group that uses it."""
    carried = _carried_by_group(root)
    for name, data_def in root.entries_of("dataDefs"):
        groups = {group for group, _, task in iter_all_tasks(root) if data_def_of(task) == name}
        names = {carried_name for group in groups for carried_name in carried.get(group, ())}
        for node in _iter_templates(data_def.node):
            for variable in variable_names(node.text):
                field = variable.removeprefix(CARRIED)
                if variable.startswith(CARRIED) and field not in names and groups:
                    message = f"no link carries '{field}' to the pages of '{name}'{suggest(field, sorted(names))}"
                    problems.add(node.place, "unknown-variable", f"{message}; add it to `carry` of the link")


def _carried_by_group(root: YamlNode) -> dict[str, set[str]]:
    """The names that links carry, by the group they lead to."""
    users: dict[str, list[str]] = {}
    for group, _, task in iter_all_tasks(root):
        users.setdefault(data_def_of(task), []).append(group)
    carried: dict[str, set[str]] = {}
    for name, data_def in root.entries_of("dataDefs"):
        for link in data_def.node.list_of("links"):
            target = link.text_of("linkGroup")
            carry = link.get("carry")
            names = [] if carry is None else [carry.text] if carry.kind == "scalar" else [n.text for n in carry.items]
            for group in (target,) if target else users.get(name, ()):
                carried.setdefault(group, set()).update(names)
    return carried


def _iter_templates(data_def: YamlNode) -> Iterator[YamlNode]:
    """The texts of a dataDef in which variables are replaced."""
    for _, field in data_def.entries_of("fields"):
        value = field.node.get("value")
        if value is not None and value.kind == "scalar":
            yield value
    for node in (*data_def.list_of("links"), data_def.get("next")):
        for key in ("url", "form", "json"):
            entry = node.entries.get(key) if node is not None and node.kind == "mapping" else None
            if entry is not None:
                yield from iter_scalars(entry.node)


def _expands_elsewhere(node: YamlNode) -> bool:
    """Whether a text has a range or a list that would expand in a locator."""
    try:
        return url_patterns.count_alternatives(node.text) > 1
    except UsageError:
        return False


def _check_request(node: YamlNode, problems: Problems) -> None:
    """Check what a link or the next page sends, without its headers."""
    check_numbers(node, problems, is_locator=False)
    if "json" in node.entries:
        warn_of_json_text(node.entries["json"].node, problems)
        if "form" in node.entries:
            problems.add(node.key_place("json"), "conflict", "`json` and `form` both set the body; keep one")
        if (node.text_of("method") or "").upper() == "GET":
            problems.add(node.key_place("json"), "conflict", "a GET sends no body; remove `json` or `method`")
    template = (node.text_of("url") or "").strip()
    filled = _VARIABLE.sub("1", template)
    problem = url_problem(filled) if filled and not _VARIABLE.fullmatch(template) else None
    if problem is not None:
        problems.add(node.entries["url"].node.place, "bad-url", f"`url`: {problem}")


def _check_headers(node: YamlNode, problems: Problems) -> None:
    check_header_names(node, problems)
    for name, header in node.entries_of("headers"):
        if header.node.kind == "scalar" and has_control_characters(header.node.text):
            message = f"`{shown_key(name)}` contains a line break or control character, which headers cannot"
            problems.add(header.node.place, "bad-header", message)


def _check_variables(node: YamlNode, key: str, variables: Sequence[str], problems: Problems) -> set[str]:
    """Check the variables in a key of `next`. Returns their names."""
    entry, names = node.entries.get(key), set[str]()
    for scalar in iter_scalars(entry.node) if entry is not None else ():
        for name in variable_names(scalar.text):
            names.add(name)
            is_known = name in variables or is_page_variable(name)
            if not is_known and not _is_environment(name, in_body=_is_body(node, key)):
                _add_unknown_variable(scalar, name, [*variables, *DOCUMENT_VARIABLES], problems)
    return names


def _is_body(request: YamlNode, key: str) -> bool:
    """Whether a key of a request stands in no URL; with GET, a form is the query of the URL."""
    return key in ("json", "headers") or (key == "form" and (request.text_of("method") or "").upper() != "GET")


def _is_environment(name: str, *, in_body: bool) -> bool:
    return in_body and secret_name_problem(name) is None


def _add_unknown_variable(node: YamlNode, name: str, names: list[str], problems: Problems) -> None:
    if name.startswith(SECRET_PREFIXES):
        message = f"`%{{{name}}}` is not available in `url`, nor in `form` with GET: pages may show URLs; "
        message += "send a secret in the `form` or `json` of a POST, or in the headers of its host"
        problems.add(node.place, "unknown-variable", message)
        return
    message = f"unknown variable `%{{{name}}}`{suggest(name, sorted(names))}; write `%%{{` for a literal `%{{`"
    problems.add(node.place, "unknown-variable", message)
