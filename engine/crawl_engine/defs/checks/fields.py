"""Checks combinations of the keys of a field: those that exclude or require each other."""

import re
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec

from crawl_engine.defs.language.keys import NESTING_EXCLUDES, TEXT_KEYS
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.errors import UsageError, quote_text, suggest
from crawl_engine.extract.fields.convert import reader_of
from crawl_engine.extract.fields.human_dates import ANY_FORMAT, is_locale_selector
from crawl_engine.extract.select.srcset import is_srcset
from crawl_engine.model.definition import Field
from crawl_engine.model.field_type import (
    FIELD_TYPES,
    OWN_KEYS,
    UNIX_FORMATS,
    FieldType,
    find_field_type,
    is_built_in,
    types_with,
)
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.model.variables import FIELD, variable_names
from crawl_engine.runtime.extras import find_extra, has_extra, install_hint

_MAX_NESTING = 2
_DATE_LETTERS = {
    "YYYY": "%Y", "yyyy": "%Y", "YY": "%y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "DD": "%d", "dd": "%d",
    "HH": "%H", "mm": "%M", "ss": "%S",
}  # fmt: skip
"""Letters of other date languages, longest first, and the directives they stand for."""
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_DIRECTIVES = frozenset("aAbBcdfGHIjmMpSuUVwWxXyYzZ%")
"""Those of `datetime.strptime`."""
_KEY_WORDS = {"header": "`header` of a field"}
"""Keys that stand elsewhere, too."""


def check(node: YamlNode, place: SourcePosition, problems: Problems, *, has_block: bool, has_table: bool) -> None:
    """Checks a field and its nested fields. `has_block`: whether its dataDef has a block; `has_table`: a table."""
    _check_field(node, place, 0, problems)
    if "column" in node.entries and not has_table:
        message = "`column` needs `query.table`, whose rows are the records"
        problems.add(node.key_place("column"), "missing-key", message)
    if "scope" in node.entries and not has_block and "fields" not in node.entries:
        message = "`scope` has no effect without `query.block`: the field reads the whole page; remove it"
        problems.warn(node.key_place("scope"), "no-effect", message)


def check_references(node: YamlNode, before: Mapping[str, YamlNode], names: Sequence[str], problems: Problems) -> None:
    """Checks that a `value`, or one of nested fields, names fields of the record before it. `names`: of all fields."""
    for _, inner in node.entries_of("fields"):
        check_references(inner.node, before, names, problems)
    value = node.get("value")
    if value is None or value.kind != "scalar":
        return
    for name in variable_names(value.text):
        if not name.startswith(FIELD):
            continue
        bare = name.removeprefix(FIELD)
        field, _, part = (bare, "", "") if bare in names else bare.partition(".")
        if field not in names:
            problems.add(value.place, "unknown-field", f"unknown field '{field}'{suggest(field, [*names])}")
        elif field not in before:
            problems.add(value.place, "later-field", f"`%{{{name}}}` is read later; write '{field}' before this field")
        elif before[field].is_true("fromStep"):
            problems.add(value.place, "conflict", f"a step fills '{field}' later, when this value is made")
        elif part and part not in (parts := _parts_of(before[field], part)):
            cure = suggest(part, parts) if parts else f"; write `%{{{FIELD}{field}}}`"
            problems.add(value.place, "unknown-field", f"'{field}' has no part '{part}' that a `value` can name{cure}")


def _parts_of(field: YamlNode, part: str) -> list[str]:
    """The parts of a value that a `value` can name; of JSON any. A file has none before it is downloaded."""
    type_ = _type_of(field)
    if _is_list(field):
        return []
    return [part] if type_.stored == "json" else [name for name, _ in type_.parts if type_.stored == "object"]


def _type_of(field: YamlNode) -> FieldType:
    return find_field_type(field.text_of("type") or "str")


