"""Makes text from outside safe to draw: no control characters, no escapes, no direction overrides."""

from crawl_engine.late_regex import late_regex

_UNSAFE = late_regex(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u2060-\u206f"
    "\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)
"""Control characters, and characters that have no width, join, or change the width or direction of their neighbours."""


def clean(text: str) -> str:
    """The text on one line, each unsafe character replaced by `·`."""
    return _UNSAFE.sub("·", text)
