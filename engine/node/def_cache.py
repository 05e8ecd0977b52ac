"""Caches the defs in a node: reads each version once from the store, compiles each dataDef once."""

import threading

from msgspec import Struct

from engine import urls
from engine.extract.records import RecordExtractor
from engine.extract.select.selector_syntax import EMBEDDED_PREFIX, JMESPATH_PREFIX, JSONLD_PREFIX, is_json_selector
from engine.model.definition import DataDef, Definitions, HostRule, TaskGroup, definition_hash
from engine.model.fingerprint import ExtractionUnit, list_query_rules, list_units
from engine.model.host import NO_RETRY_RULE, RetryRule
from engine.model.job import LeasedJob
from engine.robots.host_policy import find_plain_hosts, host_rule_for, resolve_host_policy
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.tables.host.hosts import HostPolicy
from engine.store.tables.run import versions
from engine.urls import QueryStripper

_EMPTY_GROUP = TaskGroup(name="")
_MAX_VERSIONS = 8
"""A developer saves often: old versions are evicted, and read again if a job still needs them."""


class CompiledDataDef(Struct, frozen=True):
    """A unit of extraction, ready to apply; `id` is what its rows carry."""

    data_def: str
    task: str
    """Empty with the default chain."""
    id: int
    extractor: RecordExtractor
    json_selector: str = ""
    """`block`, or the first field, that selects with `jmespath:` in a document."""
    embedded_selector: str = ""
    """`block`, or the first field, that selects in the JSON of HTML pages."""
    unique_key: tuple[str, ...] = ()
    is_plugin: bool = False
    """Whether it runs plugin code, and so only in an extraction process."""


