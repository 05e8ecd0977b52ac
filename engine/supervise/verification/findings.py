"""What a verification says: of a run, its groups and its output files."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from engine.store.tables.row.content_sums import ContentSum
from engine.supervise.verification.stored_files import DamagedFile

GroupStatus = Literal["valid", "invalid", "unfinished"]
OutputStatus = Literal["valid", "invalid", "not_checked"]


class GroupFindings(Struct):
    """What was read of one finished group; filled while it is read."""

    present: ContentSum = field(default_factory=ContentSum)
    """The sums of the stored digests of what is there."""
    documents: int = 0
    pruned: int = 0
    damaged_rows: Counter[str] = field(default_factory=Counter)
    """By dataDef."""
    damaged_documents: int = 0
    missing_documents: int = 0
    damaged_pages: set[int] = field(default_factory=set)
    """Jobs whose rows are damaged."""
    unusable: set[int] = field(default_factory=set)
    """Done jobs without a document to extract again."""
    refetched: set[int] = field(default_factory=set)
    """Jobs whose document must be fetched again."""
    is_scanned: bool = False
    """Whether all pages must be extracted again, because nothing tells which of them lost rows."""


class GroupResult(Struct, frozen=True, kw_only=True):
    """The result of one group."""

    group: str
    status: GroupStatus
    reason: str | None = None
    """In one line, why it is not valid."""
    steps: Mapping[str, str] = field(default_factory=dict)
    """By STEP, or TASK/STEP: why its entry is invalid."""
    rows: int | None = None
    documents: int | None = None
    pruned: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As `state --verify --json` prints it."""
        return {
            "group": self.group, "status": self.status, "reason": self.reason, "steps": dict(self.steps),
            "rows": self.rows, "documents": self.documents, "pruned": self.pruned,
        }  # fmt: skip


class OutputResult(Struct, frozen=True, kw_only=True):
    """The result of one output: the dataDef in its file."""

    id: int
    """Of its row in the table."""
    path: str
    data_def: str
    status: OutputStatus
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As `state --verify --json` prints it."""
        return {"path": self.path, "data_def": self.data_def, "status": self.status, "reason": self.reason or None}


class Verification(Struct, frozen=True, kw_only=True):
    """The result of a run."""

    groups: tuple[GroupResult, ...]
    outputs: tuple[OutputResult, ...]
    files: tuple[DamagedFile, ...] = ()
    """Downloaded files that differ."""
    findings: Mapping[str, GroupFindings]
    """Of the groups in which something differs, for the repair."""
    recorded: Mapping[str, ContentSum]
    """The sums of these groups as the table has them."""
    damaged: Mapping[str, str]
    """By key: the reasons of entries that become invalid, without those that depend on them."""
    dependents: Mapping[str, str]
    """By key: the reasons of the complete entries that depend on them."""

    @property
    def has_damage(self) -> bool:
        """Whether something differs that is not marked yet."""
        return bool(self.damaged or self.files) or any(output.status == "invalid" for output in self.outputs)

    @property
    def is_valid(self) -> bool:
        """Whether nothing is invalid."""
        statuses = [result.status for result in self.groups], [result.status for result in self.outputs]
        return not self.files and not any("invalid" in listed for listed in statuses)
