"""Filters the console makes itself, as values: a host's name is not parsed, whatever signs it holds."""

from collections.abc import Sequence

from engine.store.db.filter import Filter, Words


def of_host(host: str, *states: str) -> Filter:
    """The jobs on a host."""
    told = [f"state:{','.join(states)}"] if states else []
    return Filter(text=" ".join([*told, f"host:{host}"]), hosts=Words((host,)), states=Words(states))


def of_node(node: str) -> Filter:
    """The jobs a node holds, or held last."""
    return Filter(text=f"node:{node}", nodes=Words((node,)))


def of_sequence(group: str, host: str) -> Filter:
    """The jobs of one group on one host."""
    return Filter(text=f"group:{group} host:{host}", groups=Words((group,)), hosts=Words((host,)))


def of_state(*states: str) -> Filter:
    """The jobs in a state."""
    return Filter(text=f"state:{','.join(states)}", states=Words(states))


def done_in(groups: Sequence[str]) -> Filter:
    """The done jobs of groups."""
    return Filter(text="state:done", states=Words(("done",)), groups=Words(tuple(groups)))
