"""Reads the user's `console.toml` (keys, theme, mouse), and saves the last screen and theme beside it."""

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
    """The user's configuration. `problems` are shown once and are not fatal."""

    folder: Path
    theme: str = DEFAULT_THEME
    screen: str = "nodes"
    keys: dict[str, str] = field(default_factory=dict)
    mouse: bool = True
    problems: list[str] = field(default_factory=list)


def default_folder() -> Path:
    """The configuration folder: `$XDG_CONFIG_HOME/crawl-console`, else `~/.config/crawl-console`."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "crawl-console"


def load(folder: Path | None = None) -> Config:
    """Read both files; what cannot be read becomes a problem and is left out."""
    config = Config(folder if folder is not None else default_folder())
    with contextlib.suppress(OSError, ValueError):
        saved = orjson.loads((config.folder / _STATE_FILE).read_bytes())
        if isinstance(saved, dict) and saved.get("screen") in SCREEN_NAMES:
            config.screen = saved["screen"]
        if isinstance(saved, dict) and saved.get("theme") in THEMES:
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
        elif name == "mouse" and isinstance(value, bool):
            config.mouse = value
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
    with contextlib.suppress(OSError):
        config.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (config.folder / _STATE_FILE).write_bytes(orjson.dumps({"theme": theme, "screen": screen}))
