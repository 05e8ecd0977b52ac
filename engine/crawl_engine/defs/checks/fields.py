"""Checks combinations of the keys of a field: those that exclude or require each other."""

import re
from collections.abc import Mapping, Sequence
from typing import cast, get_args

from crawl_engine.defs.language.keys import NESTING_EXCLUDES, TABLE_EXCLUDES
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.errors import quote_text, suggest
from crawl_engine.extract.fields.convert import default_converter_for
from crawl_engine.extract.fields.human_dates import ANY_FORMAT, is_locale_selector
from crawl_engine.extract.select.srcset import is_srcset
from crawl_engine.model.definition import Field
from crawl_engine.model.field_type import MARKED_TYPES, FieldType
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.model.variables import FIELD, variable_names
from crawl_engine.runtime.extras import has_extra, install_hint

_MAX_NESTING = 2
_DATE_LETTERS = {
    "YYYY": "%Y", "yyyy": "%Y", "YY": "%y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "DD": "%d", "dd": "%d",
    "HH": "%H", "mm": "%M", "ss": "%S",
}  # fmt: skip
"""Letters of other date languages, longest first, and the directives they stand for."""
_BOOL_WORDS = frozenset({"true", "false", "yes", "no", "1", "0"})


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
    kind = "" if _is_list(field) else field.text_of("type")
    return [part] if kind == "json" else [one.name for one in Field(name="", type="price").parts] * (kind == "price")


def _check_field(node: YamlNode, place: SourcePosition, depth: int, problems: Problems) -> None:
    if "value" in node.entries:
        for key in ("selector", "column", "scope", "attribute", "all"):
            if key in node.entries:
                problems.add(node.key_place(key), "conflict", f"`{key}` has no effect with `value`; keep one")
    kind = node.text_of("type")
    if "format" in node.entries and kind != "date":
        problems.add(node.key_place("format"), "conflict", "`format` needs `type: date`")
    elif "format" in node.entries and "%" not in (text := node.text_of("format") or "%") and text != ANY_FORMAT:
        message = f"`format`: '{text}' has no % directive; write {_with_directives(text)}, or `any` with a `locale`"
        problems.add(node.entries["format"].node.place, "bad-format", message)
    if node.has_empty_list("selector"):
        problems.add(node.key_place("selector"), "bad-selector", "the list of selectors is empty; write one")
    seen: set[str] = set()
    for one in node.list_of("selector"):
        if one.kind == "scalar" and one.text.strip() in seen:
            problems.warn(one.place, "no-effect", f"`{one.text.strip()}` stands in the list before; remove it")
        seen.add(one.text.strip())
    if "map" in node.entries:
        _check_map(node, problems)
    has_locale = "locale" in node.entries and not node.has_empty_list("locale")
    if node.text_of("format") == ANY_FORMAT and kind == "date" and not has_locale:
        message = "`format: any` needs a `locale`, such as `en`: 3/4/2024 is another day in `en-GB`"
        problems.add(node.key_place("format"), "missing-key", message)
    locales = [node.get("locale"), *node.list_of("locale")]
    if node.is_true("fromStep") and any(one is not None and is_locale_selector(one.text) for one in locales):
        message = "a step fills the field, and reads no page; write the language, such as `de`"
        problems.add(node.key_place("locale"), "conflict", message)
    reads_words = node.text_of("format") == ANY_FORMAT or kind == "price" or node.is_true("magnitudes")
    if "locale" in node.entries and not reads_words and "fields" not in node.entries:
        message = "`locale` needs `type: date` and `format: any`, `type: price`, or `magnitudes: true`"
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
    if "header" in node.entries and kind != "table":
        problems.add(node.key_place("header"), "conflict", "`header` of a field needs `type: table`")
    if kind == "table":
        for key in TABLE_EXCLUDES:
            if key in node.entries:
                problems.add(node.key_place(key), "conflict", f"`{key}` has no effect with `type: table`; keep one")
    if kind == "markdown" and not has_extra("markdown"):
        message = f"`type: markdown` needs a library that is not installed; install it: {install_hint('markdown')}"
        problems.add(node.entries["type"].node.place, "missing-library", message)
    check_candidates(node, problems)
    _check_text_keys(node, kind or "str", problems)
    _check_marks(node, kind or "str", problems)
    if node.get("default") is not None:
        _check_default(node, kind or "str", problems)


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


def _check_map(node: YamlNode, problems: Problems) -> None:
    """The values of `map` are read by the type of the field."""
    table, kind = node.entries["map"].node, node.text_of("type") or "str"
    if table.kind == "mapping" and not table.entries:
        problems.add(node.key_place("map"), "no-values", "`map` is empty; write texts and their values, or remove it")
    if kind in ("json", "table", "markdown"):
        problems.add(node.key_place("map"), "conflict", f"`map` has no effect with `type: {kind}`; keep one")
    for name, entry in node.entries_of("map"):
        if entry.node.kind == "scalar" and not entry.node.is_null and not _fits(entry.node, node, kind):
            message = f"the value of {quote_text(name)} must be valid for `type: {kind}`, not {entry.node.describe()}"
            problems.add(entry.place, "wrong-type", f"`map`: {message}")


