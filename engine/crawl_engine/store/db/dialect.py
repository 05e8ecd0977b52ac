"""Renders the statements of the store, written for SQLite, for PostgreSQL: rules over tokens.

Literals and comments stay as they are. Names of tables and of our own functions get the schema of the crawl, so that
no session needs a search path.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)|(?P<blob>[xX]'[0-9a-fA-F]*')|(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*")
    |(?P<mark>\?\d*|(?<!:):[a-z_]\w*)|(?P<word>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)
    |(?P<sign>->>|->|<<|>>|\|\||<>|<=|>=|==|::|.)""",
    re.VERBOSE | re.DOTALL,
)
_TYPES = {"INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA"}
_FUNCTIONS = {"json_array": "json_build_array"}
_OWN_FUNCTIONS = frozenset({
    "total", "julianday", "json_each", "json_texts", "json_path", "instr", "hex", "substr", "to_blob", "glob_pattern",
    "drop_old_events",
})  # fmt: skip
"""Functions that `postgres.sql` creates in the schema of the crawl."""
_BEFORE_TABLE = frozenset({"FROM", "JOIN", "INTO", "UPDATE", "ANALYZE"})
_ENDS_FROM = frozenset({
    "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "SET", "RETURNING", "UNION", "EXCEPT", "INTERSECT", "VALUES",
    "SELECT",
})  # fmt: skip
_AFTER_IS = frozenset({"NULL", "NOT", "DISTINCT", "TRUE", "FALSE"})
_ARRAYS: tuple[tuple[type, str], ...] = (
    (bool, "bigint"), (int, "bigint"), (float, "float8"), (str, "text"), (bytes, "bytea"), (bytearray, "bytea"),
    (memoryview, "bytea"),
)  # fmt: skip


class Dialect:
    """The dialect of one schema. `tables`: by name the types of the columns, by theirs."""

    def __init__(self, schema: str, tables: Mapping[str, Mapping[str, str]]) -> None:
        self.schema = schema
        self._tables = tables
        self.render = lru_cache(2_000)(self._render)
        """The statement, and the names of its parameters in their order; none where they have no names."""
        self._insert_types = lru_cache(200)(self._read_insert_types)
        self._named_types = lru_cache(200)(self._read_named_types)
        self._conflicts = lru_cache(200)(_read_conflicts)

    def split(self, sql: str, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Sequence[Any]]]:
        """The rows in parts without two that conflict: a statement of PostgreSQL does not update a row twice."""
        places = self._conflicts(sql)
        if not places or len(rows) < 2:
            return [rows]
        parts: list[list[Sequence[Any]]] = []
        seen: Counter[tuple[Any, ...]] = Counter()
        for row in rows:
            key = tuple([row[place] for place in places])
            if seen[key] == len(parts):
                parts.append([])
            parts[seen[key]].append(row)
            seen[key] += 1
        return parts

    def values(self, sql: str, rows: Sequence[Sequence[Any]], leading: Sequence[Any]) -> tuple[str, list[Any]]:
        """The statement whose `{values}` takes the rows as arrays, and its parameters."""
        types = self._insert_types(sql)
        columns: list[Any] = []
        arrays: list[str] = []
        for number, given in enumerate(zip(*rows, strict=True)):
            column = list(given)
            type_ = types[number] if types else _array_type(column)
            if not types and column.count(None) == len(column) and (named := self._named_types(sql)):
                type_ = named[number]
            if type_ == "text" and any(isinstance(value, bytes | bytearray) for value in column):
                column = [v.decode() if isinstance(v, bytes | bytearray) else v for v in column]
            columns.append(column)
            arrays.append(type_)
        first = len(leading) + 1
        unnested = ", ".join(f"${number}::{type_}[]" for number, type_ in enumerate(arrays, first))
        names = ", ".join(f"column{number}" for number in range(1, len(arrays) + 1))
        text, _ = self.render(sql)
        return text.replace("{values}", f"SELECT * FROM unnest({unnested}) AS given ({names})"), [*leading, *columns]

    def _read_insert_types(self, sql: str) -> tuple[str, ...]:
        """The types of the columns of `INSERT INTO table (columns) {values}`; empty for other statements."""
        found = re.search(r"INSERT INTO (\w+) \(([\w\s,]+)\)\s*\{values\}", sql)
        if found is None:
            return ()
        types = self._tables[found[1]]
        return tuple([types[name.strip()] for name in found[2].split(",")])

    def _read_named_types(self, sql: str) -> tuple[str, ...]:
        """The types of `WITH name (columns) AS ({values})`: of the columns that the tables of the statement have."""
        found = re.search(r"\w+ \(([\w\s,]+)\)\s+AS \(\s*\{values\}", sql)
        if found is None:
            return ()
        known: dict[str, str] = {}
        for word in re.findall(r"\w+", sql):
            known = {**self._tables.get(word, {}), **known}
        return tuple([known.get(name.strip(), "text") for name in found[1].split(",")])

    def _render(self, sql: str) -> tuple[str, tuple[str, ...]]:
        tokens = _Tokens(sql)
        names = _number_marks(tokens)
        for rule in _RULES:
            rule(tokens)
        self._qualify(tokens)
        return "".join(text for _, text in tokens), names

    def _qualify(self, tokens: "_Tokens") -> None:
        """Names of tables and of our functions get the schema; common table expressions hide tables."""
        hidden = {tokens.text(at) for at in tokens.words() if tokens.names_expression(at)}
        lists = [False]
        for at, (kind, text) in enumerate(list(tokens)):
            if text == "(":
                lists.append(False)
            elif text == ")":
                lists.pop()
            elif kind == "word":
                upper, before = text.upper(), tokens.preceding(at)
                is_function = text in _OWN_FUNCTIONS and tokens.following(at) == "(" and before != "."
                is_listed = before in _BEFORE_TABLE or (lists[-1] and before == ",")
                if is_function or (text in self._tables and text not in hidden and is_listed):
                    tokens[at] = (kind, f"{self.schema}.{text}")
                if upper == "FROM":
                    lists[-1] = True
                elif upper in _ENDS_FROM:
                    lists[-1] = False