def _check_field(node: YamlNode, place: SourcePosition, depth: int, problems: Problems) -> None:
    if "value" in node.entries:
        for key in ("selector", "column", "scope", "attribute", "all"):
            if key in node.entries:
                problems.add(node.key_place(key), "conflict", f"`{key}` has no effect with `value`; keep one")
    type_ = _type_of(node)
    for key in OWN_KEYS:
        if key in node.entries and "fields" not in node.entries and not _may_have(node, type_, key):
            message = f"{_KEY_WORDS.get(key, f'`{key}`')} needs {_describe_need(key)}"
            problems.add(node.key_place(key), "conflict", message)
    if node.has_empty_list("selector"):
        problems.add(node.key_place("selector"), "bad-selector", "the list of selectors is empty; write one")
    seen: set[str] = set()
    for one in node.list_of("selector"):
        if one.kind == "scalar" and one.text.strip() in seen:
            problems.warn(one.place, "no-effect", f"`{one.text.strip()}` stands in the list before; remove it")
        seen.add(one.text.strip())
    if "map" in node.entries:
        _check_map(node, type_, problems)
    if "format" in node.entries and type_.find_key("format") is not None:
        _check_format(node, problems)
    locales = [node.get("locale"), *node.list_of("locale")]
    if node.is_true("fromStep") and any(one is not None and is_locale_selector(one.text) for one in locales):
        message = "a step fills the field, and reads no page; write the language, such as `de`"
        problems.add(node.key_place("locale"), "conflict", message)
    if "join" in node.entries and not _is_list(node):
        problems.warn(node.key_place("join"), "no-effect", "`join` has no effect without `all: true` or `split`")
    if "scope" in node.entries and "fields" not in node.entries:
        _check_scope(node, depth, problems)
    if "column" in node.entries:
        _check_column(node, depth, problems)
    if "fields" in node.entries:
        _check_nested(node, place, depth, problems)
        return
    for key in _idle_keys(type_):
        if key in node.entries:
            message = f"`{key}` has no effect with `type: {type_.name}`; keep one"
            problems.add(node.key_place(key), "conflict", message)
    _check_installed(node, type_, problems)
    check_candidates(node, problems)
    _check_text_keys(node, type_, problems)
    _check_marks(node, type_, problems)
    if node.get("default") is not None:
        _check_default(node, type_, problems)


def _idle_keys(type_: FieldType) -> Collection[str]:
    """The keys of any field that have no effect on those of that type."""
    if not type_.has_text:
        return TEXT_KEYS
    return () if type_.has_map else ("map",)


def _may_have(node: YamlNode, type_: FieldType, key: str) -> bool:
    """Whether a field of that type may have one of the keys that only some types have.

    Where a type has it beside another key, that one is judged by itself.
    """
    own = type_.find_key(key)
    if own is not None and own.beside is None:
        return True
    return any(_is_beside(node, *need) for need, _ in types_with(key) if need is not None)


def _is_beside(node: YamlNode, key: str, value: str | bool) -> bool:
    return node.is_true(key) if value is True else node.text_of(key) == value


def _describe_need(key: str) -> str:
    """What a key that only some types have needs: `type: date`, or the type `float`, `decimal` or `price`."""
    by_need = types_with(key)
    for need, types in by_need:
        if need is None and len(types) > 1:
            return f"the type {_join_words([f'`{name}`' for name in types])}"
    needs = []
    for need, types in sorted(by_need, key=lambda one: len(one[1])):
        words = [f"`type: {types[0]}`"] if len(types) == 1 else []
        if need is not None:
            words.append(f"`{need[0]}: {'true' if need[1] is True else need[1]}`")
        needs.append(" and ".join(words))
    return _join_words(needs, "," if len(needs) > 2 else "")


def _join_words(words: Sequence[str], last_mark: str = "") -> str:
    *others, last = words
    return f"{', '.join(others)}{last_mark} or {last}" if others else last


def _check_format(node: YamlNode, problems: Problems) -> None:
    text = node.text_of("format") or "%"
    unknown = next((one[0] for one in _DIRECTIVE.finditer(text) if one[1] not in _DIRECTIVES), None)
    if "%" not in text and text != ANY_FORMAT and text not in UNIX_FORMATS:
        cure = f"write {_with_directives(text)}, `unix`, or `any` with a `locale`"
        message = f"`format`: '{text}' has no % directive; {cure}"
        problems.add(node.entries["format"].node.place, "bad-format", message)
    elif unknown is not None:
        cure = "; for seconds since 1970 write `format: unix`" if unknown == "%s" else ""
        message = f"`format`: Python knows no directive '{unknown}'{cure}"
        problems.add(node.entries["format"].node.place, "bad-format", message)
    if text == ANY_FORMAT and ("locale" not in node.entries or node.has_empty_list("locale")):
        message = "`format: any` needs a `locale`, such as `en`: 3/4/2024 is another day in `en-GB`"
        problems.add(node.key_place("format"), "missing-key", message)


