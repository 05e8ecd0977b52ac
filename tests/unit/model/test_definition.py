import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, replace

from crawl_engine.model.axis import Axis, AxisFilter, AxisTable, DateConverter
from crawl_engine.model.definition import (
    DataDef,
    Definitions,
    Expectation,
    Field,
    FilterRule,
    Task,
    TaskGroup,
    definition_hash,
)
from crawl_engine.model.host import (
    BlockSign,
    DelayRange,
    GiveUpRule,
    HostAuth,
    HostRoute,
    HostRule,
    LoginRule,
    RetryRule,
    SignRule,
    TlsRule,
)
from crawl_engine.model.link import Link, NextPage, RequestTemplate, TextSource
from crawl_engine.model.locator import Locator, LocatorGroup, Recrawl, SeedColumns, SitemapLink, SitemapRules
from crawl_engine.model.output_type import AppenderDef
from crawl_engine.model.step import (
    BrowserAction,
    BrowserRule,
    Capture,
    ChainStep,
    GroupLoading,
    PluginFile,
    RenderWhen,
    Scroll,
    Viewport,
)
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.model.variables import render, variable_names


def _is_struct(hint: Any) -> bool:
    """Whether a type hint is a part of the defs."""
    return isinstance(hint, type) and issubclass(hint, Struct)


def _full(kind: Any, depth: int = 0) -> Any:
    """An instance without any default value, built from the type hints."""
    if kind is SourcePosition:
        return SourcePosition("defs/shop.yml", 3, 7 + depth)
    hints = typing.get_type_hints(kind)
    values = {f.name: _value(hints[f.name], f.name, depth) for f in fields(kind) if not f.name.startswith("_")}
    return kind(**values)


def _value(hint: Any, name: str, depth: int) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if _is_struct(hint):
        return _full(hint, depth + 1)
    if origin is tuple:
        if _is_struct(arguments[0]):
            return (_full(arguments[0], depth + 1), _full(arguments[0], depth + 1)) if depth < 4 else ()
        if typing.get_origin(arguments[0]) is tuple:
            return (_value(arguments[0], name, depth),)
        return (f"{name} é", "ü\u2028")
    if origin is Mapping and _is_struct(arguments[1]):
        return MappingProxyType({"items": _full(arguments[1], depth + 1)})
    if origin is Mapping:
        return MappingProxyType({"X-Z": "1", "A": "%{env.KEY}"})
    if origin is typing.Literal:
        return arguments[-1]
    if hint is Any:
        return ["a", {"b": None}, 1.5]
    alternatives = [a for a in arguments if a is not type(None)]
    plain = alternatives[0] if alternatives else hint
    if _is_struct(plain) or typing.get_origin(plain) in (typing.Literal, Mapping):
        return _value(plain, name, depth)
    return {str: f"{name} ☃\n", int: 7, float: 2.5, bool: True}[plain]


FULL = _full(Definitions)


def test_the_stored_form_reads_back_the_same_with_every_value_set() -> None:
    text = FULL.to_json()
    back = Definitions.from_json(text)
    assert back == FULL
    assert back.to_json() == text
    for name, kind in (("locators", LocatorGroup), ("fields", DataDef)):
        assert any(f.name == name for f in fields(kind))
    inner = back.data_defs[0].fields[0].fields[0]
    assert isinstance(inner, Field)
    assert isinstance(inner.place, SourcePosition)
    assert isinstance(back.locator_groups[0].locators[0].headers, Mapping)


def test_defaults_read_back_too_and_unknown_keys_of_other_versions_are_ignored() -> None:
    assert Definitions.from_json(Definitions().to_json()) == Definitions()
    assert Definitions.from_json("{}") == Definitions()
    assert Definitions.from_json('{"from_the_future": [1]}') == Definitions()


def test_every_kind_of_part_is_in_the_full_set() -> None:
    seen: set[type] = set()

    def walk(part: Any) -> None:
        if isinstance(part, Struct):
            seen.add(type(part))
            for f in fields(part):
                walk(getattr(part, f.name))
        elif isinstance(part, tuple | Mapping):
            for item in part.values() if isinstance(part, Mapping) else part:
                walk(item)

    walk(FULL)
    parts = {
        AppenderDef,
        Axis,
        AxisFilter,
        AxisTable,
        BlockSign,
        BrowserAction,
        BrowserRule,
        Capture,
        ChainStep,
        GroupLoading,
        RenderWhen,
        Scroll,
        Viewport,
        DataDef,
        DateConverter,
        DelayRange,
        Expectation,
        Field,
        FilterRule,
        HostAuth,
        HostRoute,
        HostRule,
        Link,
        Locator,
        LocatorGroup,
        LoginRule,
        NextPage,
        PluginFile,
        Recrawl,
        RequestTemplate,
        RetryRule,
        GiveUpRule,
        SignRule,
        SeedColumns,
        SitemapLink,
        SitemapRules,
        Task,
        TaskGroup,
        TextSource,
        TlsRule,
    }
    assert seen == parts | {Definitions, SourcePosition}