class _Tokens(list[tuple[str, str]]):
    """The tokens of a statement: kind and text."""

    def __init__(self, sql: str) -> None:
        super().__init__((str(found.lastgroup), found.group()) for found in _TOKEN.finditer(sql))

    def text(self, at: int) -> str:
        return self[at][1]

    def words(self) -> list[int]:
        return [at for at, (kind, _) in enumerate(self) if kind == "word"]

    def step(self, at: int, by: int) -> int:
        """The place of the next token that is no space; -1: there is none."""
        at += by
        while 0 <= at < len(self):
            if self[at][0] != "space":
                return at
            at += by
        return -1

    def following(self, at: int) -> str:
        after = self.step(at, 1)
        return self[after][1].upper() if after >= 0 else ""

    def preceding(self, at: int) -> str:
        before = self.step(at, -1)
        return self[before][1].upper() if before >= 0 else ""

    def names_expression(self, at: int) -> bool:
        """Whether `[(columns)] AS [NOT] [MATERIALIZED] (` follows the name of a common table expression."""
        after = self.step(at, 1)
        if after >= 0 and self[after][1] == "(":
            after = self.step(self.close(after), 1)
        if after < 0 or self[after][1].upper() != "AS":
            return False
        after = self.step(after, 1)
        while after >= 0 and self[after][1].upper() in {"NOT", "MATERIALIZED"}:
            after = self.step(after, 1)
        return after >= 0 and self[after][1] == "("

    def close(self, at: int) -> int:
        """The place of the bracket that closes the one at `at`."""
        depth = 0
        for place in range(at, len(self)):
            depth += {"(": 1, ")": -1}.get(self[place][1], 0)
            if depth == 0:
                return place
        raise ValueError("a bracket is not closed")

    def open(self, at: int) -> int:
        """The place of the bracket that the one at `at` closes."""
        depth = 0
        for place in range(at, -1, -1):
            depth += {")": 1, "(": -1}.get(self[place][1], 0)
            if depth == 0:
                return place
        raise ValueError("a bracket is not opened")

    def operand(self, at: int) -> int:
        """The place where the operand begins that ends at `at`: a name, a parameter, a call, brackets."""
        if self[at][1] == ")":
            at = self.open(at)
            before = at - 1
            if before >= 0 and self[before][0] == "word" and self[before][1].upper() not in {"IN", "AND", "OR", "NOT"}:
                at = before
        while at >= 2 and self[at - 1][1] == ".":
            at -= 2
        return at

    def call(self, function: str, at: int) -> None:
        """Have a function take the word, the parameter or the brackets at `at`."""
        if self.text(at) == "(":
            self.insert(at, ("word", function))
        else:
            self[at : at + 1] = [("word", function), ("sign", "("), self[at], ("sign", ")")]

    def blank(self, at: int) -> None:
        self[at] = ("space", "")


