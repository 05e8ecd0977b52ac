"""A host plan: what one version of the defs says about all requests of a host, for a group and a kind of job."""

from collections.abc import Mapping

from msgspec import Struct

from engine.model.definition import HostRule, TaskGroup
from engine.model.file import FieldPath
from engine.model.host import RetryRule


class HostPlan(Struct, eq=False):
    """Found when a job is leased, and travels with it. It holds no cookie, backoff, delay or robots.txt: they change.

    It ends with its version of the defs. What a command to a host changes is read at the lease or before each request.
    """

    host_key: str = ""
    """`name:port`."""
    rule: HostRule = HostRule(name="")
    group: TaskGroup = TaskGroup(name="")
    retry: RetryRule = RetryRule()
    """Which answers are asked for again."""
    keeps_documents: bool | None = None
    """Whether documents are kept beyond the end of the run; None: all groups keep theirs."""
    file_fields: Mapping[str, tuple[FieldPath, ...]] = {}
    """The fields that name files, by dataDef."""
    plain_hosts: frozenset[str] = frozenset()
    """The hosts that the defs name with `http:`."""
    exempt_since: int = 0
    """The version of the defs that lets the host be at a guarded address; it counts until a newer one is known."""


NO_PLAN = HostPlan()
