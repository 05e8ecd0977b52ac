"""Names of tables and columns in SQL: quoted, and unique without regard to case."""

from collections.abc import Sequence


def quote_name(name: str) -> str:
    """The name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, made unique without regard to case. The first gives way to all others."""
    taken = {name.casefold() for name in names[1:]}
    unique: list[str] = []
    seen: set[str] = set()
    for position, name in enumerate(names):
        candidate, number = name, 1
        while candidate.casefold() in seen or ((position == 0 or number > 1) and candidate.casefold() in taken):
            number += 1
            candidate = f"{name}_{number}"
        seen.add(candidate.casefold())
        unique.append(candidate)
    return unique
