"""Splits the credentials off the URLs of locators: they are sealed, and never part of a job's URL."""

from collections.abc import Callable
from typing import NamedTuple

from engine import urls
from engine.model.secret import SecretVault


class Seed(NamedTuple):
    """A start URL without credentials, and its sealed `user:password`, empty if it has none."""

    url: str
    userinfo: str


class SeedSecrets:
    """The credentials in the seeds of one run."""

    def __init__(self, vault: SecretVault, share: Callable[[], None]) -> None:
        """`share` sends the nodes what was sealed since; it must be called before jobs that need it exist."""
        self._vault = vault
        self.share = share

    def split(self, url: str) -> Seed:
        """Seal the credentials of a normalized URL."""
        userinfo = urls.userinfo_of(url) if "@" in url else ""
        if not userinfo:
            return Seed(url, "")
        return Seed(urls.without_credentials(url), self._vault.seal_userinfo(userinfo))
