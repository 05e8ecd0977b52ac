"""Checks combinations of keys: those that exclude or require each other."""

import re

from msgspec.structs import replace

from crawl_engine.defs.builders.bodies import check_bodies, iter_scalars, warn_of_json_text
from crawl_engine.defs.checks import fields
from crawl_engine.defs.checks.text_sources import check_in_document, check_query
from crawl_engine.defs.language.keys import (
    data_def_of,
    has_records,
    innermost_query,
    is_table,
    iter_all_tasks,
    iter_locators,
    written_urls,
)
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.defs.yaml.redaction import shown_key
from crawl_engine.errors import UsageError
from crawl_engine.extract.select.selector_syntax import (
    EMBEDDED_PREFIX,
    JMESPATH_PREFIX,
    JSONLD_PREFIX,
    is_json_selector,
    selector_problem,
)
from crawl_engine.late_regex import late_regex
from crawl_engine.model.host import FIXED_HEADERS
from crawl_engine.model.locator import Recrawl
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.model.variables import secret_name_problem
from crawl_engine.settings.values import duration_seconds

_TOKEN = late_regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_JSON_OF_HTML = (JSONLD_PREFIX, EMBEDDED_PREFIX)


def check(root: YamlNode, problems: Problems, *, keep_documents: bool) -> None:
    """Check each locator, task group, dataDef and host. `keep_documents`: of groups without `documents`."""
    for _, group in root.entries_of("locatorGroups"):
        if group.node.has_empty_list("locators"):
            problems.add(
                group.node.key_place("locators"),
                "no-url",
                "the list of locators is empty; write `locators: [{url: …}]`",
            )
        for locator in group.node.list_of("locators"):
            _check_locator(locator, problems)
    check_sessions(root, problems)
    _check_shared_urls(root, problems)
    for name, group in root.entries_of("taskGroups"):
        _check_recrawl(group.node, problems)
        _check_documents(name, group.node, problems, keep_documents=keep_documents)
    for name, data_def in root.entries_of("dataDefs"):
        _check_data_def(name, data_def.place, data_def.node, problems)
    for _, host in root.entries_of("hosts"):
        check_header_names(host.node, problems)
        if host.node.has_empty_list("drop"):
            message = "the list of query keys is empty; name keys such as `utm_*`, or remove the key"
            problems.add(host.node.key_place("drop"), "no-keys", message)
        check_login(host.node, problems)
        for sign in host.node.list_of("blocked"):
            if sign.kind == "mapping" and not sign.entries:
                problems.add(sign.place, "missing-key", "a sign needs `status`, `match` or both")


def _check_locator(node: YamlNode, problems: Problems) -> None:
    if node.kind != "mapping":
        return
    if not any(key in node.entries for key in ("url", "urls", "from", "sitemap")):
        problems.add(node.place, "no-url", "a locator needs one of `url`, `urls`, `from`, `sitemap`")
    if node.has_empty_list("urls"):
        problems.add(node.key_place("urls"), "no-url", "the list of URLs is empty")
    for url in written_urls(node):
        if " " in url.text.strip():
            problems.warn(url.place, "blank-in-url", "the URL has a blank, which is sent as %20")
    bodies = [key for key in node.entries if key in ("body", "form", "json")]
    for key in bodies[1:]:
        problems.add(node.key_place(key), "conflict", f"`{key}` and `{bodies[0]}` both set the body; keep one")
    if "json" in node.entries:
        warn_of_json_text(node.entries["json"].node, problems)
        for part in iter_scalars(node.entries["json"].node):
            _check_env_variables(part, problems)
    check_bodies(node, problems)
    if "sitemap" in node.entries:
        _check_sitemap(node.entries["sitemap"].node, problems)
    check_header_names(node, problems)
    if "cookieScope" in node.entries and "cookies" not in node.entries:
        message = "`cookieScope` sends the `cookies` of the locator along, and it has none; add them, or remove the key"
        problems.add(node.key_place("cookieScope"), "missing-key", message)