def _read_conflicts(sql: str) -> tuple[int, ...]:
    """The places in `{values}` of the columns of ON CONFLICT DO UPDATE; empty without it."""
    unique = re.search(r"ON CONFLICT \(([\w\s,]+)\) DO UPDATE", sql)
    given = re.search(r"\w+ \(([\w\s,]+)\)\s*(?:AS \(\s*)?\{values\}", sql)
    if unique is None or given is None:
        return ()
    names = [name.strip() for name in given[1].split(",")]
    return tuple([names.index(name.strip()) for name in unique[1].split(",")])


def _array_type(column: Sequence[Any]) -> str:
    """The type of the first value that is not null; a whole number among fractions is one of them."""
    known = {type(value) for value in column if value is not None}
    if float in known and known <= {float, int, bool}:
        return "float8"
    return next((name for type_, name in _ARRAYS if any(issubclass(k, type_) for k in known)), "text")


def _number_marks(tokens: _Tokens) -> tuple[str, ...]:
    """Number the parameters; returns their names in order, if they have names."""
    names: dict[str, int] = {}
    numbers = count(1)
    for at, (kind, text) in enumerate(tokens):
        if kind != "mark":
            continue
        if text.startswith(":"):
            number = names.setdefault(text[1:], len(names) + 1)
        else:
            number = int(text[1:]) if len(text) > 1 else next(numbers)
        tokens[at] = (kind, f"${number}")
    return tuple(names)


def _types(tokens: _Tokens) -> None:
    for at in tokens.words():
        if (name := _TYPES.get(tokens.text(at))) is not None:
            tokens[at] = ("word", name)


def _functions(tokens: _Tokens) -> None:
    for at in tokens.words():
        text = tokens.text(at)
        if text in _FUNCTIONS and tokens.following(at) == "(":
            tokens[at] = ("word", _FUNCTIONS[text])
        elif text == "json_each" and tokens.following(tokens.close(tokens.step(at, 1))) == "TEXTS":
            tokens[at] = ("word", "json_texts")
        elif text in {"max", "min"} and tokens.following(at) == "(" and _has_comma(tokens, tokens.step(at, 1)):
            tokens[at] = ("word", "greatest" if text == "max" else "least")


def _json_lists(tokens: _Tokens) -> None:
    """`json_group_array`: without rows, an empty list."""
    for at in reversed(tokens.words()):
        if tokens.text(at) == "json_group_array":
            end = tokens.close(tokens.step(at, 1)) + 1
            tokens[end:end] = _Tokens(", '[]')")
            tokens[at : at + 1] = _Tokens("coalesce(json_agg")


def _has_comma(tokens: _Tokens, opened: int) -> bool:
    """Whether a bracket holds more than one argument."""
    depth = 0
    for place in range(opened, tokens.close(opened)):
        depth += {"(": 1, ")": -1}.get(tokens.text(place), 0)
        if depth == 1 and tokens.text(place) == ",":
            return True
    return False


def _hints(tokens: _Tokens) -> None:
    """SQLite's hints: `INDEXED BY name`, `NOT INDEXED`; a CROSS JOIN fixes the order of tables."""
    for at in tokens.words():
        upper = tokens.text(at).upper()
        if upper == "INDEXED":
            if tokens.preceding(at) == "NOT":
                tokens.blank(tokens.step(at, -1))
            else:
                by = tokens.step(at, 1)
                tokens.blank(tokens.step(by, 1))
                tokens.blank(by)
            tokens.blank(at)
        elif upper == "CROSS" and _has_condition(tokens, at):
            tokens.blank(at)


