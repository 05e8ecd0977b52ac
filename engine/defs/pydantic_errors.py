"""Converts pydantic errors to readable problems with their places."""

from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from engine.defs.language import Defs
from engine.defs.problems import Problems
from engine.defs.redaction import describe_value, may_hold_secrets, shown_key
from engine.defs.task_terms import LATER_RESERVED, TaskGroupTerm, TaskTerm, unmarked
from engine.defs.yaml_node import YamlNode
from engine.errors import suggest
from engine.model.stored_form import SourcePosition

_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_LIMITS = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}


def add_problems(error: ValidationError, root: YamlNode, problems: Problems) -> None:
    """Adds a problem for each error that pydantic reported for `root`."""
    for detail in error.errors(include_url=False, include_context=True):
        _add_problem(detail, root, problems)


def _add_problem(detail: ErrorDetails, root: YamlNode, problems: Problems) -> None:
    path = tuple([unmarked(part) if isinstance(part, str) else part for part in detail["loc"]])
    kind = detail["type"]
    key_place, node = _locate(root, path)
    key = next((part for part in reversed(path) if isinstance(part, str)), "this item")
    shown = shown_key(key) if may_hold_secrets(path) else key
    model = _model_at(path[:-1])
    if kind == "extra_forbidden":
        _add_unknown_key(key, key_place, model, problems)
    elif kind == "missing":
        problems.add(key_place, "missing-key", f"the key `{shown}` is missing")
    elif kind == "literal_error":
        _add_unknown_value(key, node, model, problems)
    elif kind in _LIMITS:
        limit, words = _LIMITS[kind]
        allowed = detail["ctx"][limit]
        problems.add(
            node.place, "out-of-range", f"`{shown}` must be {words} {allowed:,}, not {describe_value(node, path)}"
        )
    elif kind in ("string_too_long", "string_too_short"):
        problems.add(
            node.place, "out-of-range", f"`{shown}` must be exactly one character, not {describe_value(node, path)}"
        )
    elif kind not in _EXPECTED:
        code = kind if "-" in kind else "wrong-type"
        problems.add(node.place, code, f"`{shown}`: {detail['msg']}")
    elif kind == "model_type" and model is TaskGroupTerm and key not in LATER_RESERVED and _is_value(node):
        reserved = _keys_of(TaskGroupTerm)
        if key == "dataDef":
            problems.add(key_place, "unnamed-task", f"a task needs a name: write `page: {{dataDef: {node.text}}}`")
            return
        message = f"'{shown}' is neither a reserved key of a task group nor a task{suggest(key, reserved)}"
        problems.add(key_place, "unknown-key", message)
    else:
        place = key_place if node.is_null else node.place
        cure = ""
        if len(path) >= 2 and path[-2] == "fields" and node.kind == "scalar" and not node.is_null:
            cure = f"; write `{shown}: {{selector: {node.text}}}`"
        text = f"`{shown}` must be {_EXPECTED[kind]}, not {describe_value(node, path)}{cure}"
        problems.add(place, "wrong-type", text)


def _add_unknown_key(key: str, place: SourcePosition, model: type[BaseModel] | None, problems: Problems) -> None:
    valid_keys = _keys_of(model) if model is not None else []
    problems.add(place, "unknown-key", f"unknown key '{shown_key(key)}'{suggest(key, valid_keys)}")


def _add_unknown_value(key: str, node: YamlNode, model: type[BaseModel] | None, problems: Problems) -> None:
    choices = [str(choice) for choice in get_args(_annotation(model, key))]
    message = f"`{key}` cannot be {node.describe()}{suggest(node.text, choices)}"
    problems.add(node.place, "unknown-value", message)


def _is_value(node: YamlNode) -> bool:
    return node.kind == "scalar" and not node.is_null


def _locate(root: YamlNode, path: tuple[int | str, ...]) -> tuple[SourcePosition, YamlNode]:
    """The place and value of the last key of a path; those of its parent if it is not written."""
    place, node = root.place, root
    for part in path:
        if isinstance(part, int):
            if not 0 <= part < len(node.items):
                break
            node = node.items[part]
            place = node.place
        elif part in node.entries:
            entry = node.entries[part]
            place, node = entry.place, entry.node
        else:
            break
    return place, node


def _keys_of(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _annotation(model: type[BaseModel] | None, key: str) -> Any:
    """The type of a key of a model, by its name in YAML."""
    if model is None:
        return None
    for name, field in model.model_fields.items():
        if (field.alias or name) == key:
            return field.annotation
    return TaskTerm if model is TaskGroupTerm else None


def _model_at(path: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The model of the mapping at a path; None if there is none."""
    kind: Any = Defs
    for part in path:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = _annotation(kind, str(part))
        elif get_origin(kind) in (dict, list):
            kind = get_args(kind)[-1]
        else:
            return None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
