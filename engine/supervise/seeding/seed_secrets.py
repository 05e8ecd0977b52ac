"""Splits the credentials off the URLs of locators: they are sealed, and never part of a job's URL."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from engine import urls
from engine.defs.url_list import read_urls
from engine.errors import UsageError
from engine.model.definition import LocatorGroup
from engine.model.locator import Series
from engine.model.secret import SecretVault

_SLICE_SECONDS = 0.1


class Seed(NamedTuple):
    """A start URL without credentials, its sealed `user:password`, empty if it has none, and the body to send."""

    url: str
    userinfo: str
    body: str | None = None
    series: Series | None = None
    """The pages that follow it; None: it is alone."""


class SeedSecrets:
    """The credentials in the seeds of one run. It lives as long as the supervisor, through all versions of the defs."""

    def __init__(self, vault: SecretVault, share: Callable[[], None], on_complete: Callable[[], None]) -> None:
        """`share` sends the nodes what was sealed since; it must be called before jobs that need it exist.

        `on_complete` tells them that no secret is missing any longer only because it is not sealed yet.
        """
        self._vault = vault
        self.share = share
        self.mark_complete = on_complete
        self._recalled: set[tuple[str, int, int]] = set()

    def split(self, url: str) -> Seed:
        """Seal the credentials of a normalized URL."""
        userinfo = urls.userinfo_of(url) if "@" in url else ""
        if not userinfo:
            return Seed(url, "")
        return Seed(urls.without_credentials(url), self._vault.seal_userinfo(userinfo))

    def recall(self, group: LocatorGroup, base: str | None) -> Iterator[None]:
        """Seal the credentials in lists that were seeded before: jobs may still need them.

        Yields after each tenth of a second of work, when what was sealed is shared. A list is read once for each of
        its contents, as its size and time of change tell. `base`: of relative URLs.
        """
        for locator in group.locators:
            if locator.from_file not in (None, "-"):
                with contextlib.suppress(OSError, UsageError):  # the list is gone: jobs that need a password say so
                    yield from self._recall_list(str(locator.from_file), base)

    def _recall_list(self, path: str, base: str | None) -> Iterator[None]:
        found = Path(path).stat()
        content = (path, found.st_mtime_ns, found.st_size)
        if content in self._recalled:
            return
        deadline = time.monotonic() + _SLICE_SECONDS
        for _, url in read_urls(path):
            if "@" in url:
                full = urls.resolve(url, base)
                if full is not None:
                    self.split(full)
            if time.monotonic() > deadline:
                self.share()
                yield
                deadline = time.monotonic() + _SLICE_SECONDS
        self.share()
        self._recalled.add(content)
