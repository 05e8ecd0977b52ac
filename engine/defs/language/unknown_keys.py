"""Says of an unknown key what was probably meant: another key, or a setting."""

import re
from collections.abc import Sequence

from engine.defs.yaml.redaction import shown_key
from engine.errors import suggest
from engine.settings.declaration import Settings

_OTHER_NAMES = {
    "css": "selector", "xpath": "selector", "path": "selector", "attr": "attribute", "regex": "match", "re": "match",
    "pattern": "match", "group": "linkGroup", "follow": "linkGroup", "user_agent": "headers", "userAgent": "headers",
    "rate_limit": "delay", "download_delay": "delay", "proxies": "proxy", "query": "block", "columns": "fields",
    "start_urls": "urls", "include": "allow", "exclude": "deny", "pagination": "next", "output": "path",
}  # fmt: skip
"""Keys of other crawlers, and those with their meaning here."""
_EXAMPLES = {
    "xpath": "`selector: 'xpath: …'`", "user_agent": "`headers: {User-Agent: …}`",
    "userAgent": "`headers: {User-Agent: …}`",
}  # fmt: skip


def describe_unknown(key: str, keys: Sequence[str]) -> str:
    """The message for a key that is none of `keys`."""
    message = f"unknown key '{shown_key(key)}'"
    other = _OTHER_NAMES.get(key)
    setting = re.sub("(?<=[a-z])(?=[A-Z])", "_", key).lower()
    hints = [f"write {_EXAMPLES.get(key, f'`{other}`')}"] if other in keys else []
    if setting in Settings.__struct_fields__:
        hints.append(f"`{setting}` is a setting: write it in crawl.toml, or `--set {setting}=…`")
    return "; ".join([message, *hints]) if hints else f"{message}{suggest(key, list(keys))}"
