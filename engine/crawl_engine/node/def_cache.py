"""Caches the defs in a node: reads each version once from the store, compiles each dataDef once."""

import re
import threading
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.extract.select.selector_syntax import (
    EMBEDDED_PREFIX,
    JMESPATH_PREFIX,
    JSONLD_PREFIX,
    is_json_selector,
)
from crawl_engine.late_regex import late_regex
from crawl_engine.model.definition import DataDef, Definitions, TaskGroup, definition_hash
from crawl_engine.model.file import FieldPath, list_file_fields, list_rendered_fields
from crawl_engine.model.fingerprint import ExtractionUnit, list_units
from crawl_engine.model.host import HostPolicy, RetryRule
from crawl_engine.model.job import HostPlan, JobKind, LeasedJob
from crawl_engine.model.step import REQUIRED_FIELDS
from crawl_engine.model.variables import SITEMAP
from crawl_engine.robots.host_policy import find_plain_hosts, host_rule_for, resolve_host_policy
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.run import versions
from crawl_engine.urls import QueryStripper

_EMPTY_GROUP = TaskGroup(name="")
_MAX_PLANS = 10_000
_MAX_VERSIONS = 8
_SITEMAP_NAME = late_regex(rf"%\{{{re.escape(SITEMAP)}([^{{}}]+)\}}")
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


class DefsVersion:
    """A version of the defs, and what is made of it once."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.compiled: dict[str, tuple[CompiledDataDef, ...]] = {}
        """By group."""
        self.plans: dict[tuple[int, str], HostPlan] = {}
        """By sequence and host."""

    @cached_property
    def keeps_all_documents(self) -> bool:
        """Whether every group keeps its documents beyond the end of the run."""
        return all(group.documents for group in self.definitions.task_groups)

    @cached_property
    def shares_cookies(self) -> bool:
        """Whether nodes share the cookies of some host."""
        return any(host.jar_mode == "shared" for host in self.definitions.hosts)

    @cached_property
    def plain_hosts(self) -> frozenset[str]:
        """The hosts that the defs name with `http:`."""
        return find_plain_hosts(self.definitions)

    @cached_property
    def query_stripper(self) -> QueryStripper | None:
        """What the defs say of the URLs that pages name; None: nothing."""
        return QueryStripper.from_definitions(self.definitions)

    @cached_property
    def file_fields(self) -> dict[str, tuple[FieldPath, ...]]:
        """The fields of the type `file` by dataDef; dataDefs without such fields are left out."""
        return {one.name: paths for one in self.definitions.data_defs if (paths := list_file_fields(one))}

    @cached_property
    def rendered_fields(self) -> dict[str, tuple[str, ...]]:
        """The fields with files of rendered pages, by dataDef."""
        return {one.name: names for one in self.definitions.data_defs if (names := list_rendered_fields(one))}

    def leads_on(self, data_def: str) -> bool:
        """Whether a dataDef finds the page that follows one."""
        found = self.definitions.data_def(data_def)
        return found is not None and found.next is not None

    @cached_property
    def sitemap_names(self) -> tuple[str, ...]:
        """What the defs want to know of entries of sitemaps: the names of `%{sitemap.NAME}`."""
        return tuple(sorted(set(_SITEMAP_NAME.findall(self.definitions.to_json()))))

    @cached_property
    def priorities(self) -> dict[str, int]:
        """The priority of each group."""
        return {group.name: group.priority for group in self.definitions.task_groups}

    @cached_property
    def priorities_hash(self) -> str:
        return definition_hash(self.priorities)


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
        self._versions: dict[int, DefsVersion] = {}
        self._compiled: dict[tuple[str, str, str], CompiledDataDef] = {}
        """By the hashes of all that it is made of: versions share it."""

    def version(self, number: int) -> DefsVersion:
        """A version of the defs, as a job names it."""
        cached = self._versions.get(number)
        if cached is None:
            with self._db_lock:
                cached = self._versions.get(number)
                if cached is None:
                    cached = self._versions[number] = DefsVersion(versions.read(self._db, number))
                    if len(self._versions) > _MAX_VERSIONS:
                        del self._versions[min(self._versions)]
        return cached

    def definitions(self, version: int) -> Definitions:
        return self.version(version).definitions

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
        return self.definitions(version).task_group(name) or _EMPTY_GROUP

    def give_plan(self, job: LeasedJob) -> LeasedJob:
        """The job with the plan of its sequence, and of the host of its stored page or its next request."""
        return self.plan_for(job, job.target or job.url if job.stored is None else job.stored.url)

    def plan_for(self, job: LeasedJob, url: str) -> LeasedJob:
        """The job with the plan of the host of a URL."""
        host_key = urls.host_key(url)
        plans, key = self.version(job.defs_version).plans, (job.sequence, host_key)
        plan = plans.get(key)
        if plan is None:
            if len(plans) >= _MAX_PLANS:
                plans.clear()
            plan = plans[key] = self.plan(job, host_key)
        if plan.group.loader is not None and not job.request.in_browser:
            job = job._replace(request=replace(job.request, in_browser=True))
        return job._replace(plan=plan)

    def plan(self, job: LeasedJob, host_key: str) -> HostPlan:
        """A plan for requests of a job to a host (`name:port`)."""
        version, group = self.version(job.defs_version), self.task_group(job.defs_version, job.group)
        rule = host_rule_for(version.definitions, host_key)
        return HostPlan(
            host_key=host_key,
            rule=rule,
            group=group,
            retry=rule.retry or RetryRule(),
            keeps_documents=None if version.keeps_all_documents or job.kind is not JobKind.PAGE else group.documents,
            file_fields=version.file_fields,
            rendered_fields=version.rendered_fields,
            has_loader=job.kind is JobKind.PAGE
            and (group.loader is not None or any(step.kind == "loader" for task in group.tasks for step in task.chain)),
            leads_on=any(version.leads_on(task.data_def) for task in group.tasks),
            plain_hosts=version.plain_hosts,
            loading=describe_loading(group),
        )

    def compiled_data_defs(self, job: LeasedJob) -> tuple[CompiledDataDef, ...]:
        """What to extract from a job's page."""
        version = self.version(job.defs_version)
        compiled = version.compiled.get(job.group)
        if compiled is None:
            units = list_units(version.definitions, self.task_group(job.defs_version, job.group))
            compiled = version.compiled[job.group] = tuple(self._compile(version, unit) for unit in units)
        return compiled

    def query_stripper(self, version: int) -> QueryStripper | None:
        return self.version(version).query_stripper

    def host_policy(self, host_key: str) -> HostPolicy:
        """The policy for a host that appears for the first time."""
        return resolve_host_policy(self.current(), self._settings, host_key)

    def _compile(self, version: DefsVersion, unit: ExtractionUnit) -> CompiledDataDef:
        data_def, stripper = version.definitions.data_def(unit.data_def), version.query_stripper
        assert data_def is not None, "checked when the defs were loaded"
        key = (unit.hash, version.priorities_hash, "" if stripper is None else stripper.key)
        if key not in self._compiled:
            self._compiled[key] = CompiledDataDef(
                data_def=data_def.name,
                task=unit.task,
                id=self._ensure_data_def(unit),
                extractor=RecordExtractor(
                    data_def, version.priorities, max_links=self._settings.max_links, query_stripper=stripper
                ),
                json_selector=_find_json_selector(data_def),
                embedded_selector=_find_selector(data_def, (JSONLD_PREFIX, EMBEDDED_PREFIX)),
                unique_key=data_def.key if data_def.unique else (),
                is_plugin=bool(unit.task or data_def.code),
            )
        return self._compiled[key]

    def _ensure_data_def(self, unit: ExtractionUnit) -> int:
        with self._db_lock:
            return versions.ensure_data_def(self._db, unit.data_def, unit.hash)


