"""Reads the user's `console.toml`; keeps the last theme, and the last screen of each data dir."""

import contextlib
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct, field

from crawl_console.tui.bindings import KEYS_BY_ID, SCREEN_NAMES
from crawl_console.tui.themes import DEFAULT_THEME, THEMES
from crawl_engine.runtime.user_folder import state_folder

_CONFIG_FILE, _STATE_FILE = "console.toml", "console.json"
_SAVED_TABLES = ("screens", "columns", "filters")
_MAX_DATA_DIRS = 50
"""Data dirs whose last screen is kept."""


class Config(Struct):
    """The user's configuration. `problems` are shown once and are not fatal."""

    folder: Path
    theme: str = DEFAULT_THEME
    screen: str = "nodes"
    keys: dict[str, str] = field(default_factory=dict)
    mouse: bool = True
    bell: bool = False
    """Whether a new alarm rings the terminal's bell."""
    notify: bool = False
    """Whether a new alarm is sent to the terminal as a notification (OSC 9)."""
    state_path: Path | None = None
    """Where theme and screens are kept; None: nowhere."""
    data_dir: str = ""
    """The data dir, as a key of the kept screens."""
    problems: list[str] = field(default_factory=list)
    hidden_columns: dict[str, list[str]] = field(default_factory=dict)
    """By table: the titles of columns that the operator has hidden."""
    filters: dict[str, str] = field(default_factory=dict)
    """Saved filters by name."""

    def hide_columns(self, table: str, titles: Iterable[str]) -> None:
        self.hidden_columns[table] = sorted(titles)


def default_folder() -> Path:
    """The configuration folder: `$XDG_CONFIG_HOME/crawl-console`, else `~/.config/crawl-console`."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "crawl-console"


def default_state_path() -> Path:
    """The file of theme and screens."""
    return state_folder() / _STATE_FILE


def load(folder: Path | None = None, *, data: Path = Path("data"), state_path: Path | None = None) -> Config:
    """Read both files; what cannot be read becomes a problem and is left out. `data`: the data dir."""
    config = Config(folder if folder is not None else default_folder())
    config.state_path, config.data_dir = state_path or default_state_path(), str(data.absolute())
    saved = _read_state(config.state_path)
    config.hidden_columns = {
        str(name): [str(title) for title in titles]
        for name, titles in saved["columns"].items()
        if isinstance(titles, list)
    }
    config.filters = {str(name): str(text) for name, text in saved["filters"].items()}
    if saved["screens"].get(config.data_dir) in SCREEN_NAMES:
        config.screen = saved["screens"][config.data_dir]
    if saved["theme"] in THEMES:
        config.theme = saved["theme"]
    try:
        settings = tomllib.loads((config.folder / _CONFIG_FILE).read_text("utf-8"))
    except FileNotFoundError:
        return config
    except (OSError, ValueError) as error:
        config.problems.append(f"{config.folder / _CONFIG_FILE}: {error}")
        return config
    _apply(config, settings)
    return config


def _apply(config: Config, settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        if name == "theme" and value in THEMES:
            config.theme = value
        elif name in ("mouse", "bell", "notify") and isinstance(value, bool):
            setattr(config, name, value)
        elif name == "keys" and isinstance(value, dict):
            for id_, keys in value.items():
                if id_ in KEYS_BY_ID and isinstance(keys, str) and keys:
                    config.keys[id_] = keys
                else:
                    config.problems.append(f"console.toml: unknown key name {id_!r}; docs/console.md lists them")
        else:
            config.problems.append(f"console.toml: unknown setting {name} = {value!r}")


def save_state(config: Config, *, theme: str, screen: str) -> None:
    """Save theme and screen for the next start; a folder that cannot be written is ignored."""
    if config.state_path is None:
        return
    screens = _read_state(config.state_path)["screens"]
    screens.pop(config.data_dir, None)
    screens[config.data_dir] = screen
    kept = dict(list(screens.items())[-_MAX_DATA_DIRS:])
    with contextlib.suppress(OSError):
        config.state_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.state_path.write_bytes(
            orjson.dumps({"theme": theme, "screens": kept, "columns": config.hidden_columns, "filters": config.filters})
        )


def _read_state(path: Path) -> dict[str, Any]:
    """Theme, screens, columns and filters; empty if the file cannot be read."""
    saved: Any = None
    with contextlib.suppress(OSError, ValueError):
        saved = orjson.loads(path.read_bytes())
    saved = saved if isinstance(saved, dict) else {}
    tables = {name: saved[name] if isinstance(saved.get(name), dict) else {} for name in _SAVED_TABLES}
    return {"theme": saved.get("theme"), **tables}