def _check_shared_urls(root: YamlNode, problems: Problems) -> None:
    """Warn of a URL that locators ask for with other cookies or headers: pages behind it are asked for once."""
    first: dict[str, tuple[str, YamlNode, YamlNode]] = {}
    leading = _leading_groups(root)
    for group, locator in iter_locators(root):
        if locator.kind != "mapping":
            continue
        for node in written_urls(locator):
            url = node.text.strip()
            other_group, other, other_node = first.setdefault(url, (group, locator, node))
            told = _find_difference(locator, other)
            if told is None:
                continue
            asked = f"the locator at {other_node.place} asks for this URL with other {told}"
            names = locator.text_of("name") or group, other.text_of("name") or other_group
            if group == other_group and names[0] == names[1] and not (told == "cookies" and _sends_along(locator)):
                message = f"{asked}, and has the same name, so that it is asked for once; give each a `name`"
                problems.warn(node.place, "shared-url", message)
            elif {group, other_group} & leading and not (_sends_along(locator) and _sends_along(other)):
                cure = "write `cookieScope: group` in both" if told == "cookies" else "name those in `links`"
                message = f"{asked}, and the pages that it leads to are asked for once, for both, without them; {cure}"
                problems.warn(node.place, "shared-url", message)


def _find_difference(locator: YamlNode, other: YamlNode) -> str | None:
    """What of their requests differs besides the body: `cookies` or `headers`; None: nothing."""
    if locator is other or any(locator.text_of(key) != other.text_of(key) for key in ("method", "body")):
        return None
    if any(key in node.entries for key in ("form", "json") for node in (locator, other)):
        return None
    for section in ("cookies", "headers"):
        if _texts_of(locator, section) != _texts_of(other, section):
            return section
    return None


def _texts_of(locator: YamlNode, section: str) -> dict[str, str]:
    return {name: entry.node.text for name, entry in locator.entries_of(section)}


def _sends_along(locator: YamlNode) -> bool:
    return "cookieScope" in locator.entries


def _leading_groups(root: YamlNode) -> set[str]:
    """The groups whose pages lead to others by a link without headers of its own, or by `next`."""
    data_defs = {
        name
        for name, entry in root.entries_of("dataDefs")
        if "next" in entry.node.entries
        or any(link.kind != "mapping" or "headers" not in link.entries for link in entry.node.list_of("links"))
    }
    return {group for group, _, task in iter_all_tasks(root) if data_def_of(task) in data_defs}


def _check_sitemap(node: YamlNode, problems: Problems) -> None:
    if node.has_empty_list("links"):
        message = "the list of links is empty, so that no entry would be followed; add a rule, or remove the key"
        problems.add(node.key_place("links"), "no-links", message)
    taken_by: SourcePosition | None = None
    for link in node.list_of("links"):
        if taken_by is not None:
            message = f"no entry gets here: the rule at {taken_by} has neither `allow` nor `deny` and takes all"
            problems.add(link.place, "conflict", f"{message}; put that one last")
        elif link.kind == "mapping" and not link.list_of("allow") and not link.list_of("deny"):
            taken_by = link.place


def _check_env_variables(node: YamlNode, problems: Problems) -> None:
    for name in re.findall(r"(?<!%)%\{([^{}]*)\}", node.text):
        message = secret_name_problem(name)
        if message is not None:
            problems.add(node.place, "unknown-variable", message)


def check_header_names(node: YamlNode, problems: Problems) -> None:
    """Check the names in `headers` and `cookies`."""
    for section in ("headers", "cookies"):
        for name, entry in node.entries_of(section):
            if not _TOKEN.fullmatch(name):
                problems.add(entry.place, "bad-header", f"'{shown_key(name)}' is not a valid name in `{section}`")
            elif section == "headers" and name.lower() in FIXED_HEADERS:
                problems.add(entry.place, "fixed-header", _explain_fixed_header(name))


