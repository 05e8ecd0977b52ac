"""Reads the data of pages of Nuxt, without running it: of version 3 a list, of version 2 a call."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from crawl_engine.extract.documents.json_value import MISSING, parse_json
from crawl_engine.extract.embedded.js_literal import Literal, LiteralInvalid, read_arguments, read_named
from crawl_engine.extract.embedded.references import Ref, TooLarge, put_references
from crawl_engine.late_regex import late_regex

_ASSIGNED = late_regex(r"\b__NUXT__\s*=\s*(?!\{\s*\}\s*(?:[;,]|\Z))")
_FUNCTION = late_regex(r"\(?\s*function\s*\(([\w$,\s]*)\)\s*\{\s*")
_TARGET = late_regex(r"""([\w$]+)\s*(?:\.\s*([\w$]+)|\[\s*(?:(\d{1,6})|("(?:[^"\\]|\\.)*"))\s*\])\s*=(?!=)\s*""")
"""An assignment to a part of an argument: by which repeated objects are filled."""
_RETURN = late_regex(r"return\b\s*")
_BETWEEN = late_regex(r"[\s;,]*")
_CALL = late_regex(r"[\s;]*\}\s*\)?\s*\(")
_SPARSE = -7
"""Begins a list that is written by its places. The numbers above it are what JSON lacks, such as undefined: null."""
_HOLDERS = frozenset({"ShallowReactive", "Reactive", "Ref", "ShallowRef", "NuxtError", "Island", "Object"})
"""Types whose value is the one that they name."""
_EMPTY = frozenset({"EmptyRef", "EmptyShallowRef"})
_LARGE = late_regex(r"-?[0-9]{1,400}")
_MAX_PLACES = 1_000_000
_MAX_NAMES = 10_000
_SHOWN = 40


def read_page_data(texts: Sequence[str]) -> tuple[Any, str]:
    """The data of a page, and what is wrong with it; `MISSING` if its texts have none."""
    fault = ""
    for text in texts:
        try:
            if text.lstrip()[:1] == "[" and (values := _list_values(text)) is not None:
                return put_references(values)
            if (assigned := _ASSIGNED.search(text)) is not None:
                return _read_call(text, assigned.end())
        except (LiteralInvalid, TooLarge) as error:
            fault = fault or str(error)
    return MISSING, fault


# Version 3: a list in which objects and lists name others by their places, as the library devalue writes it.


def _list_values(text: str) -> list[Any] | None:
    """Its values; None: it is another list."""
    flat = parse_json(text)
    if not isinstance(flat, list) or not flat or not _is_flat(flat[0]):
        return None
    _check_places([_size_of(value) for value in flat])
    return [_read_flat(value, flat) for value in flat]


def _is_flat(value: Any) -> bool:
    """Whether the parts of an object or a list are places of others."""
    if isinstance(value, dict):
        return all(map(_is_place, value.values()))
    return isinstance(value, list) and bool(value) and all(map(_is_place, value[isinstance(value[0], str) :]))


def _is_place(value: Any) -> TypeGuard[int]:
    return type(value) is int


def _refer(place: Any) -> Any:
    return Ref(place) if _is_place(place) else None


def _read_flat(value: Any, flat: list[Any]) -> Any:
    if isinstance(value, dict):
        return {key: _refer(place) for key, place in value.items()}
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], str):
        return _read_typed(value[0], value[1:], flat)
    if value[:1] == [_SPARSE]:
        return _read_sparse(value[1:], _size_of(value))
    return [_refer(place) for place in value]


def _size_of(value: Any) -> int:
    """The places of a sparse array; 0 of another value."""
    is_sparse = isinstance(value, list) and value[:1] == [_SPARSE] and len(value) > 1 and _is_place(value[1])
    return max(0, value[1]) if is_sparse else 0


def _check_places(sizes: Iterable[int]) -> None:
    """Raise TooLarge for arrays of these sizes: few characters may name very many places."""
    if sum(sizes) > _MAX_PLACES:
        raise TooLarge(f"has arrays of more than {_MAX_PLACES:,} places")


def _read_sparse(parts: list[Any], size: int) -> list[Any]:
    items: list[Any] = [None] * size
    for place, item in zip(parts[1::2], parts[2::2], strict=False):
        if _is_place(place) and 0 <= place < size:
            items[place] = _refer(item)
    return items


