"""Reads what a robots.txt says by `Content-Signal` of the use of pages; nothing acts on it."""

import re

from crawl_engine.late_regex import late_regex
from crawl_engine.robots.rules import AGENT, RULE, agent_name, split_lines

_SIGNAL = late_regex(r"\s*content-signal\s*:([^#]*)", re.IGNORECASE)
_PAIR = late_regex(r"\s*([a-z][a-z0-9-]{0,39})\s*=\s*(yes|no)\s*", re.IGNORECASE)
_MAX_NAMES = 20


def read_content_signal(text: str, agent: str) -> dict[str, str]:
    """By use, such as `ai-train`, `yes` or `no`: from the groups of a product token, else from those of `*`.

    The text of a robots.txt is at most 500 KiB. Of a use that is written twice, `no` counts.
    """
    if "content-signal" not in text.lower():
        return {}
    own = agent.lower() or "*"
    signals: dict[str, dict[str, str]] = {"*": {}}
    names: set[str] = set()
    in_agents = False
    for line in filter(None, split_lines(text)):
        if written := AGENT.match(line):
            if not in_agents:
                names.clear()
            in_agents = True
            name = agent_name(written[1])
            if name in (own, "*"):
                names.add(name)
                signals.setdefault(name, {})
        elif signal := _SIGNAL.match(line):
            in_agents = False
            for name in names:
                _add(signals[name], signal[1])
        elif RULE.match(line):
            in_agents = False
    return signals.get(own, signals["*"])


def _add(signal: dict[str, str], text: str) -> None:
    """Add the pairs of a line. Everything else in it is left out."""
    for part in text.split(","):
        pair = _PAIR.fullmatch(part)
        if pair is None:
            continue
        use, value = pair[1].lower(), pair[2].lower()
        if use in signal or len(signal) < _MAX_NAMES:
            signal[use] = "no" if signal.get(use) == "no" else value