def _explain_fixed_header(name: str) -> str:
    if name.lower() == "host":
        return f"`{name}` cannot be set: it follows from the URL; write that host in `url`"
    return f"`{name}` cannot be set: it belongs to the connection, and the crawler sets it where it is needed"


def _check_recrawl(group: YamlNode, problems: Problems) -> None:
    recrawl = group.get("recrawl")
    if recrawl is None:
        return
    if "live" in group.entries:
        message = "`recrawl` says for each page how long it stays; remove `live`, or `recrawl`"
        problems.add(group.key_place("live"), "conflict", message)
    defaults = Recrawl()
    least, most = _read_seconds(recrawl, "min", defaults.min), _read_seconds(recrawl, "max", defaults.max)
    if least is not None and most is not None and least > most:
        message = f"`min` ({least:g} s) is longer than `max` ({most:g} s); change one of them"
        problems.add(recrawl.key_place("min" if "min" in recrawl.entries else "max"), "conflict", message)


def _read_seconds(node: YamlNode, key: str, default: float) -> float | None:
    """The seconds of a duration; None for an invalid one, which another check reports."""
    text = node.text_of(key)
    try:
        return default if text is None else duration_seconds(text)
    except UsageError:
        return None


def _check_documents(name: str, group: YamlNode, problems: Problems, *, keep_documents: bool) -> None:
    """Check that a group without documents reuses no document.

    A conflict within the group is refused. Keys that the setting leaves without effect are a warning.
    """
    documents = group.get("documents")
    if (keep_documents if documents is None else documents.value()) is not False:
        return
    for key in ("live", "revalidate", "recrawl"):
        if key not in group.entries or group.entries[key].node.value() is False:
            continue
        message = f"`{key}` reuses stored pages, and {{}} deletes them at the end of the run"
        if documents is not None:
            cause = message.format("`documents: false`")
            problems.add(group.key_place(key), "conflict", f"{cause}; remove it, or `documents: false` of '{name}'")
        else:
            cause = message.format("the setting `documents = false`")
            remedy = f"write `documents: true` in '{name}' to keep them"
            problems.warn(group.key_place(key), "no-effect", f"{cause}; {remedy}")


def _check_data_def(name: str, place: SourcePosition, node: YamlNode, problems: Problems) -> None:
    if node.kind != "mapping":
        return
    if is_table(node):
        return  # a table is checked where it is read
    is_json = check_query(node.get("query"), problems)
    query = innermost_query(node)
    if query is not None and "selector" in query.entries:
        message = "`selector` of a query has a meaning beside `items`; write `fields` with a selector each"
        problems.add(query.key_place("selector"), "conflict", message)
    has_links = bool(node.list_of("links"))
    if not has_links and not any(True for _ in node.entries_of("fields")):
        problems.add(place, "no-fields", f"'{name}' has neither `fields` nor `links`; it extracts nothing")
    block = query.get("block") if query is not None else None
    problem = selector_problem(block.text) if block is not None and block.text.strip() else None
    if block is not None and problem is not None:
        problems.add(block.place, "bad-selector", f"`block`: {problem}")
    table = query.get("table") if query is not None else None
    if query is not None:
        _check_table(query, table, problems)
    block = block if table is None else table
    before: dict[str, YamlNode] = {}
    written = dict(node.entries_of("fields"))
    for key, field in written.items():
        for number in range(1, len(field.node.list_of("selector"))):
            if (other := written.get(f"{key}[{number}]")) is not None:
                message = f"this is the name by which `status` counts a selector of '{key}'; rename the field"
                problems.add(other.place, "bad-name", message)
        fields.check_references(field.node, before, [*written], problems)
        before[key] = field.node
        fields.check(field.node, field.place, problems, has_block=has_records(node), has_table=table is not None)
        if is_json is None:
            _check_in_block(field.node, "" if block is None else block.text.strip(), problems)
        elif field.node.text_of("scope") != "page":
            check_in_document(field.node, "selector", problems, is_json=is_json)
        if field.node.text_of("scope") == "from" and is_json is None:
            message = "`scope: from` reads a document inside the page, and the query has no `from`"
            problems.add(field.node.key_place("scope"), "conflict", message)
    if is_json is not None and query is not None:
        check_in_document(query, "block" if table is None else "table", problems, is_json=is_json)


