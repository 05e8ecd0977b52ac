"""Lists the hosts that the locators of the defs name, without a run; in a crawl, the seeder records them."""

from collections.abc import Iterator

from engine import urls
from engine.defs.url_list import read_urls
from engine.defs.url_patterns import expand
from engine.errors import UsageError
from engine.model.definition import Definitions, Locator


def locator_hosts(definitions: Definitions, base_url: str | None) -> frozenset[str]:
    """The hosts (`name:port`) of all locators, and of the base of relative ones; those on stdin are not read."""
    base = base_url or definitions.base_url
    written = (url for group in definitions.locator_groups for each in group.locators for url in _written_urls(each))
    resolved = (urls.resolve(url, base) for url in ("", *written))
    return frozenset(urls.host_key(url) for url in resolved if url is not None)


def _written_urls(locator: Locator) -> Iterator[str]:
    for pattern in locator.urls:
        yield from expand(pattern)
    if locator.sitemap:
        yield locator.sitemap
    if locator.from_file and locator.from_file != "-":
        try:
            yield from (url for _, url in read_urls(locator.from_file))
        except UsageError:
            return  # a crawl reports it; here it only names no host