@pytest.mark.parametrize("f", [f for f in fields(DataDef) if f.type is not SourcePosition], ids=lambda f: f.name)
def test_every_change_of_a_data_def_changes_its_meaning(f: Any) -> None:
    full = FULL.data_defs[0]
    default = f.default if f.default is not NODEFAULT else "renamed"
    assert definition_hash(replace(full, **{f.name: default})) != definition_hash(full)


@pytest.mark.parametrize(
    "f", [f for f in fields(Field) if f.type is not SourcePosition and f.name != "name"], ids=lambda f: f.name
)
def test_every_change_of_a_field_changes_the_meaning_of_its_data_def(f: Any) -> None:
    full = FULL.data_defs[0]
    default = f.default if f.default is not NODEFAULT else f.default_factory()
    changed = replace(full, fields=(replace(full.fields[0], **{f.name: default}), *full.fields[1:]))
    assert definition_hash(changed) != definition_hash(full)


def test_positions_are_not_part_of_the_meaning() -> None:
    moved = replace(
        FULL.data_defs[0], place=SourcePosition("other.yml", 1, 1), block_place=SourcePosition("o.yml", 2, 2)
    )
    assert definition_hash(moved) == definition_hash(FULL.data_defs[0])
    field = replace(moved.fields[0], place=SourcePosition("o.yml", 9, 9), selector_place=SourcePosition("o.yml", 8, 8))
    assert definition_hash(replace(moved, fields=(field, *moved.fields[1:]))) == definition_hash(moved)
    assert definition_hash(replace(FULL, files=())) == definition_hash(FULL)
    assert definition_hash(replace(FULL, base_url=None)) != definition_hash(FULL)
    assert len(definition_hash(FULL)) == 32


def test_the_order_of_fields_is_part_of_the_meaning_and_that_of_headers_is_not() -> None:
    two = DataDef(name="d", fields=(Field(name="a"), Field(name="b")))
    assert definition_hash(replace(two, fields=two.fields[::-1])) != definition_hash(two)
    one, other = {"a": "1", "b": "2"}, {"b": "2", "a": "1"}
    assert definition_hash(HostRule(name="h", headers=one)) == definition_hash(HostRule(name="h", headers=other))


def test_parts_are_found_by_name() -> None:
    defs = Definitions(
        task_groups=(TaskGroup(name="g"), TaskGroup(name="h", priority=2)),
        data_defs=(DataDef(name="d", fields=(Field(name="x"), Field(name="y"))),),
    )
    assert defs.task_group("h") is defs.task_groups[1]
    assert defs.task_group("z") is None
    assert defs.data_def("d") is defs.data_defs[0]
    assert defs.data_def("z") is None
    assert defs.data_defs[0].columns == ("x", "y")


def test_a_host_rule_with_the_port_takes_precedence() -> None:
    bare, ported = HostRule(name="a.example"), HostRule(name="a.example:8080")
    defs = Definitions(hosts=(bare, ported))
    assert defs.host_rule("a.example:8080") is ported
    assert defs.host_rule("a.example:80") is bare
    assert defs.host_rule("b.example:80") is None


def test_private_falls_back_to_the_rule_without_a_port() -> None:
    defs = Definitions(
        hosts=(
            HostRule(name="a.example", private=True),
            HostRule(name="a.example:81", delay=DelayRange(min=1.0)),
            HostRule(name="a.example:82", private=False),
            HostRule(name="b.example:81", private=True),
        )
    )
    allowed = {
        f"{name}:{port}"
        for name in ("a.example", "b.example")
        for port in (80, 81, 82)
        if defs.allows_private(name, port)
    }
    assert allowed == {"a.example:80", "a.example:81", "b.example:81"}
    assert [name for name in ("a.example", "b.example", "b", "example") if defs.has_host_rule(name)] == [
        "a.example", "b.example"
    ]  # fmt: skip


def test_a_rule_without_private_is_not_one_with_it() -> None:
    unset, closed = (
        HostRule(name="a", delay=DelayRange(min=1.0)),
        HostRule(name="a", delay=DelayRange(min=1.0), private=False),
    )
    assert definition_hash(unset) != definition_hash(closed)
    for rule in (unset, closed, replace(closed, private=True)):
        assert Definitions.from_json(Definitions(hosts=(rule,)).to_json()).hosts == (rule,)


def test_an_appender_without_data_defs_takes_all() -> None:
    every, some = AppenderDef(name="every"), AppenderDef(name="some", data_defs=("d",))
    defs = Definitions(appenders=(every, some))
    assert defs.appenders_of("d") == (every, some)
    assert defs.appenders_of("e") == (every,)
    assert [a.type for a in Definitions().appenders_of("d")] == ["csv"]


def test_a_position_is_written_as_editors_read_it() -> None:
    assert str(SourcePosition("defs/shop.yml", 3, 7)) == "defs/shop.yml:3:7"


def test_variables_are_found_and_substituted() -> None:
    text = "%{document.url}?%%{x}&%{run.id}%{nothing}%{}"
    assert variable_names(text) == ("document.url", "run.id", "nothing", "")
    values = {"document.url": "http://a/%{run.id}", "run.id": "7"}
    assert render(text, values.get) == "http://a/%{run.id}?%{x}&7%{nothing}%{}"
    assert render("100 %", values.get) == "100 %"
    assert render("%%{", values.get) == "%{"
