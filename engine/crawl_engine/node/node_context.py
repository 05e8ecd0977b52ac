"""What the parts of a node know of it: its run, data dir, settings and defs."""

import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from crawl_engine.errors import CrawlError
from crawl_engine.node.def_cache import DefCache
from crawl_engine.settings import Settings
from crawl_engine.store.tables.run.runs import Run


class NodeContext(Struct, frozen=True, kw_only=True):
    """A node of a run."""

    name: str
    """In events."""
    folder: Path
    """The data dir."""
    run: Run
    """As it was when the node began."""
    epoch: int
    settings: Settings
    def_cache: DefCache
    on_fenced: Callable[[], None]
    """Ends the process, because the epoch is over."""
    on_error: Callable[[CrawlError], None]
    """Ends the process, because nothing can be written."""

    @property
    def run_time(self) -> str:
        """The moment that pages get as that of their run."""
        return self.settings.run_time or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.run.created_at))