def _fits(value: YamlNode, field: YamlNode, kind: str) -> bool:
    """Whether a value of `map` can be converted to the type of the field; another check reports an unknown type."""
    text = value.text.strip()
    if not text or kind not in get_args(FieldType):
        return True
    date_format = field.text_of("format") if kind == "date" else None
    marks = [field.text_of(key) if kind == "price" else None for key in ("decimalMark", "groupMark")]
    locales = tuple([one.text for one in (field.get("locale"), *field.list_of("locale")) if one is not None])
    languages = locales if kind == "price" else ()
    described = Field(
        name="",
        type=cast(FieldType, kind),
        format=date_format,
        decimal_mark=marks[0],
        group_mark=marks[1],
        locales=languages,
    )
    try:
        default_converter_for(described)(text, "http://x/")
    except ValueError:
        return False
    return True


def _check_scope(node: YamlNode, depth: int, problems: Problems) -> None:
    if depth:
        message = "a nested field reads its own match; put a field with `scope` beside the outer one"
        problems.add(node.key_place("scope"), "conflict", message)
    elif "selector" not in node.entries and "value" not in node.entries:
        problems.add(node.key_place("scope"), "missing-key", "`scope` needs a `selector` to search the page with")


def _check_text_keys(node: YamlNode, kind: str, problems: Problems) -> None:
    """The keys that change the text: `whitespace`, `replace`, `split`."""
    keeps = "whitespace" in node.entries
    if keeps and kind != "str" and not any(key in node.entries for key in ("replace", "match", "split", "convert")):
        message = f"`whitespace` has no effect: `type: {kind}` takes no white space around its value; remove it"
        problems.warn(node.key_place("whitespace"), "no-effect", message)
    if node.has_empty_list("replace"):
        problems.warn(node.key_place("replace"), "no-effect", "`replace` is empty; write pairs, or remove it")
    split = node.text_of("split")
    if split is None:
        return
    if kind in ("json", "markdown"):
        message = f"`split` would cut the {'JSON text' if kind == 'json' else 'HTML'}; keep it, or `type: {kind}`"
        problems.add(node.key_place("split"), "conflict", message)
    elif kind == "bool" and "match" in node.entries:
        message = "`match` makes one bool of the whole text; keep it, or `split`"
        problems.add(node.key_place("split"), "conflict", message)
    elif not keeps and re.search(r"[^\S ]|  ", split) and node.text_of("attribute") not in ("html", "outerHtml"):
        message = "`split`: line breaks, tabs and double blanks are one blank by then; add `whitespace: keep`"
        problems.add(node.entries["split"].node.place, "conflict", message)


def _check_marks(node: YamlNode, kind: str, problems: Problems) -> None:
    """`decimalMark`, `groupMark` and `magnitudes`: their types, and that the marks differ."""
    has_fraction = kind != "int" or node.is_true("magnitudes")  # 1,5 Mio. is a whole number
    for key, kinds in MARKED_TYPES.items():
        if key in node.entries and kind not in kinds and not (kind == "int" and has_fraction):
            *others, last = (f"`{name}`" for name in kinds)
            message = f"`{key}` needs the type {', '.join(others)} or {last}"
            problems.add(node.key_place(key), "conflict", message)
            return
    group = node.text_of("groupMark")
    decimal = node.text_of("decimalMark")
    if kind == "price" and decimal is not None and decimal not in (",", "."):
        message = '`decimalMark` of a price must be "," or "."'
        problems.add(node.entries["decimalMark"].node.place, "bad-mark", message)
        return
    if group is not None and group == (decimal or ".") and has_fraction:
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


def _check_default(node: YamlNode, kind: str, problems: Problems) -> None:
    """A default is converted to the field's type: an invalid one would reject every record that uses it."""
    default = node.entries["default"].node
    value = default.value()
    if kind == "json" or (default.kind == "list" and _is_list(node)):
        return
    is_valid = default.kind == "scalar"
    if kind == "table":
        is_valid = default.kind == "list"
    elif is_valid and kind == "bool":
        is_valid = isinstance(value, bool) or default.text.strip().lower() in _BOOL_WORDS
    elif is_valid and kind in ("int", "float", "decimal"):
        number = r"[-+]?[0-9]+" if kind == "int" else r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
        is_valid = re.fullmatch(number, default.text.strip()) is not None
    elif is_valid and kind == "price":
        is_valid = _fits(default, node, kind)
    if not is_valid:
        problems.add(
            default.place, "wrong-type", f"`default` must be valid for `type: {kind}`, not {default.describe()}"
        )