def _read_typed(kind: str, parts: list[Any], flat: list[Any]) -> Any:
    """A value of a type that JSON lacks, as the nearest that it has; null: there is none."""
    first = parts[0] if parts else None
    if isinstance(first, str) and kind != "null":  # a date, an address, …; an expression with flags has none
        is_number = kind == "BigInt" and _LARGE.fullmatch(first) is not None
        return int(first) if is_number else first if len(parts) == 1 else None
    if kind == "Set":
        return [_refer(place) for place in parts]
    if kind == "Map":
        pairs = list(zip(parts[::2], parts[1::2], strict=False))
        names = [flat[key] if _is_place(key) and 0 <= key < len(flat) else None for key, _ in pairs]
        if all(isinstance(name, str) for name in names):
            return {name: _refer(place) for name, (_, place) in zip(names, pairs, strict=True)}
        return [[_refer(key), _refer(place)] for key, place in pairs]
    if kind == "null":  # an object without a prototype: its keys stand beside their places
        return {str(key): _refer(place) for key, place in zip(parts[::2], parts[1::2], strict=False)}
    if kind in _EMPTY and _is_place(first):
        written = flat[first] if 0 <= first < len(flat) else None
        value = parse_json(written) if isinstance(written, str) else MISSING
        return None if value is MISSING else value
    return _refer(first) if kind in _HOLDERS else None


# Version 2: a function that puts its arguments in the place of names, called at once.


def _read_call(text: str, at: int) -> tuple[Any, str]:
    """The value that a script assigns: a literal, or the result of such a call. Raises LiteralInvalid, TooLarge."""
    function = _FUNCTION.match(text, at)
    if function is None:
        return _value_of(read_named(text, at, {}), []), ""
    names = [name.strip() for name in function[1].split(",") if name.strip()]
    if len(names) > _MAX_NAMES:
        raise LiteralInvalid("has too many names")
    numbers = {name: number for number, name in enumerate(names, 1)}
    assignments, at = [], function.end()
    while (target := _TARGET.match(text, at)) is not None:
        value = read_named(text, target.end(), numbers)
        assignments.append((target, value))
        at = _skip(text, value.end)
    if (returned := _RETURN.match(text, at)) is None:
        raise LiteralInvalid("does more than a literal can say")
    result = read_named(text, returned.end(), numbers)
    if (call := _CALL.match(text, result.end)) is None:
        raise LiteralInvalid("does more than a literal can say")
    given = read_arguments(text, call.end())
    values = [_value_of(result, names), *_value_of(given, [])[: len(names)]]
    values += [None] * (len(names) + 1 - len(values))
    sizes = dict[int, int]()
    for target, _ in assignments:
        number = numbers.get(target[1])
        if number is not None and target[3] is not None and not isinstance(values[number], dict):
            sizes[number] = max(sizes.get(number, 0), int(target[3]) + 1)
    _check_places(sizes.values())
    for target, value in assignments:
        if (number := numbers.get(target[1])) is not None:
            _assign(values, number, target[2] or target[4], target[3], _value_of(value, names))
    data, fault = put_references(values)
    unknown = [place for literal in (result, *(value for _, value in assignments)) for place in literal.expressions]
    unknown += [place for place in given.expressions if not text.startswith("Array(", place)]
    if unknown:
        such = _shown(text, unknown)
        fault = f"{len(unknown):,} values of Nuxt's data only a script knows: missing, such as `{such}…`"
    return data, fault


def _shown(text: str, places: list[int]) -> str:
    return " ".join(text[min(places) : min(places) + _SHOWN].split())


def _skip(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return at if found is None else found.end()


def _assign(values: list[Any], number: int, key: str | None, place: str | None, value: Any) -> None:
    """Set a part of an argument; one that no literal says, such as `Array(3)`, becomes what it is used as."""
    if values[number] is None:
        values[number] = {} if place is None else []
    holder = values[number]
    if isinstance(holder, list) and place is not None:
        holder += [None] * (int(place) + 1 - len(holder))
        holder[int(place)] = value
    elif isinstance(holder, dict):
        name = place if key is None else json.loads(key) if key.startswith('"') else key
        holder[name or ""] = value


def _value_of(literal: Literal, names: Sequence[str]) -> Any:
    """The value of a literal, with references in the place of names."""
    value = parse_json(literal.json)
    if value is MISSING:
        raise LiteralInvalid("nests too deep")
    if not names:
        return value
    holder = [value]
    todo: list[Any] = [holder]
    while todo:
        part = todo.pop()
        for key, item in list(part.items() if isinstance(part, dict) else enumerate(part)):
            if isinstance(item, dict) and item.keys() == {literal.mark}:
                part[key] = Ref(item[literal.mark])
            elif isinstance(item, dict | list):
                todo.append(item)
    return holder[0]