def _unary_plus(tokens: _Tokens) -> None:
    """`+column` hides the column from the indexes of SQLite's planner."""
    for at, (_, text) in enumerate(tokens):
        if text == "+" and tokens.preceding(at) in {"WHERE", "AND", "OR", "ON", "("}:
            tokens.blank(at)


def _has_condition(tokens: _Tokens, cross: int) -> bool:
    at = tokens.step(tokens.step(cross, 1), 1)
    while 0 <= at < len(tokens):
        text = tokens.text(at).upper()
        if text == "(":
            at = tokens.close(at)
        elif text in {"ON", "USING"}:
            return True
        elif text in _ENDS_FROM or text in {"CROSS", "JOIN", "LEFT", "INNER", ")", ",", ";"}:
            return False
        at = tokens.step(at, 1)
    return False


def _patterns(tokens: _Tokens) -> None:
    """`GLOB`; the `LIKE` of SQLite ignores case."""
    for at in reversed(tokens.words()):
        if tokens.text(at) == "LIKE":
            tokens[at] = ("word", "ILIKE")
        elif tokens.text(at) == "GLOB":
            tokens[at] = ("word", "LIKE")
            tokens.call("glob_pattern", tokens.step(at, 1))


def _distinct(tokens: _Tokens) -> None:
    """`IS` between values."""
    for at in tokens.words():
        if tokens.text(at) != "IS":
            continue
        after = tokens.step(at, 1)
        if tokens.text(after).upper() == "NOT" and tokens.following(after) not in _AFTER_IS:
            tokens[after] = ("word", "DISTINCT FROM")
        elif tokens.text(after).upper() not in _AFTER_IS:
            tokens[at] = ("word", "IS NOT DISTINCT FROM")


def _blobs(tokens: _Tokens) -> None:
    """Literal blobs, and texts as blobs."""
    for at, (kind, text) in enumerate(tokens):
        if kind == "blob":
            tokens[at] = (kind, f"'\\x{text[2:-1]}'::bytea")
    for at in tokens.words():
        if tokens.text(at).upper() != "CAST":
            continue
        end = tokens.close(tokens.step(at, 1))
        type_ = tokens.step(end, -1)
        if tokens.text(type_) in {"BLOB", "BYTEA"}:
            tokens[at] = ("word", "to_blob")
            tokens.blank(type_)
            tokens.blank(tokens.step(type_, -1))


def _json_paths(tokens: _Tokens) -> None:
    """`text ->> path` on a text: PostgreSQL has it on json alone, and paths are arrays of names."""
    at = 0
    while at < len(tokens):
        text = tokens.text(at)
        if text in {"->>", "->"}:
            path = tokens.step(at, 1)
            kind, said = tokens[path]
            if said.startswith("'$"):
                tokens[path] = (kind, "'{" + ",".join(re.findall(r"\w+", said)) + "}'")
            elif kind in {"word", "mark"} or said == "(":
                tokens.call("json_path", path)
            if tokens[path] != (kind, said):
                tokens[at] = ("sign", "#>>" if text == "->>" else "#>")
            start = tokens.operand(tokens.step(at, -1))
            tokens.insert(at, ("space", " AS json) "))
            tokens.insert(start, ("space", "CAST("))
            at += 2
        at += 1


def _shifts(tokens: _Tokens) -> None:
    """`<<` and `>>` shift by an integer of four bytes."""
    for at in reversed(range(len(tokens))):
        if tokens.text(at) in {"<<", ">>"}:
            start = end = tokens.step(at, 1)
            while tokens.following(end) == ".":
                end += 2
            if tokens.following(end) == "(":
                end = tokens.close(tokens.step(end, 1))
            tokens[end + 1 : end + 1] = [("space", " AS integer"), ("sign", ")")]
            tokens[start:start] = [("word", "CAST"), ("sign", "(")]


_RULES: tuple[Callable[[_Tokens], None], ...] = (
    _types, _functions, _json_lists, _hints, _unary_plus, _patterns, _distinct, _blobs, _json_paths, _shifts,
)  # fmt: skip
