"""Loads the settings from flags, CRAWL_* variables, crawl.toml and scoopi.properties, in that order."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from msgspec import Struct
from msgspec.structs import fields

from crawl_engine.errors import UsageError, suggest
from crawl_engine.other_names import SETTINGS, as_sentence
from crawl_engine.settings.crawl_toml import CrawlToml, parse_helpers
from crawl_engine.settings.declaration import Settings, default_nodes
from crawl_engine.settings.values import parse_run_time, parse_value

if TYPE_CHECKING:
    from crawl_engine.settings.scoopi_properties import ScoopiValue


_NAMES = Settings.__struct_fields__
_DEFAULT = "default"


class Setting(Struct, frozen=True):
    """One value and its origin: `--set X`, `env CRAWL_X`, `crawl.toml:3`, the place in a properties file, `default`."""

    name: str
    value: Any
    origin: str


class _Written(Struct, frozen=True):
    """A value that is not parsed yet, and its origin."""

    value: Any
    origin: str
    kind: Literal["text", "toml", "property"] = "text"


def load_settings(
    assigned: Mapping[str, Any], *, flags: Mapping[str, Any] = MappingProxyType({}),
    environment: Mapping[str, str] | None = None, folder: Path = Path(),
    properties: "Mapping[str, ScoopiValue]" = MappingProxyType({}),
) -> Settings:  # fmt: skip
    """The settings in force. `assigned` holds the values of `--set`, `flags` those of own flags; None: not given.

    `properties`: the values of a scoopi.properties. Raises UsageError with every unknown name and invalid value, each
    with its place.
    """
    resolved = resolve_settings(assigned, flags=flags, environment=environment, folder=folder, properties=properties)
    return Settings(**{setting.name: setting.value for setting in resolved})


def resolve_settings(
    assigned: Mapping[str, Any], *, flags: Mapping[str, Any] = MappingProxyType({}),
    environment: Mapping[str, str] | None = None, folder: Path = Path(),
    properties: "Mapping[str, ScoopiValue]" = MappingProxyType({}), names: Collection[str] = _NAMES,
) -> list[Setting]:  # fmt: skip
    """Every setting, or those of `names`, with its origin, in order of declaration. Raises as `load_settings` does."""
    environment = os.environ if environment is None else environment
    toml = CrawlToml.read(folder)
    mistakes = [_unknown(name, "--set") for name in assigned if name not in _NAMES]
    if names is _NAMES:
        mistakes += [_unknown(name, toml.place(name)) for name in toml.values if name not in _NAMES]
    settings: dict[str, Setting] = {}
    hints = get_type_hints(Settings, include_extras=True)
    for field in fields(Settings):
        name, variable = field.name, f"CRAWL_{field.name.upper()}"
        if name not in names:
            continue
        if flags.get(name) is not None:
            written = _Written(flags[name], f"--{name.replace('_', '-')}")
        elif assigned.get(name) is not None:
            written = _Written(assigned[name], f"--set {name}")
        elif variable in environment:
            written = _Written(environment[variable], f"env {variable}")
        elif name in toml.values:
            written = _Written(toml.values[name], toml.place(name), "toml")
        elif name in properties:
            written = _Written(properties[name], properties[name].place, "property")
        else:
            default = default_nodes() if name == "nodes" else field.default
            settings[name] = Setting(name, default, _DEFAULT)
            continue
        try:
            settings[name] = Setting(name, _parse(name, hints[name], written, toml, mistakes), written.origin)
        except UsageError as error:
            mistakes.append(error)
    for check in (_check_run_time, _check_grace):
        try:
            check(settings)
        except UsageError as error:
            mistakes.append(error)
    if mistakes:
        *others, last = mistakes
        raise UsageError("\n".join([*map(str, others), last.message]), last.remedy)
    return list(settings.values())


def _parse(name: str, hint: Any, written: _Written, toml: CrawlToml, mistakes: list[UsageError]) -> Any:
    """The value of a setting. Raises UsageError with the place of the value; adds mistakes in helpers to the list."""
    if written.kind == "property":
        return written.value.parse(name, hint)
    if name == "helpers":
        helpers, problems = parse_helpers(written.value)
        for problem in problems:
            place = toml.place(*problem.keys) if written.kind == "toml" else written.origin
            mistakes.append(UsageError(f"{place}: {problem.message}", problem.remedy))
        return helpers
    try:
        return parse_value(name, hint, written.value, typed=written.kind == "toml")
    except UsageError as error:
        raise UsageError(f"{written.origin}: {error.message}", error.remedy) from None


def _check_run_time(settings: Mapping[str, Setting]) -> None:
    """Raise UsageError if `run_time` is not a date: its form depends on another setting."""
    if "run_time" in settings and "date_time_pattern" in settings and settings["run_time"].value is not None:
        try:
            parse_run_time(settings["run_time"].value, settings["date_time_pattern"].value)
        except UsageError as error:
            raise UsageError(f"{settings['run_time'].origin}: {error.message}", error.remedy) from None


def _check_grace(settings: Mapping[str, Setting]) -> None:
    """Raise UsageError if a given `grace` is longer than the whole stop."""
    if "grace" in settings and "stop_within" in settings and settings["grace"].origin != _DEFAULT:
        grace, whole = settings["grace"], settings["stop_within"]
        if whole.value is not None and grace.value > whole.value:
            raise UsageError(
                f"{grace.origin}: {grace.value:g} s is longer than {whole.origin}, {whole.value:g} s",
                "The grace is a part of the stop: raise stop_within, or lower grace.",
            )


def parse_assignment(text: str) -> tuple[str, str]:
    """Split the `NAME=VALUE` of `--set`. Raises UsageError."""
    name, sign, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not sign:
        raise UsageError(f"--set {text}: not of the form NAME=VALUE", "Write for example --set delay=0.5")
    if name not in _NAMES:
        raise _unknown(name, "--set")
    return name, value.strip()


def find_setting(settings: Sequence[Setting], name: str) -> Setting:
    """The setting of a name, written with `_` or `-`. Raises UsageError."""
    name = name.strip().replace("-", "_")
    found = next((setting for setting in settings if setting.name == name), None)
    if found is None:
        raise _unknown(name, "config")
    return found


def _unknown(name: str, place: str) -> UsageError:
    other = SETTINGS.get(name.lower())
    hint = suggest(name, list(_NAMES)) if other is None else f"; {as_sentence(other)}"
    return UsageError(f"{place}: unknown setting '{name}'{hint}", "`crawl-console config` lists the settings.")
