"""What a node knows of the defs: each version read once from the store, its dataDefs compiled once by their meaning."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.extract.records import RecordExtractor
from engine.fetch.host_policy import host_rule_for, resolve_host_policy
from engine.model.definition import Definitions, HostRule, TaskGroup, definition_hash
from engine.model.job import LeasedJob
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.tables import versions
from engine.store.tables.hosts import HostPolicy

_EMPTY_GROUP = TaskGroup(name="")
_MAX_VERSIONS = 8
"""A developer saves often: versions nobody works with any more are forgotten, and read again where they are needed."""


@dataclass(frozen=True, slots=True)
class CompiledDataDef:
    """One task's dataDef, ready to be applied; `id` is what its rows carry."""

    data_def: str
    id: int
    extractor: RecordExtractor


class DefCache:
    """Reads def versions through `ask`, which opens a transaction where a dataDef must be written down."""

    def __init__(self, settings: Settings, live: float, ask: Callable[[], Database], run: int) -> None:
        """`live`: seconds a document serves where its group does not say."""
        self._settings = settings
        self._default_live = live
        self._get_database = ask
        self._run = run
        self._versions: dict[int, Definitions] = {}
        self._compiled_by_group: dict[tuple[int, str], tuple[CompiledDataDef, ...]] = {}
        self._compiled_by_hash: dict[tuple[str, str], CompiledDataDef] = {}
        self._host_rules: dict[tuple[int, str], HostRule] = {}

    def definitions(self, version: int) -> Definitions:
        """The defs of a version."""
        found = self._versions.get(version)
        if found is None:
            found = self._versions[version] = versions.read(self._get_database(), version)
            if len(self._versions) > _MAX_VERSIONS:
                self._evict(min(self._versions))
        return found

    def _evict(self, version: int) -> None:
        self._versions.pop(version, None)
        for known in (self._compiled_by_group, self._host_rules):
            for key in [key for key in list(known) if key[0] == version]:
                known.pop(key, None)

    def current(self) -> Definitions:
        """The defs in force: new hosts and sequences are treated by them, whatever a page was leased with."""
        newest = versions.current(self._get_database(), self._run)
        return self.definitions(newest) if newest else Definitions()

    def task_group(self, version: int, name: str) -> TaskGroup:
        """The task group of that name; an empty one where the defs have none."""
        return self.definitions(version).task_group(name) or _EMPTY_GROUP

    def compiled_data_defs(self, job: LeasedJob) -> tuple[CompiledDataDef, ...]:
        """What is to be extracted from a job's page."""
        key = (job.defs_version, job.group)
        found = self._compiled_by_group.get(key)
        if found is None:
            names = dict.fromkeys(task.data_def for task in self.task_group(*key).tasks)
            found = self._compiled_by_group[key] = tuple(self._compile(job.defs_version, name) for name in names)
        return found

    def host_rule(self, version: int, host_key: str) -> HostRule:
        """The rule for a host (`name:port`)."""
        key = (version, host_key)
        found = self._host_rules.get(key)
        if found is None:
            found = self._host_rules[key] = host_rule_for(self.definitions(version), host_key)
        return found

    def host_policy(self, host_key: str) -> HostPolicy:
        """How a host that is met for the first time is to be treated."""
        return resolve_host_policy(self.current(), self._settings, host_key)

    def max_pages(self, group: str) -> int | None:
        """The limit of pages of a group."""
        found = self.current().task_group(group)
        return found.max_pages if found else None

    def fresh_since(self, job: LeasedJob) -> float:
        """The wall-clock second after which a stored document may serve for this job."""
        live = self.task_group(job.defs_version, job.group).live
        return time.time() - (self._default_live if live is None else live)

    def priorities(self, version: int) -> Mapping[str, int]:
        """The priority of each group."""
        return {group.name: group.priority for group in self.definitions(version).task_groups}

    def _compile(self, version: int, name: str) -> CompiledDataDef:
        data_def = self.definitions(version).data_def(name)
        assert data_def is not None, "checked when the defs were loaded"
        priorities = self.priorities(version)
        told = (definition_hash(data_def), definition_hash(priorities))
        if told not in self._compiled_by_hash:
            id_ = versions.ensure_data_def(self._get_database(), data_def)
            self._compiled_by_hash[told] = CompiledDataDef(name, id_, RecordExtractor(data_def, priorities))
        return self._compiled_by_hash[told]
