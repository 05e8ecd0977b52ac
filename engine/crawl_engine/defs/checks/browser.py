"""Checks the browsers of task groups: their actions, what they do not load, and what they cannot do."""

from collections.abc import Iterator

from crawl_engine.defs.builders.chains import Chains
from crawl_engine.defs.language.keys import data_def_of, iter_tasks
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.errors import suggest
from crawl_engine.extract.select.selector_syntax import selector_problem, split_capture
from crawl_engine.late_regex import late_regex
from crawl_engine.model.step import BLOCKED_WORDS, RENDERED_FILES, REQUIRED_FIELDS, BrowserAction
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.runtime.extras import has_extra, install_hint

_STATES = ("idle", "load")
_NAME = late_regex(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_MODIFIERS = frozenset({"optional", "until", "frame"})
_IN_FRAMES = ("click", "fill", "select", "wait")
_ACTIONS = [name for name in BrowserAction.__struct_fields__ if name not in _MODIFIERS]


def check(root: YamlNode, chains: Chains, problems: Problems) -> None:
    """Check each task group with a browser, and the hosts beside it."""
    has_browser, signs = False, any(host.node.get("sign") is not None for _, host in root.entries_of("hosts"))
    for name, group in root.entries_of("taskGroups"):
        loader = group.node.get("loader")
        if loader is None:
            continue
        has_browser = True
        if not has_extra("browser"):
            message = f"`loader: browser` needs playwright, which is not installed: {install_hint('browser')}"
            problems.add(group.node.key_place("loader"), "missing-extra", message)
        if signs:
            message = f"the requests of the browser are not signed: the pages of '{name}' come without `sign`"
            problems.warn(group.node.key_place("loader"), "not-signed", message)
        if group.node.get("revalidate") is not None and group.node.text_of("revalidate") != "false":
            message = "`revalidate` compares what a server sends, and a browser's page is another; remove it"
            problems.add(group.node.key_place("revalidate"), "conflict", message)
        for task, entry in iter_tasks(group.node):
            if any(step.kind == "loader" for step in chains.get((name, task), ())):
                message = f"the steps of '{task}' load its pages, and so does the browser of '{name}'; keep one"
                problems.add(entry.place, "loader-conflict", message)
        browser = loader.get("browser")
        if browser is not None:
            _check_rule(browser, problems)
            _check_files(root, group.node, browser, problems)
            _check_collect(root, group.node, browser, problems)
    if has_browser:
        _check_hosts(root, problems)
    _check_captures(root, problems)


def _check_rule(rule: YamlNode, problems: Problems) -> None:
    for action in rule.list_of("actions"):
        _check_action(action, problems)
    block = rule.get("block")
    for item in [] if block is None else block.items or [block]:
        if item.kind == "scalar" and item.text not in BLOCKED_WORDS and not set("*/").intersection(item.text):
            message = f"'{item.text}' is no kind of resource and no URL with `*`{suggest(item.text, [*BLOCKED_WORDS])}"
            problems.add(item.place, "unknown-value", message)
    when = rule.get("when")
    missing = None if when is None else when.text_of("missing")
    if when is not None and missing not in (None, REQUIRED_FIELDS) and (problem := selector_problem(missing)):
        problems.add(when.key_place("missing"), "bad-selector", f"`missing`: {problem}")
    for name, entry in rule.entries_of("capture"):
        if not _NAME.fullmatch(name):
            problems.add(entry.place, "bad-name", f"'{name}' cannot be a name; use letters, digits, `_` and `-`")
    zone = rule.text_of("timezone")
    if zone is not None and not _is_zone(zone):
        message = f"'{zone}' is no time zone; write one such as Europe/London"
        problems.add(rule.key_place("timezone"), "unknown-value", message)


def _check_files(root: YamlNode, group: YamlNode, browser: YamlNode, problems: Problems) -> None:
    """Check that the dataDefs of a group have room for the files of its pages."""
    wanted = [name for name in RENDERED_FILES if browser.is_true(name)]
    data_defs = {name: entry.node for name, entry in root.entries_of("dataDefs")}
    for name in wanted:
        used = {one: data_defs[one] for _, task in iter_tasks(group) if (one := data_def_of(task)) in data_defs}
        for one, data_def in used.items():
            field = next((entry for field_name, entry in data_def.entries_of("fields") if field_name == name), None)
            if field is not None:
                message = f"`{name}` of the browser gives '{one}' a column of this name; call the field otherwise"
                problems.add(field.place, "conflict", message)
        if used and not any(data_def.get("fields") for data_def in used.values()):
            message = f"`{name}` gives rows a file, and no dataDef of the group has `fields`; add some, or remove it"
            problems.add(browser.key_place(name), "no-effect", message)


def _check_collect(root: YamlNode, group: YamlNode, browser: YamlNode, problems: Problems) -> None:
    """Check that the records of several states can be told apart."""
    if browser.text_of("collect") != "true":
        return
    if not browser.list_of("actions"):
        message = "`collect` keeps what the page shows between its actions; add `actions`, or remove it"
        problems.add(browser.key_place("collect"), "no-effect", message)
    data_defs = {name: entry.node for name, entry in root.entries_of("dataDefs")}
    for name in dict.fromkeys([data_def_of(task) for _, task in iter_tasks(group)]):
        data_def = data_defs.get(name or "")
        query = None if data_def is None else data_def.get("query")
        if data_def is None or query is None or not data_def.get("fields") or data_def.get("key"):
            continue
        if any(query.get(part) is not None for part in ("block", "table")):
            message = f"`collect` needs the fields that tell the records of '{name}' apart: write `key: [FIELD]`"
            problems.add(query.place, "no-key", message)


def _check_action(action: YamlNode, problems: Problems) -> None:
    given = [key for key in action.entries if key not in _MODIFIERS]
    if action.kind == "mapping" and len(given) != 1:
        text = f"{', '.join(given)} are several" if given else "it does nothing"
        problems.add(action.place, "bad-action", f"an action has one of {', '.join(_ACTIONS)}; {text}")
    elif action.get("until") is not None and action.get("click") is None:
        message = "`until` beside an action repeats a `click`; that of a scroll stands in it: {scroll: {until: end}}"
        problems.add(action.key_place("until"), "bad-action", message)
    elif action.get("frame") is not None and not set(given) <= set(_IN_FRAMES):
        message = f"`frame` is of {', '.join(_IN_FRAMES)}; a key is pressed, and the page scrolled, as a whole"
        problems.add(action.key_place("frame"), "bad-action", message)
    elif action.get("frame") is not None and (action.text_of("wait") or "").strip() in _STATES:
        message = "`frame` has no effect beside `wait: idle` or `load`, which are of the page; remove it"
        problems.add(action.key_place("frame"), "no-effect", message)


def _check_hosts(root: YamlNode, problems: Problems) -> None:
    for _, host in root.entries_of("hosts"):
        auth = host.node.get("auth")
        if auth is not None and "digest" in auth.entries:
            message = "`auth: digest` does not apply to pages of `loader: browser`; use other defs, or remove it"
            problems.add(auth.key_place("digest"), "conflict", message)
        if host.node.get("middleware") is not None:
            message = "`middleware` does not see what a browser asks for, but plain requests for this host alone"
            problems.warn(host.node.key_place("middleware"), "browser-middleware", message)
        tls = host.node.get("tls")
        for key in ("ca", "client") if tls is not None else ():
            if tls is not None and key in tls.entries:
                message = f"`{key}` does not apply to pages of `loader: browser`; use other defs, or remove it"
                problems.add(tls.key_place(key), "conflict", message)


def _check_captures(root: YamlNode, problems: Problems) -> None:
    """Check that the browsers of groups capture the answers that their dataDefs read."""
    read = {name: list(_iter_captures(entry.node)) for name, entry in root.entries_of("dataDefs")}
    for name, group in root.entries_of("taskGroups"):
        loader = group.node.get("loader")
        browser = None if loader is None else loader.get("browser")
        captured = [] if browser is None else [one for one, _ in browser.entries_of("capture")]
        for data_def in dict.fromkeys([data_def_of(task) for _, task in iter_tasks(group.node)]):
            for place, wanted in read.get(data_def, ()):
                if wanted not in captured:
                    cure = suggest(wanted, captured) or f"; write `capture: {{{wanted}: {{url: …}}}}` in its browser"
                    message = f"the loader of '{name}' captures no '{wanted}'{cure}"
                    problems.add(place, "unknown-capture", message)


def _iter_captures(data_def: YamlNode) -> Iterator[tuple[SourcePosition, str]]:
    """Where a dataDef reads captured answers, with their names."""
    nodes, query = data_def.list_of("links"), data_def.get("query")
    while query is not None and query.kind == "mapping":
        nodes, query = [*nodes, query], query.get("query")
    for node in nodes:
        written = node.get("from")
        if written is not None and (name := split_capture(written.text)):
            yield written.place, name


def _is_zone(text: str) -> bool:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # few defs need it

    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
