"""Which hosts the defs name: the address guard admits them, and redirects may lead to them."""

from typing import NamedTuple

from crawl_engine import urls
from crawl_engine.errors import one_line
from crawl_engine.http.address_guard import guarded_category, literal_address
from crawl_engine.http.errors import AddressRefused
from crawl_engine.model.job import LeasedJob
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.def_cache import DefCache
from crawl_engine.robots.host_policy import resolve_written


class _WrittenHosts(NamedTuple):
    """The hosts in the URLs of all locators, as they are written."""

    keys: frozenset[str]
    """As `name:port`."""
    names: frozenset[str]
    """Without `www.`."""


class NamedHosts:
    """One for each node; used by the fetch loop's thread alone.

    Locators name hosts as they are written, and as they are seeded, which the store records: lists of URLs are read
    only then. Only positive answers are kept: a host may be named at any time, and stays named for the run.
    """

    def __init__(self, *, run: int, base_url: str | None, db_access: DbAccess, def_cache: DefCache) -> None:
        """`base_url`: of the run's relative locators; None: that of the defs."""
        self._run = run
        self._base_url = base_url
        self._db_access = db_access
        self._def_cache = def_cache
        self._version = 0
        """The newest version of the defs that a job had."""
        self._written: dict[int, _WrittenHosts] = {}
        """By version of the defs."""

    def is_known_exempt(self, job: LeasedJob) -> bool:
        """Whether `exempts` was true for the host of the job's plan.

        The newest version of the defs decides, also for jobs that were leased with an earlier one.
        """
        self._version = max(self._version, job.defs_version)
        return job.plan.exempt_since == self._version

    def exempts(self, job: LeasedJob) -> bool:
        """Whether the host of the job's plan may be at a guarded address. Asked again until it may."""
        if self.is_known_exempt(job):
            return True
        exempt = self.is_exempt(job.plan.host_key, job.defs_version)
        if exempt:
            job.plan.exempt_since = self._version
        return exempt

    def is_exempt(self, host_key: str, version: int) -> bool:
        """Whether a host (`name:port`) may be at a guarded address: named by a locator, the base URL or `private`.

        A login page that the defs name with its host counts, too.
        """
        self._version = max(self._version, version)
        name, _, port = host_key.rpartition(":")
        return (
            self._def_cache.definitions(self._version).allows_private(name, int(port))
            or host_key in (urls.host_key(base) for base in self._base_urls(self._version))
            or host_key in map(urls.host_key, self._login_urls(self._version))
            or host_key in self._written_hosts(self._version).keys
            or self._db_access.is_named_host(self._run, host_key)
        )

    def may_be_target(self, url: str, job: LeasedJob) -> bool:
        """Whether the defs name the host of a redirect's target, with any port."""
        bare = urls.host_without_www(url)
        definitions = self._def_cache.definitions(job.defs_version)
        if bare in self._written_hosts(job.defs_version).names:
            return True
        named = (*self._base_urls(job.defs_version), *self._login_urls(job.defs_version))
        return bare in map(urls.host_without_www, named) or any(
            definitions.has_host_rule(name) or self._db_access.is_named_name(self._run, name)
            for name in (urls.host_of(url), bare, f"www.{bare}")
        )

    def _login_urls(self, version: int) -> list[str]:
        """The login pages that the defs name with their host."""
        rules = [host.login for host in self._def_cache.definitions(version).hosts if host.login is not None]
        return [url for rule in rules if (url := urls.normalize(rule.url)) is not None]

    def _written_hosts(self, version: int) -> _WrittenHosts:
        """The hosts that the locators of a version name before seeding. Read once: locators may be thousands."""
        hosts = self._written.get(version)
        if hosts is None:
            groups = self._def_cache.definitions(version).locator_groups
            locators = [locator for group in groups for locator in group.locators]
            written = [url for locator in locators for url in (*locator.urls, locator.sitemap or "")]
            origins = {f"{urls.origin(url)}/" for text in written if (url := resolve_written(text)) is not None}
            hosts = _WrittenHosts(
                frozenset(map(urls.host_key, origins)), frozenset(map(urls.host_without_www, origins))
            )
            self._written[version] = hosts
        return hosts

    def _base_urls(self, version: int) -> list[str]:
        """The base of relative locators, as the seeder chooses it."""
        base = self._base_url or self._def_cache.definitions(version).base_url
        normalized = urls.normalize(base) if base else None
        return [normalized] if normalized else []


class RedirectRule:
    """Decides where a redirect may lead: its own host, hosts that the defs name, or any public host."""

    def __init__(self, named_hosts: NamedHosts) -> None:
        self._named_hosts = named_hosts

    def refusal(self, job: LeasedJob, from_url: str, target: str) -> str | None:
        """Why a redirect from one normalized URL to another is not followed; None if it is.

        A name that resolves to a guarded address is refused later, at the connection.
        """
        if urls.origin(from_url) == urls.origin(target):
            return None
        return self.guard_refusal(job, target) or self._leaving_refusal(job, from_url, target)

    def guard_refusal(self, job: LeasedJob, target: str) -> str | None:
        """Why the address guard refuses a target that spells an address; None if it does not."""
        address = literal_address(urls.host_of(target))
        category = None if address is None else guarded_category(address)
        host_key = urls.host_key(target)
        if address is None or category is None or self._named_hosts.is_exempt(host_key, job.defs_version):
            return None
        host, _, port = host_key.rpartition(":")
        return AddressRefused(host, int(port), address, category).reason

    def _leaving_refusal(self, job: LeasedJob, from_url: str, target: str) -> str | None:
        stays = urls.host_without_www(target) in (urls.host_without_www(from_url), urls.host_without_www(job.url))
        if stays or job.lineage.may_leave_host or self._named_hosts.may_be_target(target, job):
            return None
        host = urls.host_of(target)
        return one_line(
            f"redirect leaves {urls.host_of(from_url)} for {host}; "
            f'to follow it: hosts: {{"{host}": {{}}}}, or sameHost: false at the link'
        )
