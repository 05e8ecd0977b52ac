"""Builds the WHERE of a state change from the table of allowed transitions in `engine.model`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

_State = TypeVar("_State", bound=StrEnum)


def source_states(table: Mapping[_State, frozenset[_State]], *targets: _State) -> str:
    """The states from which a transition to each of `targets` is allowed, as an SQL list: `('READY', 'TAKEN')`."""
    return "(" + ", ".join(f"'{state}'" for state, allowed in table.items() if allowed.issuperset(targets)) + ")"
