"""Makes the JSON Schema for editors: the declared keys, and rules for keys that exclude each other.

The schema describes one file. References between files are checked by `crawl-console check`.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct

from crawl_engine.defs.language.keys import NESTING_EXCLUDES, WrittenQuery, keys_of, written_form
from crawl_engine.defs.language.kinds import KINDS
from crawl_engine.model.declaration import Declared, Kind, Shape, TypeHint, Wrapper, declarations_of, strip_hint
from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.model.field_type import FIELD_TYPES, OWN_KEYS, types_with
from crawl_engine.model.host import HostAuth, TlsRule
from crawl_engine.model.link import Link, NextPage
from crawl_engine.model.locator import Locator

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _any_required(*keys: str) -> dict[str, Any]:
    return {"anyOf": [{"required": [key]} for key in keys]}


def _mutually_exclusive(key: str, *others: str) -> list[dict[str, Any]]:
    return [{"not": {"required": [key, other]}} for other in others]


def _type_required(key: str) -> dict[str, Any]:
    """The rule of a key that only some types have, which may need another key beside it."""
    rules = []
    for beside, types in types_with(key, FIELD_TYPES):
        needed, value = beside or ("", "")
        more = {needed: {"const": value}} if beside else {}
        rules.append({"required": ["type", *more], "properties": {"type": {"enum": types}} | more})
    return {"anyOf": rules}


_SOURCE_REQUIRES = {"from": ["as"], "match": ["as"]}
_KEY_CONSTRAINTS: Mapping[type, Mapping[str, Any]] = {
    Locator: {
        **_any_required("url", "urls", "from", "sitemap"),
        "allOf": [*_mutually_exclusive("body", "form", "json"), *_mutually_exclusive("form", "json")],
    },
    DataDef: _any_required("fields", "links", "items"),
    WrittenQuery: {
        "dependentRequired": _SOURCE_REQUIRES | {"query": ["as"]},
        "allOf": _mutually_exclusive("query", "block"),
    },
    HostAuth: {"minProperties": 1, "maxProperties": 1},
    TlsRule: {"minProperties": 1, "not": {"required": ["verify", "ca"], "properties": {"verify": {"const": False}}}},
    Link: {
        **_any_required("selector", "url"),
        "dependentRequired": _SOURCE_REQUIRES,
        "allOf": [*_mutually_exclusive("url", "selector", "attribute"), *_mutually_exclusive("form", "json")],
    },
    NextPage: {
        "anyOf": [
            *_any_required("url", "form", "json", "header")["anyOf"],
            {"not": {"additionalProperties": {"type": "string"}}},  # a number, to add to a parameter of the URL
        ],
        "allOf": _mutually_exclusive("form", "json"),
    },
    Field: {
        "allOf": [
            *_mutually_exclusive("value", "selector", "scope", "attribute", "all"),
            *_mutually_exclusive("fields", *NESTING_EXCLUDES),
        ],
        "if": {"required": ["format"], "properties": {"format": {"const": "any"}}},
        "then": {"required": ["locale"]},
        "dependentRequired": {"fields": ["selector"], "scope": ["selector"]},
    },
}
"""Keys that require or exclude each other."""

_BASES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def build_json_schema() -> dict[str, Any]:
    """The JSON Schema of one def file (draft 2020-12)."""
    definitions: dict[str, Any] = {}
    root = _describe_mapping(Definitions, definitions)
    return {"$schema": DIALECT, "title": "crawl-console defs", "$defs": definitions, **root}


def _describe_mapping(struct: type[Struct], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a mapping. Adds the schemas of the mappings inside it to `definitions`."""
    keys, others = keys_of(struct), declarations_of(written_form(struct)).others
    schema = {
        "type": "object",
        "description": str(written_form(struct).__doc__).partition("\n")[0],
        "properties": {key: _describe_key(declared, definitions) for key, declared in keys.items()},
        "required": [key for key, declared in keys.items() if declared.default is NODEFAULT],
        "additionalProperties": False,
        **_KEY_CONSTRAINTS.get(struct, {}),
    }
    if struct is Field:
        schema["dependentSchemas"] = {key: _type_required(key) for key in OWN_KEYS}
    if others is not None:
        item = strip_hint([part for part in get_args(others.hint.base) if part is not Ellipsis][-1])
        schema["additionalProperties"] = _describe_type(item, definitions)
    return schema if schema["required"] else {key: value for key, value in schema.items() if key != "required"}


def _describe_key(declared: Declared, definitions: dict[str, Any]) -> dict[str, Any]:
    key = declared.key
    schema = {"description": key.doc, **_describe_type(declared.hint, definitions)}
    return {**schema, "examples": list(key.examples)} if key.examples else schema


def _describe_type(hint: TypeHint, definitions: dict[str, Any]) -> dict[str, Any]:
    kind, shape, bounds, origin = hint.mark(Kind), hint.mark(Shape), hint.mark(Meta), get_origin(hint.base)
    if origin is Literal:
        return {"enum": list(get_args(hint.base))}
    if origin is tuple and kind is not None:
        parts = [_describe_type(strip_hint(part), definitions) for part in get_args(hint.base)]
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    if kind is not None and (choices := KINDS[kind.name].choices) is not None:
        return {"enum": list(choices)}
    if kind is not None:
        return dict(KINDS[kind.name].schema)
    if hint.base in _BASES:
        limits = {} if bounds is None else {"minimum": bounds.ge, "maximum": bounds.le}
        return {"type": _BASES[hint.base], **limits}
    if hint.base is Any:
        return {}
    if origin is Mapping or shape is Shape.BY_NAME:
        item = strip_hint(get_args(hint.base)[1 if origin is Mapping else 0])
        return {"type": "object", "additionalProperties": _describe_type(item, definitions)}
    if origin is tuple:
        of_item, wrapper = _describe_type(strip_hint(get_args(hint.base)[0]), definitions), hint.mark(Wrapper)
        if wrapper is not None:
            of_item = {"type": "object", "properties": {wrapper.key: of_item}, "required": [wrapper.key]}
        of_list = {"type": "array", "items": of_item}
        if shape is Shape.ITEM_OR_LIST:
            return {"anyOf": [of_item, of_list]}
        return {"anyOf": [{"const": False}, of_list]} if shape is Shape.LIST_OR_FALSE else of_list
    name = hint.base.__name__
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = _describe_mapping(hint.base, definitions)
    reference = {"$ref": f"#/$defs/{name}"}
    if shape is Shape.MAPPING_OR_KEY:
        return {"anyOf": [{"enum": list(keys_of(hint.base))}, reference]}
    if shape is Shape.MAPPING_OR_FALSE:
        return {"anyOf": [{"const": False}, reference]}
    if shape is Shape.MAPPING_OR_MIN:
        return {"anyOf": [_describe_type(keys_of(hint.base)["min"].hint, definitions), reference]}
    if shape is Shape.MAPPING_OR_FILE:
        return {"anyOf": [_describe_type(keys_of(hint.base)["file"].hint, definitions), reference]}
    return {"anyOf": [dict(KINDS["URL"].schema), reference]} if shape is Shape.MAPPING_OR_URL else reference
