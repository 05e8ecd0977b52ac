"""Parses the setting `helpers`: the tables `[helpers.NAME]` of crawl.toml, or the same as JSON."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from engine.errors import UsageError, suggest
from engine.model.helper import READY_WITHIN, STOP_SECONDS, Helper
from engine.setting_values import parse_seconds

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)
_KEYS = ("run", "ready", "stop")
_READY_KEYS = ("port", "line", "within")
_RUN_REMEDY = 'Use a list of strings: run = ["squid", "-N"].'
_READY_REMEDY = 'Use ready = {port = 3128} or ready = {line = "listening"}.'


class HelperError(UsageError):
    """A mistake in a helper. `keys`: where it is, such as `("helpers", "proxy", "run")`."""

    def __init__(self, keys: tuple[str, ...], message: str, remedy: str) -> None:
        super().__init__(f"{'.'.join(keys)}: {message}", remedy)
        self.keys = keys


def parse_helpers(value: Any) -> tuple[Helper, ...] | None:
    """The helpers in written order; None for `none`. Raises HelperError."""
    keys = ("helpers",)
    if isinstance(value, str):
        if value in ("", "none"):
            return None
        try:
            value = json.loads(value)
        except ValueError:
            raise HelperError(keys, "not a table", "Write tables [helpers.NAME] in crawl.toml.") from None
    if not isinstance(value, dict):
        raise HelperError(keys, "not a table", "Write tables [helpers.NAME] in crawl.toml.")
    return tuple(_parse_helper((*keys, name), name, table) for name, table in value.items())


def _parse_helper(keys: tuple[str, ...], name: str, table: Any) -> Helper:
    if not _NAME.fullmatch(name):
        raise HelperError(keys, "not a name", "Use up to 40 letters, digits, - and _, such as [helpers.proxy].")
    _check_keys(keys, table, _KEYS)
    if "run" not in table:
        raise HelperError(keys, "`run` is missing", _RUN_REMEDY)
    port, line, within = _parse_ready((*keys, "ready"), table["ready"]) if "ready" in table else (None, None, None)
    return Helper(
        name=name,
        run=_parse_run((*keys, "run"), table["run"]),
        port=port,
        line=line,
        within=READY_WITHIN if within is None else within,
        stop=_parse_time((*keys, "stop"), table.get("stop", STOP_SECONDS), minimum=0.0),
    )


def _check_keys(keys: tuple[str, ...], table: Any, allowed: Iterable[str]) -> None:
    allowed = list(allowed)
    if not isinstance(table, dict):
        raise HelperError(keys, "not a table", f"Use a table with the keys {', '.join(allowed)}.")
    for key in table:
        if key not in allowed:
            raise HelperError(
                (*keys, key),
                f"unknown key '{key}'{suggest(key, allowed)}",
                f"Use {', '.join(allowed)}. Other settings stand above the first [helpers.NAME].",
            )


def _parse_run(keys: tuple[str, ...], value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise HelperError(keys, f"cannot be {value!r}", _RUN_REMEDY)
    if not value[0].strip() or any("\0" in item for item in value):
        raise HelperError(keys, f"cannot be {value!r}", _RUN_REMEDY)
    return tuple(value)


def _parse_ready(keys: tuple[str, ...], value: Any) -> tuple[int | None, str | None, float | None]:
    """The port, the line and the time limit."""
    _check_keys(keys, value, _READY_KEYS)
    if ("port" in value) == ("line" in value):
        raise HelperError(keys, "needs either `port` or `line`", _READY_REMEDY)
    port, line, within = value.get("port"), value.get("line"), value.get("within")
    if "port" in value and (type(port) is not int or not 1 <= port <= 65535):
        raise HelperError((*keys, "port"), f"cannot be {port!r}", "Use a number from 1 to 65535.")
    if "line" in value and (not isinstance(line, str) or not line.strip() or "\n" in line):
        raise HelperError((*keys, "line"), f"cannot be {line!r}", "Use a part of one line of its output.")
    if within is not None:
        within = _parse_time((*keys, "within"), within, minimum=0.1)
    return port, line, within


def _parse_time(keys: tuple[str, ...], value: Any, *, minimum: float) -> float:
    try:
        seconds = math.nan if isinstance(value, bool) else parse_seconds(value)
    except (ValueError, TypeError):
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= minimum):
        raise HelperError(keys, f"cannot be {value!r}", f"Use seconds, {minimum:g} or more, or a time such as 90s, 5m.")
    return seconds
