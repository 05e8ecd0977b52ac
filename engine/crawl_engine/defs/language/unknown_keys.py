"""Says of an unknown key what was probably meant: another key, or a setting."""

import re
from collections.abc import Sequence

from crawl_engine.defs.yaml.redaction import shown_key
from crawl_engine.errors import suggest
from crawl_engine.other_names import KEYS, KEYS_ELSEWHERE, SETTINGS, as_sentence
from crawl_engine.settings.declaration import Settings

_FIRST_KEY = re.compile(r"`(\w+):")


def describe_unknown(key: str, keys: Sequence[str]) -> str:
    """The message for a key that is none of `keys`."""
    message = f"unknown key '{shown_key(key)}'"
    hints = [hint] if (hint := describe_other(key, keys)) else []
    setting = re.sub("(?<=[a-z])(?=[A-Z])", "_", key).lower()
    setting = SETTINGS.get(setting, setting)
    if setting in Settings.__struct_fields__:
        hints.append(f"`{setting}` is a setting: write it in crawl.toml, or `--set {setting}=…`")
    return "; ".join([message, *hints]) if hints else f"{message}{suggest(key, list(keys))}"


def describe_other(key: str, keys: Sequence[str]) -> str:
    """What to write for a key of another crawler; empty for others. `keys`: that may stand there."""
    other = KEYS.get(key, "")
    first = _FIRST_KEY.search(other)
    if (first[1] if first else other) in keys:
        return as_sentence(other)
    return KEYS_ELSEWHERE.get(key, "")