def _check_table(query: YamlNode, table: YamlNode | None, problems: Problems) -> None:
    """The keys beside `table` of a query, and whether it selects elements."""
    is_line = (query.text_of("header") or "").isdecimal()
    block = (query.text_of("block") or "").strip()
    if table is None:
        if "header" in query.entries and not is_line:
            message = "`header` needs `table`, the selector of the tables whose rows are the records"
            problems.add(query.key_place("header"), "missing-key", message)
        elif is_line and block and not block.startswith(JMESPATH_PREFIX):
            message = '`header: N` is a line of a CSV document, whose records `block: "jmespath: @"` selects'
            problems.add(query.key_place("header"), "conflict", message)
        return
    if is_line:
        message = "`header: N` is a line of a CSV document; of `table` write rows, first or columns"
        problems.add(query.key_place("header"), "conflict", message)
    if "block" in query.entries:
        message = "`table` and `block` both select the records; keep one"
        problems.add(query.key_place("block"), "conflict", message)
    if is_json_selector(table.text):
        problems.add(table.place, "bad-selector", "`table` selects elements; write CSS or `xpath:`")


def _check_in_block(node: YamlNode, block: str, problems: Problems) -> None:
    """Whether the selector of a field can match anything in that block (empty: the page)."""
    for item in node.list_of("selector"):
        _check_in_block(replace(node, entries=node.entries | {"selector": Entry(item.place, item)}), block, problems)
    selector = (node.text_of("selector") or "").strip()
    if not block or not selector or "scope" in node.entries:  # the scope of a field may be the page
        return
    message = ""
    if selector.startswith(JMESPATH_PREFIX) and not is_json_selector(block):
        message = "`jmespath:` reads JSON, and the block selects elements; use a CSS selector or `xpath:`"
    elif block.startswith(_JSON_OF_HTML) and not selector.startswith((JMESPATH_PREFIX, JSONLD_PREFIX)):
        message = "the block selects JSON values, which have no elements; use `jmespath:`"
    if message:
        problems.add(node.key_place("selector"), "conflict", message)


def check_login(host: YamlNode, problems: Problems) -> None:
    """Check `login` and `cookieJar` of one host."""
    login = host.get("login")
    if login is None or login.kind != "mapping":
        return
    form = login.get("form")
    if form is not None and form.kind == "mapping" and not form.entries:
        message = "the form has no field; name those of the login page, such as `user` and `password`"
        problems.add(login.key_place("form"), "no-fields", message)
    mode = host.text_of("cookieJar")
    if mode in ("off", "perNode"):
        why = "keeps no cookies" if mode == "off" else "leaves the other nodes without the cookies of the login"
        message = f"`cookieJar: {mode}` {why}; remove it beside `login`, or write shared"
        problems.add(host.key_place("cookieJar"), "conflict", message)


def check_sessions(root: YamlNode, problems: Problems) -> None:
    """Warn where a POST may log in for other pages: its cookies may stay in the node that received them."""
    locators = [locator for _, locator in iter_locators(root)]
    has_links = any(data_def.node.get("links") for _, data_def in root.entries_of("dataDefs"))
    hosts = [host.node for _, host in root.entries_of("hosts")]
    if any(host.get("login") is not None or host.text_of("cookieJar") == "shared" for host in hosts):
        return
    for locator in locators:
        method = locator.get("method")
        if method is not None and method.text.upper() == "POST" and (len(locators) > 1 or has_links):
            message = (
                "if this request logs in, use `login` of its host instead: a node sends only the cookies that it "
                "received itself, unless the host has `cookieJar: shared`"
            )
            problems.warn(method.place, "session-cookies", message)
