"""The command `config`: shows each setting, its value and where the value comes from."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson
from msgspec import to_builtins

from crawl_console.cli.options import common_options, defs_option, object_option
from crawl_console.cli.output import write_json, write_lines, write_stderr
from crawl_console.format import align_columns
from crawl_engine.model.node import NodeRange
from crawl_engine.settings.values import mask_receiver
from crawl_engine.urls import without_passwords

if TYPE_CHECKING:
    from crawl_engine.settings import Setting
    from crawl_engine.settings.declaration import Helper

_HEADINGS = ("SETTING", "VALUE", "ORIGIN")
_URL = re.compile(r"[a-z][a-z0-9+.-]*:\S*[@=]\S*", re.IGNORECASE)


def _complete_name(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    from crawl_engine.settings import Settings

    return [name for name in Settings.__struct_fields__ if name.startswith(start)]


@click.command()
@click.argument("name", required=False, shell_complete=_complete_name)
@defs_option
@object_option
@common_options("assigned")
def config(name: str | None, defs: Path, as_json: bool, assigned: dict[str, str]) -> int:
    """Show each setting, or that of NAME, with its value and where it comes from."""
    from crawl_engine.settings import find_setting, resolve_settings
    from crawl_engine.settings.scoopi_properties import read_scoopi_properties

    written = read_scoopi_properties(defs)
    settings = resolve_settings(assigned, properties=written.values)
    if name is not None:
        settings = [find_setting(settings, name)]
    write_stderr(*map(str, written.warnings))
    if as_json:
        write_json({one.name: {"value": _shown_value(one), "origin": one.origin} for one in settings})
    else:
        write_lines(*align_columns([_HEADINGS, *((one.name, _shown_text(one), one.origin) for one in settings)]))
    return 0


def _shown_text(setting: "Setting") -> str:
    """The value as `--set` takes it."""
    value = _shown_value(setting)
    if value is None:
        return "none"
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _shown_value(setting: "Setting") -> Any:
    """The value as crawl.toml has it, `user:password@` of its URLs masked."""
    value = setting.value
    if isinstance(value, NodeRange):
        return str(value) if value.is_elastic else value.least
    if setting.name == "helpers" and value is not None:
        value = {helper.name: _helper_as_dict(helper) for helper in value}
    if setting.name == "notify" and value is not None:
        return [mask_receiver(url) for url in value]
    return _mask(to_builtins(value))


def _helper_as_dict(helper: "Helper") -> dict[str, Any]:
    """A table `[helpers.NAME]`."""
    shown: dict[str, Any] = {"run": list(helper.run), "stop": helper.stop}
    ready = {"port": helper.port, "line": helper.line}
    if known := {name: value for name, value in ready.items() if value is not None}:
        shown["ready"] = {**known, "within": helper.within}
    return shown


def _mask(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _mask(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mask(item) for item in value]
    return _URL.sub(lambda url: without_passwords(url[0]), value) if isinstance(value, str) else value
