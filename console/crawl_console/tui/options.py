"""What the console was started with: folders, refresh rate, user config, read-only, ASCII."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from crawl_console.tui.config import Config
from crawl_engine.settings import Settings


class ConsoleOptions(Struct, frozen=True, kw_only=True):
    """Command-line options and the user's configuration."""

    data: Path
    defs: Path
    hertz: float
    config: Config
    owner: bool = False
    """Whether this console started the supervisor: then `q` asks what happens to the run."""
    read_only: bool = False
    ascii_only: bool = False
    has_list: bool = False
    """Whether `esc` on a screen goes back to the list of crawls."""
    start_supervisor: Callable[[], tuple[bool, str]] | None = None
    """Starts a supervisor that resumes the run; returns whether it did, and the answer. None: it cannot."""
    settings: Settings = field(default_factory=Settings)