def _check_installed(node: YamlNode, type_: FieldType, problems: Problems) -> None:
    """Checks that a type can be loaded, and that the library that it needs is installed."""
    extra = find_extra(type_.extra)
    if extra is not None and not has_extra(extra):
        message = f"`type: {type_.name}` needs a library that is not installed; install it: {install_hint(extra)}"
        problems.add(node.entries["type"].node.place, "missing-library", message)
    if type_.name not in FIELD_TYPES or is_built_in(type_.name):
        return
    try:
        module = FIELD_TYPES[type_.name].reader.partition(":")[0]
        if not module or find_spec(module) is None:
            raise ModuleNotFoundError(f"no module {quote_text(module)}")
    except UsageError as error:
        problems.add(node.entries["type"].node.place, "bad-type", str(error))
    except ImportError as error:
        message = f"`type: {type_.name}` of {FIELD_TYPES.origin_of(type_.name)} has no reader: {error}"
        problems.add(node.entries["type"].node.place, "bad-type", message)


def check_candidates(node: YamlNode, problems: Problems) -> None:
    """Checks the keys beside `attribute: srcset`, of a field or a link."""
    reads_candidates = is_srcset(node.text_of("attribute") or "")
    if "largest" in node.entries and not reads_candidates:
        problems.add(node.key_place("largest"), "conflict", "`largest` needs `attribute: srcset`")
    if "split" in node.entries and reads_candidates:
        message = "`split` has no effect on `srcset`, whose candidates are the list; write `all: true`"
        problems.warn(node.key_place("split"), "no-effect", message)


def _with_directives(text: str) -> str:
    """A date format of letters, such as `YYYY-MM-DD`, in directives; an example if it is not one."""
    written = re.sub("|".join(_DATE_LETTERS), lambda match: _DATE_LETTERS[match.group()], text)
    return written if "%" in written else "for example %d %B %Y"


def _is_list(node: YamlNode) -> bool:
    return "split" in node.entries or node.is_true("all")


def _check_column(node: YamlNode, depth: int, problems: Problems) -> None:
    if depth:
        message = "a nested field reads its own match; put `column` on the outer field"
        problems.add(node.key_place("column"), "conflict", message)
    elif "scope" in node.entries:
        message = "`column` is a cell of the record, and `scope` leaves it; keep one"
        problems.add(node.key_place("column"), "conflict", message)


def _check_map(node: YamlNode, type_: FieldType, problems: Problems) -> None:
    """The values of `map` are read by the type of the field."""
    table = node.entries["map"].node
    if table.kind == "mapping" and not table.entries:
        problems.add(node.key_place("map"), "no-values", "`map` is empty; write texts and their values, or remove it")
    for name, entry in node.entries_of("map"):
        is_value = entry.node.kind == "scalar" and not entry.node.is_null and bool(entry.node.text.strip())
        if is_value and not _fits(entry.node, node, type_):
            message = (
                f"the value of {quote_text(name)} must be valid for `type: {type_.name}`, not {entry.node.describe()}"
            )
            problems.add(entry.place, "wrong-type", f"`map`: {message}")


def _fits(value: YamlNode, field: YamlNode, type_: FieldType) -> bool:
    """Whether a value of `map`, or a default, can be read by the type of the field.

    Another check reports an unknown type, and those of packages read their values in extraction processes alone.
    """
    if not is_built_in(type_.name):
        return True
    written = {key.name: field.text_of(key.name) for key in type_.keys}
    locales = [one.text for one in (field.get("locale"), *field.list_of("locale")) if one is not None]
    described = Field(
        name="",
        type=type_.name,
        format=written.get("format"),
        decimal_mark=written.get("decimalMark"),
        group_mark=written.get("groupMark"),
        locales=tuple(locales) if "locale" in written else (),
    )
    try:
        reader_of(type_.name).default_converter(described)(value.text.strip(), "http://x/")
    except ValueError:
        return False
    return True


def _check_scope(node: YamlNode, depth: int, problems: Problems) -> None:
    if depth:
        message = "a nested field reads its own match; put a field with `scope` beside the outer one"
        problems.add(node.key_place("scope"), "conflict", message)
    elif "selector" not in node.entries and "value" not in node.entries:
        problems.add(node.key_place("scope"), "missing-key", "`scope` needs a `selector` to search the page with")


