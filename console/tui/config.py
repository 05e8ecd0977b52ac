"""A user's own choices: `console.toml` for keys and theme, and what the console itself remembers beside it."""

import contextlib
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from console.tui.bindings import KEYS_BY_ID, SCREEN_NAMES
from console.tui.themes import DEFAULT_THEME, THEMES

_CONFIG_FILE, _STATE_FILE = "console.toml", "console-state.json"


@dataclass(slots=True)
class Config:
    """What is in force. `problems` are told once, and hinder nothing."""

    folder: Path
    theme: str = DEFAULT_THEME
    screen: str = "nodes"
    keys: dict[str, str] = field(default_factory=dict)
    mouse: bool = True
    problems: list[str] = field(default_factory=list)


def default_folder() -> Path:
    """Where a user's configuration lies: `$XDG_CONFIG_HOME/crawl-console`, else `~/.config/crawl-console`."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "crawl-console"


def load(where: Path | None = None) -> Config:
    """Read both files; what cannot be read is told and left out."""
    config = Config(where if where is not None else default_folder())
    with contextlib.suppress(OSError, ValueError):
        told = orjson.loads((config.folder / _STATE_FILE).read_bytes())
        if isinstance(told, dict) and told.get("screen") in SCREEN_NAMES:
            config.screen = told["screen"]
        if isinstance(told, dict) and told.get("theme") in THEMES:
            config.theme = told["theme"]
    try:
        written = tomllib.loads((config.folder / _CONFIG_FILE).read_text("utf-8"))
    except FileNotFoundError:
        return config
    except (OSError, ValueError) as error:
        config.problems.append(f"{config.folder / _CONFIG_FILE}: {error}")
        return config
    _apply(config, written)
    return config


def _apply(config: Config, written: dict[str, Any]) -> None:
    for name, value in written.items():
        if name == "theme" and value in THEMES:
            config.theme = value
        elif name == "mouse" and isinstance(value, bool):
            config.mouse = value
        elif name == "keys" and isinstance(value, dict):
            for id_, keys in value.items():
                if id_ in KEYS_BY_ID and isinstance(keys, str) and keys:
                    config.keys[id_] = keys
                else:
                    config.problems.append(f"console.toml: no key {id_!r}; the key panel's document names them")
        else:
            config.problems.append(f"console.toml: {name} = {value!r} means nothing here")


def save_state(config: Config, *, theme: str, screen: str) -> None:
    """Keep the theme and the screen for the next time; a folder that cannot be written is no trouble."""
    with contextlib.suppress(OSError):
        config.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (config.folder / _STATE_FILE).write_bytes(orjson.dumps({"theme": theme, "screen": screen}))
