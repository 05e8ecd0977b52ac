"""Checks the logins and cookie jars of hosts."""

from engine.defs.problems import Problems
from engine.defs.yaml.node import YamlNode


def check(host: YamlNode, problems: Problems) -> None:
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
    locators = [locator for _, group in root.entries_of("locatorGroups") for locator in group.node.list_of("locators")]
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