class DefCache:
    """Serves three threads: fetch loop, queue worker and committer.

    Hits take no lock. Misses read on the cache's own connection, one thread at a time. No thread waits for the
    database's write lock while it holds the cache's lock, since the committer reads inside its transaction.
    """

    def __init__(self, db: Database, settings: Settings, run: int) -> None:
        """`db`: a connection that nothing else uses."""
        self._db = db
        self._db_lock = threading.Lock()
        self._settings = settings
        self._run = run
        self._versions: dict[int, Definitions] = {}
        self._compiled_by_group: dict[tuple[int, str], tuple[CompiledDataDef, ...]] = {}
        self._compiled_by_hash: dict[tuple[str, str, str], CompiledDataDef] = {}
        self._task_groups: dict[tuple[int, str], TaskGroup] = {}
        self._keeps_documents: dict[tuple[int, str], bool | None] = {}
        self._host_rules: dict[tuple[int, str], HostRule] = {}
        self._plain_hosts: dict[int, frozenset[str]] = {}
        self._shares_cookies: dict[int, bool] = {}
        self._query_strippers: dict[int, QueryStripper | None] = {}
        self._priority_hashes: dict[int, str] = {}

    def definitions(self, version: int) -> Definitions:
        cached = self._versions.get(version)
        if cached is None:
            with self._db_lock:
                cached = self._versions.get(version)
                if cached is None:
                    cached = self._versions[version] = versions.read(self._db, version)
                    if len(self._versions) > _MAX_VERSIONS:
                        self._evict(min(self._versions))
        return cached

    def _evict(self, version: int) -> None:
        self._versions.pop(version, None)
        self._plain_hosts.pop(version, None)
        self._shares_cookies.pop(version, None)
        self._query_strippers.pop(version, None)
        self._priority_hashes.pop(version, None)
        for cache in (
            self._task_groups, self._compiled_by_group, self._keeps_documents, self._host_rules,
        ):  # fmt: skip
            for key in [key for key in list(cache) if key[0] == version]:
                cache.pop(key, None)

    @property
    def max_links(self) -> int:
        """Links followed from one page."""
        return self._settings.max_links

    def current(self) -> Definitions:
        """The defs in force. New hosts and sequences follow them, not the version of a leased page."""
        with self._db_lock:
            newest = versions.current(self._db, self._run)
        return self.definitions(newest) if newest else Definitions()

    def task_group(self, version: int, name: str) -> TaskGroup:
        """The task group of that name, or an empty one."""
        key = (version, name)
        cached = self._task_groups.get(key)
        if cached is None:
            cached = self._task_groups[key] = self.definitions(version).task_group(name) or _EMPTY_GROUP
        return cached

    def compiled_data_defs(self, job: LeasedJob) -> tuple[CompiledDataDef, ...]:
        """What to extract from a job's page."""
        key = (job.defs_version, job.group)
        cached = self._compiled_by_group.get(key)
        if cached is None:
            definitions = self.definitions(job.defs_version)
            units = list_units(definitions, self.task_group(*key))
            cached = self._compiled_by_group[key] = tuple(self._compile(key[0], unit) for unit in units)
        return cached

    def keeps_documents(self, job: LeasedJob) -> bool | None:
        """Whether the group of a job keeps documents beyond the end of the run; None: all groups do."""
        key = (job.defs_version, job.group)
        if key not in self._keeps_documents:
            groups = self.definitions(job.defs_version).task_groups
            some_do_not = any(not group.documents for group in groups)
            self._keeps_documents[key] = self.task_group(*key).documents if some_do_not else None
        return self._keeps_documents[key]

    def host_rule(self, version: int, host_key: str) -> HostRule:
        """The rule for a host (`name:port`)."""
        key = (version, host_key)
        cached = self._host_rules.get(key)
        if cached is None:
            cached = self._host_rules[key] = host_rule_for(self.definitions(version), host_key)
        return cached

    def retry_rule(self, version: int, url: str) -> RetryRule:
        """Which answers of a URL's host are asked for again."""
        return self.host_rule(version, urls.host_key(url)).retry or NO_RETRY_RULE

    def shares_cookies(self, version: int) -> bool:
        """Whether nodes share the cookies of some host."""
        cached = self._shares_cookies.get(version)
        if cached is None:
            shared = any(host.jar_mode == "shared" for host in self.definitions(version).hosts)
            cached = self._shares_cookies[version] = shared
        return cached

    def plain_hosts(self, version: int) -> frozenset[str]:
        """The hosts that the defs name with `http:`."""
        cached = self._plain_hosts.get(version)
        if cached is None:
            cached = self._plain_hosts[version] = find_plain_hosts(self.definitions(version))
        return cached

    def query_stripper(self, version: int) -> QueryStripper | None:
        """Drops query keys from the URLs that pages name; None: no host drops any."""
        try:
            return self._query_strippers[version]
        except KeyError:
            stripper = self._query_strippers[version] = QueryStripper.from_rules(
                list_query_rules(self.definitions(version))
            )
            return stripper

    def host_policy(self, host_key: str) -> HostPolicy:
        """The policy for a host that appears for the first time."""
        return resolve_host_policy(self.current(), self._settings, host_key)

    def max_pages(self, group: str) -> int | None:
        """The page limit of a group."""
        task_group = self.current().task_group(group)
        return task_group.max_pages if task_group else None

    def _compile(self, version: int, unit: ExtractionUnit) -> CompiledDataDef:
        definitions, stripper = self.definitions(version), self.query_stripper(version)
        data_def = definitions.data_def(unit.data_def)
        assert data_def is not None, "checked when the defs were loaded"
        priorities_hash = self._priority_hashes.get(version)
        if priorities_hash is None:
            priorities_hash = self._priority_hashes[version] = definition_hash(_priorities(definitions))
        key = (unit.hash, priorities_hash, "" if stripper is None else stripper.key)
        if key not in self._compiled_by_hash:
            self._compiled_by_hash[key] = CompiledDataDef(
                data_def=data_def.name,
                task=unit.task,
                id=self._ensure_data_def(unit),
                extractor=RecordExtractor(
                    data_def, _priorities(definitions), max_links=self._settings.max_links, query_stripper=stripper
                ),
                json_selector=_find_json_selector(data_def),
                embedded_selector=_find_selector(data_def, (JSONLD_PREFIX, EMBEDDED_PREFIX)),
                unique_key=data_def.key if data_def.unique else (),
                is_plugin=bool(unit.task or data_def.code),
            )
        return self._compiled_by_hash[key]

    def _ensure_data_def(self, unit: ExtractionUnit) -> int:
        with self._db_lock:
            return versions.ensure_data_def(self._db, unit.data_def, unit.hash)


def _priorities(definitions: Definitions) -> dict[str, int]:
    """The priority of each group."""
    return {group.name: group.priority for group in definitions.task_groups}


def _find_json_selector(data_def: DataDef) -> str:
    block = (data_def.block or "").strip()
    if is_json_selector(block) and not block.startswith(JMESPATH_PREFIX):
        return ""  # its blocks are JSON values of an HTML page
    return _find_selector(data_def, (JMESPATH_PREFIX,))


def _find_selector(data_def: DataDef, prefixes: tuple[str, ...]) -> str:
    selectors = [("block", data_def.block), *((field.name, field.selector) for field in data_def.fields)]
    return next((name for name, text in selectors if (text or "").strip().startswith(prefixes)), "")
