"""What the parts of a supervisor know of their run: its tables, data dir and settings."""

from pathlib import Path

from msgspec import Struct

from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.run import events
from crawl_engine.store.tables.run.events import Level
from crawl_engine.store.tables.run.runs import Run


class RunContext(Struct, frozen=True):
    """A run under one supervisor."""

    db: Database
    folder: Path
    """The data dir."""
    row: Run
    """As it was when this supervisor began."""
    settings: Settings
    epoch: int
    """Of the supervisor, or of its machine."""

    @property
    def seq(self) -> int:
        return self.row.seq

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def output_dir(self) -> Path:
        """The run's folder of outputs."""
        return self.folder / "output" / self.id

    def log(self, level: Level, kind: str, text: str) -> None:
        """Add an event in the open transaction."""
        events.log(self.db, self.seq, level, kind, text)
