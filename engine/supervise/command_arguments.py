"""Reads the arguments of an operator's command; anything may have been written to its row."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson
from msgspec import Struct

from engine.errors import UsageError

MAX_BYTES = 10_000
"""The longest arguments that are read, as JSON."""
_MAX_QUOTED = 60


class _Parameter(Struct, frozen=True):
    """One argument: its JSON type, and whether the command needs it."""

    type: type[int] | type[str] | type[float] | type[bool]
    required: bool = True


_PARAMETERS: Mapping[str, Mapping[str, _Parameter]] = MappingProxyType(
    {
        "cancel": {},
        "kill": {"node": _Parameter(str, required=False)},
        "drain": {"node": _Parameter(str)},
        "restart": {"node": _Parameter(str)},
        "scale": {"count": _Parameter(int), "most": _Parameter(int, required=False)},
        "reload": {"saved": _Parameter(str, required=False)},
        "pause": {"sequence": _Parameter(str, required=False)},
        "resume": {"sequence": _Parameter(str, required=False)},
        "stop": {"sequence": _Parameter(str)},
        "host": {
            "host": _Parameter(str),
            "delay": _Parameter(float, required=False),
            "concurrency": _Parameter(int, required=False),
            "paused": _Parameter(bool, required=False),
            "reset": _Parameter(bool, required=False),
        },
    }
)
COMMAND_NAMES = tuple(_PARAMETERS)

_TYPE_NAMES: Mapping[type, str] = MappingProxyType(
    {int: "a whole number", str: "text", float: "a number", bool: "true or false"}
)


def parse_arguments(name: str, text: bytes) -> dict[str, Any]:
    """The arguments of the command `name`, complete and of the right types. `text`: JSON, from the table.

    An unknown argument is an error, not ignored: `kill` with a misspelled `node` would kill the run.
    Raises UsageError on an unknown command, and on arguments that it does not take.
    """
    parameters = _PARAMETERS.get(name)
    if parameters is None:
        raise UsageError(f"unknown command {quote(name)}", f"Use one of: {', '.join(COMMAND_NAMES)}.")
    takes = ", ".join(parameters) or "no arguments"
    arguments = _decode_object(name, text)
    for key in arguments:
        if key not in parameters:
            raise UsageError(f"{name}: unknown argument {quote(key)}", f"It takes {takes}.")
    for key, parameter in parameters.items():
        if key not in arguments:
            if parameter.required:
                raise UsageError(f"{name}: lacks the argument {key}", f"It takes {takes}.")
        elif not _has_type(arguments[key], parameter.type):
            raise UsageError(f"{name}: {key} must be {_TYPE_NAMES[parameter.type]}", f"It takes {takes}.")
    return arguments


def _has_type(value: Any, expected: type) -> bool:
    return type(value) is expected or (expected is float and type(value) is int)


def quote(text: str) -> str:
    """Text from a command for an answer: one line of printable characters, not long."""
    shown = text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…"
    return repr(shown)


def _decode_object(name: str, text: bytes) -> dict[str, Any]:
    if len(text) > MAX_BYTES:
        raise UsageError(f"{name}: its arguments are longer than {MAX_BYTES:,} bytes", "Write them shorter.")
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        raise UsageError(f"{name}: its arguments are not a JSON object", 'Write for example {"node": "n1"}.')
    return arguments
