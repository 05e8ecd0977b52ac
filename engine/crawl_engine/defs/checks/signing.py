"""Checks the rules of hosts by which requests are signed."""

from crawl_engine import urls
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.model.variables import holds_literal
from crawl_engine.runtime.extras import has_extra, install_hint


def check(root: YamlNode, problems: Problems) -> None:
    """Check each `sign` of `hosts`."""
    for _, entry in root.entries_of("hosts"):
        rule = entry.node.get("sign")
        if rule is not None and rule.kind == "mapping":
            _check_rule(rule, problems)


def _check_rule(rule: YamlNode, problems: Problems) -> None:
    agent, key = rule.get("agent"), rule.get("key")
    if agent is not None and agent.kind == "scalar":
        normalized = urls.normalize(agent.text)
        origin = "" if normalized is None else urls.origin(normalized)
        if not origin.startswith("https://") or agent.text.removesuffix("/") != origin:
            message = "`agent` must be the https URL of a host, such as https://bot.example, and nothing behind it"
            problems.add(agent.place, "bad-url", message)
    if not has_extra("sign"):
        message = f"`sign` needs a library that is not installed; install it: {install_hint('sign')}"
        problems.add(rule.place, "missing-library", message)
    elif key is not None and key.kind == "scalar" and (problem := _key_problem(key.text)):
        problems.add(key.place, "bad-key", f"`key`: {problem}")


def _key_problem(expression: str) -> str | None:
    """Why a key cannot sign; None where its variable is not set here, which is told where it is needed."""
    from crawl_engine.runtime.signing_key import UnusableKey, parse_key, read_text  # of the extra `sign`

    if holds_literal(expression):
        return "a private key in the defs would be stored; write `%{file.PATH}` or `%{env.NAME}`"
    try:
        text = read_text(expression)
    except UnusableKey:
        return None
    try:
        parse_key(expression, text)
    except UnusableKey as error:
        return str(error)
    return None
