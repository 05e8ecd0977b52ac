"""Builds job filters as values, so that a host name with special characters is never parsed."""

from crawl_console.filter_syntax import quote_value
from crawl_engine.store.db.filter import GlobFilter, JobFilter


def host_filter(host: str, *states: str) -> JobFilter:
    terms = [f"state:{','.join(states)}"] if states else []
    return JobFilter(text=" ".join([*terms, f"host:{host}"]), hosts=GlobFilter((host,)), states=GlobFilter(states))


def node_filter(node: str) -> JobFilter:
    """The jobs a node holds or held last."""
    return JobFilter(text=f"node:{node}", nodes=GlobFilter((node,)))


def sequence_filter(group: str, host: str) -> JobFilter:
    """The jobs of one group on one host."""
    return JobFilter(text=f"group:{group} host:{host}", groups=GlobFilter((group,)), hosts=GlobFilter((host,)))


def state_filter(*states: str) -> JobFilter:
    return JobFilter(text=f"state:{','.join(states)}", states=GlobFilter(states))


def failure_filter(host: str, reason: str) -> JobFilter:
    """The jobs of a host that failed for exactly this reason."""
    return JobFilter(
        text=f"state:failed host:{host} reason:{quote_value(reason)}", states=GlobFilter(("failed",)),
        hosts=GlobFilter((host,)), reasons=GlobFilter((reason.replace("*", "\\*"),)),
    )  # fmt: skip


def outcome_filter(group: str, outcome: str) -> JobFilter:
    """The jobs of a group for which a step reported this outcome."""
    return JobFilter(
        text=f"group:{quote_value(group)} outcome:{outcome}", groups=GlobFilter((group.replace("*", "\\*"),)),
        outcomes=GlobFilter((outcome,)),
    )  # fmt: skip
