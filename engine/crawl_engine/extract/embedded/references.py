"""Puts values in the place of references to them: frameworks write each value of their data once."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_MAX_DEPTH = 400
"""Levels of a value: whatever works on it goes down by calls."""
_MAX_PARTS = 2_000_000
"""Values in values, each counted wherever it is referred to."""
CIRCLE = "has a value that refers to itself, which is left out there"


class Ref(NamedTuple):
    """Stands for one of the values, by its number."""

    number: int


class TooLarge(Exception):
    """The value is too large, or nests too deep, once all references are put in; the message says which."""


class _RefPlace(NamedTuple):
    """The place of a reference: what holds it, its key there, and its level."""

    holder: Any
    key: Any
    ref: Ref
    depth: int


def put_references(values: Sequence[Any], first: int = 0) -> tuple[Any, str]:
    """One of the values, with all that it refers to, and what is wrong with it. Values are changed in place.

    A reference to a value that does not exist is null; so is one that leads back to the value that has it.
    Raises TooLarge.
    """
    cells = [[value] for value in values]
    slots: dict[int, list[_RefPlace]] = {}
    done: dict[int, tuple[int, int]] = {}
    """Of each complete value: its parts, and its levels."""
    fault, todo = "", [first]
    while todo:
        number = todo[-1]
        if number not in slots:
            slots[number] = list(_find_slots(cells[number]))
            needed = dict.fromkeys(slot.ref.number for slot in slots[number] if 0 <= slot.ref.number < len(cells))
            todo += [one for one in needed if one not in slots]
            if any(one in slots and one not in done for one in needed):
                fault = CIRCLE
        else:
            todo.pop()
            if number not in done:
                done[number] = _fill(cells, number, slots[number], done)
    return cells[first][0], fault


def _fill(
    cells: list[list[Any]], number: int, slots: list[_RefPlace], done: dict[int, tuple[int, int]]
) -> tuple[int, int]:  # fmt: skip
    parts, levels = _measure(cells[number][0])
    for holder, key, ref, depth in slots:
        of_part = done.get(ref.number)
        holder[key] = None if of_part is None else cells[ref.number][0]
        if of_part is not None:
            parts, levels = parts + of_part[0], max(levels, depth + of_part[1])
    if parts > _MAX_PARTS:
        raise TooLarge(f"has more than {_MAX_PARTS:,} values")
    if levels > _MAX_DEPTH:
        raise TooLarge("nests too deep")
    return parts, levels


def _find_slots(cell: list[Any]) -> Iterator[_RefPlace]:
    todo: list[tuple[Any, int]] = [(cell, 0)]
    while todo:
        holder, depth = todo.pop()
        for key, item in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if isinstance(item, Ref):
                yield _RefPlace(holder, key, item, depth)
            elif isinstance(item, dict | list):
                todo.append((item, depth + 1))


def _measure(value: Any) -> tuple[int, int]:
    """The values in a value, itself too, without what it refers to; and its levels."""
    parts, levels = 1, 1
    todo: list[tuple[Any, int]] = [(value, 1)] if isinstance(value, dict | list) else []
    while todo:
        holder, depth = todo.pop()
        levels = max(levels, depth)
        for item in holder.values() if isinstance(holder, dict) else holder:
            parts += not isinstance(item, Ref)
            if isinstance(item, dict | list):
                todo.append((item, depth + 1))
    return parts, levels
