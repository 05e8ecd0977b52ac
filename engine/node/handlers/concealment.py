"""Takes what a login sends out of the texts that say why it failed: sites repeat it in URLs, headers and pages."""

import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

_HIDDEN = "[secret]"
_CUT = re.compile(r"(…|\.\.\.)")
"""Where we and the HTTP client cut a text."""
_MIN_LENGTH = 3
"""Characters of a value that is looked for: a shorter one occurs by chance."""


def conceal(text: str, values: Iterable[str]) -> str:
    """The text without the values: also where they are encoded as in a URL, in other letters, or cut."""
    spellings = {spelling for value in values for spelling in _spellings(value) if len(spelling) >= _MIN_LENGTH}
    if not spellings:
        return text
    longest_first = "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))
    text = re.sub(longest_first, _HIDDEN, text, flags=re.IGNORECASE)
    *cut, end = _CUT.split(text)
    return "".join([*(_conceal_cut(part, spellings) for part in cut), end])


def _spellings(value: str) -> tuple[str, ...]:
    return value, " ".join(value.split()), quote_plus(value), quote(value), quote(value, safe="")


def _conceal_cut(text: str, spellings: set[str]) -> str:
    """The text without the beginning of a value at its end."""
    lower = text.lower()
    cuts = (
        length for one in spellings for length in range(_MIN_LENGTH, len(one)) if lower.endswith(one[:length].lower())
    )
    longest = max(cuts, default=0)
    return text[: len(text) - longest] + _HIDDEN if longest else text
