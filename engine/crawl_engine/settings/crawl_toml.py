"""Reads crawl.toml: its values with their lines, and the tables `[helpers.NAME]` that it alone has."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Meta, Struct

from crawl_engine.errors import UsageError, suggest
from crawl_engine.late_regex import late_regex
from crawl_engine.model import bounds
from crawl_engine.model.bounds import describe_bounds, is_within
from crawl_engine.settings.declaration import Helper
from crawl_engine.settings.values import parse_seconds

FILE_NAME = "crawl.toml"
_NAME = late_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)
_KEYS = ("run", "ready", "stop")
_READY_KEYS = ("port", "line", "within")
_RUN_REMEDY = 'Use a list of strings: run = ["squid", "-N"].'
_READY_REMEDY = 'Use ready = {port = 3128} or ready = {line = "listening"}.'


class CrawlToml(Struct, frozen=True):
    """The file of a folder. `values`: by name; empty without a file."""

    text: str
    values: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> "CrawlToml":
        """Read the file. Raises UsageError if it cannot be read or is not TOML."""
        path = folder / FILE_NAME
        try:
            text = path.read_text("utf-8")
            return cls(text, _parse(text))
        except FileNotFoundError:
            return cls("", {})
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: {error}", "Fix the file, or delete it: every setting has a default.") from error

    def place(self, name: str, *keys: str) -> str:
        """`crawl.toml:3`: where a name stands at the top level, or the last of these keys below it that is written."""
        lines = self.text.splitlines()
        start = re.compile(rf"""\s*\[?\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
        number = next((number for number, line in enumerate(lines) if start.match(line)), 0)
        for key in keys:
            below = re.compile(rf"""(?:^|[.\[{{,])\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
            number = next((at for at in range(number, len(lines)) if below.search(lines[at])), number)
        return f"{FILE_NAME}:{number + 1}"


def _parse(text: str) -> dict[str, Any]:
    if not text:
        return {}
    import tomllib  # only processes with a crawl.toml pay for this import

    return tomllib.loads(text)


class HelperMistake(Struct, frozen=True):
    """A mistake in a helper. `keys`: where it is, such as `("helpers", "proxy", "run")`."""

    keys: tuple[str, ...]
    problem: str
    remedy: str

    @property
    def message(self) -> str:
        """The keys and the problem."""
        return f"{'.'.join(self.keys)}: {self.problem}"


def parse_helpers(value: Any) -> tuple[tuple[Helper, ...] | None, list[HelperMistake]]:
    """The helpers in written order, None for `none`; and all mistakes. `value`: of TOML, or the same as JSON."""
    if isinstance(value, str):
        if value in ("", "none"):
            return None, []
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, dict):
        return None, [HelperMistake(("helpers",), "not a table", "Write tables [helpers.NAME] in crawl.toml.")]
    reader = _HelperReader()
    helpers = [reader.read(name, table) for name, table in value.items()]
    return tuple(helper for helper in helpers if helper is not None), reader.mistakes


class _HelperReader:
    """Reads the tables of helpers and collects their mistakes."""

    def __init__(self) -> None:
        self.mistakes: list[HelperMistake] = []

    def read(self, name: str, table: Any) -> Helper | None:
        """The helper of a table; None or a part of it after a mistake."""
        keys = ("helpers", name)
        if not _NAME.fullmatch(name):
            self._refuse(keys, "not a name", "Use up to 40 letters, digits, - and _, such as [helpers.proxy].")
            return None
        if not self._check_keys(keys, table, _KEYS):
            return None
        if "run" not in table:
            self._refuse(keys, "`run` is missing", _RUN_REMEDY)
            return None
        values: dict[str, Any] = {"run": self._read_run((*keys, "run"), table["run"])}
        if "ready" in table:
            values |= self._read_ready((*keys, "ready"), table["ready"])
        if "stop" in table:
            values["stop"] = self._read_time((*keys, "stop"), table["stop"], bounds.HELPER_STOP)
        return Helper(name=name, **values)

    def _refuse(self, keys: tuple[str, ...], problem: str, remedy: str) -> None:
        self.mistakes.append(HelperMistake(keys, problem, remedy))

    def _check_keys(self, keys: tuple[str, ...], table: Any, allowed: tuple[str, ...]) -> bool:
        """Whether this is a table; each unknown key of it is a mistake."""
        if not isinstance(table, dict):
            self._refuse(keys, "not a table", f"Use a table with the keys {', '.join(allowed)}.")
            return False
        remedy = f"Use {', '.join(allowed)}. Other settings stand above the first [helpers.NAME]."
        for key in table:
            if key not in allowed:
                self._refuse((*keys, key), f"unknown key '{key}'{suggest(key, list(allowed))}", remedy)
        return True

    def _read_run(self, keys: tuple[str, ...], value: Any) -> tuple[str, ...]:
        is_command = isinstance(value, list) and value and all(isinstance(item, str) for item in value)
        if not is_command or not value[0].strip() or any("\0" in item for item in value):
            self._refuse(keys, f"cannot be {value!r}", _RUN_REMEDY)
            return ()
        return tuple(value)

    def _read_ready(self, keys: tuple[str, ...], value: Any) -> dict[str, Any]:
        """The port or the line, and the time limit."""
        if not self._check_keys(keys, value, _READY_KEYS):
            return {}
        known = {key: value[key] for key in _READY_KEYS if key in value}
        if ("port" in known) == ("line" in known) and len(known) == len(value):
            self._refuse(keys, "needs either `port` or `line`", _READY_REMEDY)
        port, line = known.get("port", 1), known.get("line", "x")
        if type(port) is not int or not is_within(bounds.PORT, port):
            self._refuse((*keys, "port"), f"cannot be {port!r}", f"Use a number {describe_bounds(bounds.PORT)}.")
        if not isinstance(line, str) or not line.strip() or "\n" in line:
            self._refuse((*keys, "line"), f"cannot be {line!r}", "Use a part of one line of its output.")
        if "within" in known:
            known["within"] = self._read_time((*keys, "within"), known["within"], bounds.WAIT)
        return known

    def _read_time(self, keys: tuple[str, ...], value: Any, limits: Meta) -> float:
        try:
            seconds = parse_seconds(value)
        except ValueError:
            seconds = float("nan")
        if not is_within(limits, seconds):
            remedy = f"Use seconds {describe_bounds(limits)}, or a time such as 90s, 5m."
            self._refuse(keys, f"cannot be {value!r}", remedy)
        return seconds