def _check_text_keys(node: YamlNode, type_: FieldType, problems: Problems) -> None:
    """The keys that change the text: `whitespace`, `replace`, `split`."""
    keeps = "whitespace" in node.entries
    edits = any(key in node.entries for key in ("replace", "match", "split", "convert"))
    if keeps and not type_.keeps_space and not edits:
        message = f"`whitespace` has no effect: `type: {type_.name}` takes no white space around its value; remove it"
        problems.warn(node.key_place("whitespace"), "no-effect", message)
    if node.has_empty_list("replace"):
        problems.warn(node.key_place("replace"), "no-effect", "`replace` is empty; write pairs, or remove it")
    split = node.text_of("split")
    if split is None:
        return
    if type_.whole:
        message = f"`split` would cut the {type_.whole}; keep it, or `type: {type_.name}`"
        problems.add(node.key_place("split"), "conflict", message)
    elif type_.is_match and "match" in node.entries:
        message = f"`match` makes one {type_.name} of the whole text; keep it, or `split`"
        problems.add(node.key_place("split"), "conflict", message)
    elif not keeps and re.search(r"[^\S ]|  ", split) and node.text_of("attribute") not in ("html", "outerHtml"):
        message = "`split`: line breaks, tabs and double blanks are one blank by then; add `whitespace: keep`"
        problems.add(node.entries["split"].node.place, "conflict", message)


def _check_marks(node: YamlNode, type_: FieldType, problems: Problems) -> None:
    """That `decimalMark` is one of those that the type knows, and `groupMark` another one."""
    group = node.text_of("groupMark")
    decimal, own = node.text_of("decimalMark"), type_.find_key("decimalMark")
    if own is None or not _may_have(node, type_, "decimalMark"):
        return
    if decimal is not None and own.values and decimal not in own.values:
        known = _join_words([f'"{mark}"' for mark in own.values])
        message = f"`decimalMark` of a {type_.name} must be {known}"
        problems.add(node.entries["decimalMark"].node.place, "bad-mark", message)
    elif group is not None and group == (decimal or "."):
        cure = "write two different marks" if decimal else 'write `decimalMark` too, such as ","'
        message = f"`groupMark` is the decimal mark as well; {cure}"
        problems.add(node.entries["groupMark"].node.place, "conflict", message)


def _check_nested(node: YamlNode, place: SourcePosition, depth: int, problems: Problems) -> None:
    if "selector" not in node.entries:
        problems.add(place, "missing-key", "a field with `fields` needs a `selector` (one object per match)")
    for key in NESTING_EXCLUDES:
        if key in node.entries:
            problems.add(node.key_place(key), "conflict", f"`{key}` has no effect with `fields`; keep one")
    if depth >= _MAX_NESTING:
        problems.add(node.key_place("fields"), "too-deep", f"fields can nest at most {_MAX_NESTING} levels")
        return
    if not any(True for _ in node.entries_of("fields")) and node.entries["fields"].node.kind == "mapping":
        problems.add(node.key_place("fields"), "no-fields", "`fields` is empty")
    for _, field in node.entries_of("fields"):
        _check_field(field.node, field.place, depth + 1, problems)


def _check_default(node: YamlNode, type_: FieldType, problems: Problems) -> None:
    """A default is converted to the field's type: an invalid one would reject every record that uses it."""
    default = node.entries["default"].node
    if type_.stored == "json":
        return
    is_list = default.kind == "list" and _is_list(node)
    for item in default.items if is_list else [default]:
        if not (is_list and item.is_null):
            _check_default_item(item, node, type_, problems)


def _check_default_item(default: YamlNode, node: YamlNode, type_: FieldType, problems: Problems) -> None:
    """`default`: that of a field, or one of a list of them."""
    if type_.stored == "rows":
        is_valid = default.kind == "list"
    elif type_.stored == "bool" and isinstance(default.value(), bool):
        is_valid = True
    else:
        is_valid = default.kind == "scalar" and (not type_.is_default_read or _fits(default, node, type_))
    if not is_valid:
        message = f"`default` must be valid for `type: {type_.name}`, not {default.describe()}"
        problems.add(default.place, "wrong-type", message)
