"""How a console was asked for. Values only."""

from dataclasses import dataclass
from pathlib import Path

from console.tui.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """How a console was asked for."""

    data: Path
    defs: Path
    hertz: float
    config: Config
    owner: bool = False
    """Whether it started the supervisor itself: then `q` asks what shall become of it."""
    read_only: bool = False
    ascii_only: bool = False
    max_failed: int = 0
