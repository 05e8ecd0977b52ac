"""Creates the jobs of seeds inside an open transaction."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson

from crawl_engine import urls
from crawl_engine.model.definition import Definitions, definition_hash
from crawl_engine.model.job import JobKind, account_of, link_key, locator_key, scoped_key, sitemap_key
from crawl_engine.model.locator import Locator, Series, SitemapRules
from crawl_engine.model.stored_form import to_plain
from crawl_engine.robots.host_policy import resolve_host_policy
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.job import jobs, locators
from crawl_engine.store.tables.job.jobs import NewLocator
from crawl_engine.store.tables.outcome import Placement
from crawl_engine.store.tables.run import runs
from crawl_engine.store.tables.run.runs import FoundWarning
from crawl_engine.store.transactions import placement
from crawl_engine.store.transactions.placement import PlacementCache

_FIRST_BATCH, _LEAST_BATCH, _LARGEST_BATCH = 2_000, 500, 32_000
_BATCH_SECONDS = 0.3
"""Nodes, appender and commands wait while a batch is written: after a slower one the next is smaller."""


class Seed(NamedTuple):
    """A start URL without credentials, its `user:password` as written (may be empty), and the body to send."""

    url: str
    userinfo: str
    body: str | None = None
    series: Series | None = None
    """The pages that follow it; None: a single page."""
    carried: str | None = None
    """What its page knows (`link.Carried`)."""
    request: str | None = None
    """The request of its locator, where values of the seed are part of it (`encode_request`)."""


class SeedJobs:
    """Creates jobs by the locators, limits and priorities of one def version."""

    def __init__(self, db: Database, run: int, definitions: Definitions, placements: PlacementCache) -> None:
        self._db = db
        self._run = run
        self._definitions = definitions
        self._placements = placements
        self.batch_size = _FIRST_BATCH
        """The number of seeds to add in the next transaction."""
        self._added = 0

    @contextlib.contextmanager
    def placing(self) -> Iterator[None]:
        """A transaction; its placements are cached once it is committed."""
        self._added = 0
        try:
            with self._db.transaction():
                began = time.monotonic()
                yield
        except BaseException:
            self._placements.rollback_cache()
            raise
        self._placements.commit_cache()
        self.batch_size = next_batch_size(self.batch_size, self._added, time.monotonic() - began)

    def add(self, group: str, locator: Locator, batch: Sequence[Seed], kind: JobKind) -> set[int]:
        """Create the jobs of seeds; returns their hosts, which must be readmitted."""
        run, seeded_hosts = self._run, set()
        rules = locator.sitemap_rules if kind is JobKind.SITEMAP else None
        rules_hash = "" if rules is None else definition_hash(rules)
        task_group = self._definitions.task_group(group)
        priority = task_group.priority if task_group is not None else 0
        ids = {
            (userinfo, body, series, request): locators.ensure(
                self._db, run, group, locator.name,
                request or encode_request(locator, userinfo, body, rules=rules, series=series),
            )
            for userinfo, body, series, request in dict.fromkeys(
                (seed.userinfo, seed.body, seed.series, seed.request) for seed in batch
            )
        }  # fmt: skip
        may_be_linked = kind is JobKind.PAGE and locator.method == "GET"
        places: dict[str, Placement] = {}
        new = []
        for url, userinfo, body, series, carried, request in batch:
            origin = urls.origin(url)
            place = places.get(origin)
            if place is None:
                place = self._placements.find_or_create(self._db, group, urls.host_key(url), origin, kind)
                places[origin] = place
                seeded_hosts.add(place.host)
            plain = may_be_linked and body is None
            account = account_of(userinfo) if userinfo else ""
            if kind is JobKind.SITEMAP:
                identity = sitemap_key(group, locator.name, url, body, account, rules_hash)
            else:
                identity = locator_key(group, locator.name, url, locator.method, body, account)
            page_key = link_key(group, url) if plain else None
            if locator.cookie_scope is not None:
                cookies = _cookies_of(locator, request)
                identity = scoped_key(identity, cookies)
                page_key = None if page_key is None else scoped_key(page_key, cookies)
            new.append(
                NewLocator(
                    run,
                    place.sequence,
                    priority,
                    ids[userinfo, body, series, request],
                    url,
                    page_key,
                    identity,
                    carried,
                )
            )
        jobs.add_locators(self._db, new)
        if any(seed.request is not None for seed in batch):
            self._note_shared(new)
        self._added += len(batch)
        return seeded_hosts

    def _note_shared(self, new: Sequence[NewLocator]) -> None:
        """Note a seed that has no job, since an earlier one asks for its URL with other cookies or headers."""
        for url, name, mine, other in jobs.list_shared(self._db, new):
            sent, asked = orjson.loads(mine), orjson.loads(other)
            part = next((part for part in ("cookies", "headers") if sent[part] != asked[part]), None)
            if part is None or (finder := f"seeds of {name}") in runs.list_found(self._db, self._run):
                continue
            text = f"seeds of the locator {name} ask for {url} with other {part}, but it was asked for once"
            text += "; `cookieScope: group` keeps them apart" if part == "cookies" else ""
            runs.set_found(self._db, self._run, finder, [FoundWarning("shared-url", text, url)])
            break

    def readmit(self, seeded_hosts: set[int]) -> None:
        """Count these hosts as named in the defs: jobs that the address guard skipped on them are requeued."""
        for key in hosts.mark_named(self._db, seeded_hosts):
            placement.readmit_host(self._db, self._run, key, self._placements.host_policy(key))


def next_batch_size(size: int, added: int, seconds: float) -> int:
    """The size of the batch after one that should have `size` seeds, and took `seconds` for those it had."""
    if seconds > _BATCH_SECONDS:
        return max(_LEAST_BATCH, min(size, int(added * _BATCH_SECONDS / seconds)))
    if added < size:
        return size
    return min(_LARGEST_BATCH, 2 * size, int(size * _BATCH_SECONDS / max(seconds, 0.001)))


def _cookies_of(locator: Locator, request: str | None) -> Sequence[tuple[str, str]]:
    """The cookies of a locator, with the values of a seed where it has any."""
    return [*locator.cookies.items()] if request is None else orjson.loads(request)["cookies"]


def create_placements(run: int, definitions: Definitions, settings: Settings) -> PlacementCache:
    """Places the jobs of a run on sequences, by the host policies of these defs."""
    return PlacementCache(run, lambda key: resolve_host_policy(definitions, settings, key))


def encode_request(
    locator: Locator, userinfo: str = "", body: str | None = None, *, rules: SitemapRules | None = None,
    series: Series | None = None,
) -> str:  # fmt: skip
    """A locator's request in the form of the table `locators`, with the texts of the defs."""
    request: dict[str, object] = {
        "method": locator.method,
        "headers": list(locator.headers.items()),
        "cookies": list(locator.cookies.items()),
        "body": body,
        "content_type": locator.content_type,
    }
    if userinfo:
        request["userinfo"] = userinfo
    if locator.cookie_scope is not None:
        request["cookie_scope"] = locator.cookie_scope
    if rules is not None:
        request["sitemap"] = to_plain(rules)
    if series is not None:
        request["series"] = to_plain(series)
    return orjson.dumps(request).decode()
