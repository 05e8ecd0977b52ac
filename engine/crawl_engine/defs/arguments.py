"""Puts the values of `-a NAME=VALUE` in the place of `%{arg.NAME}` in the texts of defs."""

from collections.abc import Callable, Mapping
from functools import partial

from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Keys, YamlNode, iter_scalars
from crawl_engine.errors import UsageError, find_similar, suggest
from crawl_engine.late_regex import late_regex
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.model.variables import fill, fill_url

UNSET = "unset-argument"
"""The code of a problem: an argument has no value."""
_TOKEN = late_regex(r"%%\{|%\{arg\.([^{}]*)\}")
_NAME = late_regex(r"[A-Za-z_][A-Za-z0-9_-]*")
_SECTIONS = frozenset({"locatorGroups", "hosts", "baseUrl", "appenders"})
_DATA_DEF_KEYS = frozenset({"value", "links", "next"})
"""Keys of a dataDef whose texts may hold arguments."""
_URL_KEYS = frozenset({"url", "urls", "sitemap", "baseUrl"})
_TEXT_KEYS = frozenset({"form", "json", "headers", "cookies"})

_LookUp = Callable[[str, SourcePosition], str]


def parse_argument(text: str) -> tuple[str, str]:
    """Split the `NAME=VALUE` of `-a`. Raises UsageError."""
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"-a {text}: not of the form NAME=VALUE", "Write for example -a city=Rome")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"-a {text}: '{name}' is not a name", "Write letters, digits, - and _, beginning with a letter."
        )
    return name, value


def require_used(arguments: Mapping[str, str], used: frozenset[str]) -> None:
    """Raise UsageError if the defs use no argument of one of these names."""
    for name in arguments:
        if name not in used:
            raise UsageError(
                f"-a {name}: the defs have no `%{{arg.{name}}}`{suggest(name, sorted(used))}",
                "Correct its name, or leave it out.",
            )


def resolve_arguments(root: YamlNode, arguments: Mapping[str, str], problems: Problems) -> frozenset[str]:
    """Replace the arguments in the texts of a file; returns the names of those that it uses.

    In a URL a value is percent-encoded, but for slashes, unless it stands in the host or is the whole URL. Values are
    never searched for variables.
    """
    used: set[str] = set()
    unset: list[SourcePosition] = []

    def look_up(name: str, place: SourcePosition) -> str:
        used.add(name)
        value = arguments.get(name)
        if value is None:
            similar = find_similar(name, sorted(arguments))
            hint = f" (did you mean '{similar}'?)" if similar is not None else ""
            problems.add(place, UNSET, f"`%{{arg.{name}}}` has no value{hint}: give -a {name}=VALUE")
            unset.append(place)
            return name
        return value

    hosts = root.get("hosts")
    if hosts is not None and any("%{arg." in key for key in hosts.entries):
        hosts.entries = {
            fill(key, _TOKEN, partial(look_up, place=entry.place)): entry for key, entry in hosts.entries.items()
        }
    for keys, node in iter_scalars(root):
        if "%{arg." not in node.text:
            continue
        if _is_allowed(keys):
            _resolve_text(keys, node, look_up)
        elif any(match[1] is not None for match in _TOKEN.finditer(node.text)):
            problems.add(
                node.place, "unknown-variable",
                "`%{arg.NAME}` is not available here; it is in locators, hosts, appenders, links, `next` and `value`",
            )  # fmt: skip
    for place in unset:
        problems.close(place)
    return frozenset(used)


def _resolve_text(keys: Keys, node: YamlNode, look_up: _LookUp) -> None:
    is_number = keys[:1] == ("hosts",) and _TOKEN.fullmatch(node.text) is not None

    def value_of(name: str) -> str:
        return look_up(name, node.place)

    if keys and keys[-1] in _URL_KEYS and _TEXT_KEYS.isdisjoint(keys):
        node.text = fill_url(node.text, _TOKEN, value_of, safe="/")
    else:
        node.text = fill(node.text, _TOKEN, value_of)
    node.plain = node.plain or is_number  # or a bool: such as a delay


def _is_allowed(keys: Keys) -> bool:
    if keys[:1] == ("dataDefs",):
        return not _DATA_DEF_KEYS.isdisjoint(keys[2:])
    return not _SECTIONS.isdisjoint(keys[:1])
