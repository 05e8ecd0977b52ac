"""The options of a console."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from console.tui.config import Config
from engine.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """Command-line options and the user's configuration."""

    data: Path
    defs: Path
    hertz: float
    config: Config
    owner: bool = False
    """Whether this console started the supervisor: then `q` asks what happens to the run."""
    read_only: bool = False
    ascii_only: bool = False
    start_supervisor: Callable[[], tuple[bool, str]] | None = None
    """Starts a supervisor that resumes the run; returns whether it did, and the answer. None: it cannot."""
    settings: Settings = field(default_factory=Settings)
