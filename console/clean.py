"""Text from outside made safe to draw: no control characters, no escapes, no direction overrides."""

import re

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def clean(text: str) -> str:
    """The text on one line, each unsafe character as `·`."""
    return _UNSAFE.sub("·", text)