def describe_loading(group: TaskGroup) -> str:
    """A hash of what makes the documents of a group another thing than answers; empty: nothing does."""
    plugins = [
        (step.class_name, step.options, task.loader_code)
        for task in group.tasks
        for step in task.chain
        if step.kind == "loader"
    ]
    if group.loader is None and not plugins:
        return ""
    when = None if group.loader is None else group.loader.browser.when
    # the required fields are those of the group: a plain page that one group keeps may be too little for another
    own = group.name if when is not None and when.missing == REQUIRED_FIELDS else ""
    return definition_hash([group.loader, plugins, own])


def _find_json_selector(data_def: DataDef) -> str:
    block = ("" if data_def.sources else data_def.block or "").strip()
    if is_json_selector(block) and not block.startswith(JMESPATH_PREFIX):
        return ""  # its blocks are JSON values of an HTML page
    return _find_selector(data_def, (JMESPATH_PREFIX,))


def _selectors(data_def: DataDef) -> list[tuple[str, str | None]]:
    return [(field.name, text) for field in data_def.fields for text in (field.selector, *field.fallbacks)]


def _find_selector(data_def: DataDef, prefixes: tuple[str, ...]) -> str:
    selectors = [("block", data_def.block), *_selectors(data_def)]
    if data_def.sources:  # the others search the documents that it gives
        selectors = [("from", data_def.sources[0].selector)]
    return next((name for name, text in selectors if (text or "").strip().startswith(prefixes)), "")
