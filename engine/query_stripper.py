"""Drops keys from the queries of URLs that a crawl finds, so that one page is not fetched under many URLs."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from urllib.parse import unquote_plus

from engine import urls
from engine.model.definition import Definitions, definition_hash
from engine.model.fingerprint import list_query_rules

_NO_RULE = object()


class QueryStripper:
    """The compiled `drop` rules of one def version. Thread-safe."""

    def __init__(self, rules: Mapping[str, Iterable[str]]) -> None:
        """`rules`: patterns of keys by host, with or without a port; with a port and empty: that port drops nothing."""
        self.key = definition_hash({name: sorted(patterns) for name, patterns in rules.items()})
        """Strippers with the same key do the same."""
        self._keys_by_host = {name: _compile(patterns) for name, patterns in rules.items()}

    @classmethod
    def from_definitions(cls, definitions: Definitions) -> "QueryStripper | None":
        """The stripper of these defs; None where no host drops a key, so that URLs cost nothing then."""
        rules = list_query_rules(definitions)
        return cls(rules) if rules else None

    def strip_url(self, url: str) -> str:
        """A normalized URL without fragment, without the keys that its host drops; what is left stays byte for byte."""
        mark = url.find("?")
        if mark < 0:
            return url
        host_key = urls.host_key(url)
        keys = self._keys_by_host.get(host_key, _NO_RULE)
        if keys is _NO_RULE and host_key != urls.FILE_HOST_KEY:
            keys = self._keys_by_host.get(host_key[: host_key.rindex(":")])
        if not isinstance(keys, re.Pattern):
            return url
        pairs = url[mark + 1 :].split("&")
        kept = [pair for pair in pairs if not keys.fullmatch(_key_of(pair))]
        if len(kept) == len(pairs):
            return url
        query = "&".join(kept)
        return f"{url[:mark]}?{query}" if query else url[:mark]


def _key_of(pair: str) -> str:
    key = pair.partition("=")[0]
    return unquote_plus(key) if "%" in key or "+" in key else key


def _compile(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """One expression for all patterns; None: there are none. It does not backtrack, whatever keys a page makes up."""
    # brackets are common in keys, such as `filter[size]`, and stand for themselves
    parts = [translate(pattern.replace("[", "[[]")) for pattern in patterns]
    return re.compile("|".join(parts)) if parts else None
