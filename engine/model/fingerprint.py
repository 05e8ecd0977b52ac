"""Fingerprints of a set of defs: hashes that show which stored pages a change of the defs makes stale."""

import json
from dataclasses import dataclass

from engine.model.definition import DataDef, Definitions, TaskGroup, definition_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFingerprint:
    """The defs that apply to the pages of one group."""

    group: str
    data_defs: tuple[tuple[str, str], ...]
    """Name and hash of each dataDef, in the order of the tasks."""
    follow_hash: str
    """A hash of what decides on links besides the dataDefs: target groups, depths, `nofollow`."""

    @property
    def hash(self) -> str:
        """Pages of the group with another hash are stale."""
        return definition_hash([self.data_defs, self.follow_hash])


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDefs:
    """Defs ready to publish: everything slow to compute is computed."""

    definitions: Definitions
    hash: str
    """Of the meaning: formatting and comments do not count."""
    text: str
    """The stored form."""
    data_defs: dict[str, str]
    """Hash of each dataDef by name."""
    groups: tuple[GroupFingerprint, ...]

    @classmethod
    def from_definitions(cls, definitions: Definitions) -> "PreparedDefs":
        """Prepare these defs."""
        hashes = {data_def.name: definition_hash(data_def) for data_def in definitions.data_defs}
        nofollow_rules = sorted((rule.name, rule.nofollow) for rule in definitions.hosts if not rule.nofollow)
        return cls(
            definitions=definitions,
            hash=definition_hash(definitions),
            text=definitions.to_json(),
            data_defs=hashes,
            groups=tuple(
                _group_fingerprint(definitions, group, hashes, json.dumps(nofollow_rules))
                for group in definitions.task_groups
            ),
        )


def _group_fingerprint(
    definitions: Definitions, group: TaskGroup, hashes: dict[str, str], nofollow_rules: str
) -> GroupFingerprint:
    names = list(dict.fromkeys(task.data_def for task in group.tasks))
    used = [data_def for name in names if (data_def := definitions.data_def(name)) is not None]
    return GroupFingerprint(
        group=group.name,
        data_defs=tuple((data_def.name, hashes[data_def.name]) for data_def in used),
        follow_hash=_follow_hash(definitions, group.name, used, nofollow_rules),
    )


def _follow_hash(definitions: Definitions, group: str, used: list[DataDef], nofollow_rules: str) -> str:
    targets = sorted({link.group or group for data_def in used for link in data_def.links})
    if not targets:
        return ""
    limits = [(name, target.max_depth) for name in targets if (target := definitions.task_group(name)) is not None]
    return definition_hash([limits, nofollow_rules])
