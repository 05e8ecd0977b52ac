"""Tables in PostgreSQL: creates one for a dataDef, or adds its columns, and writes rows to it."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from crawl_engine.append.formats.column_types import ColumnType
from crawl_engine.append.formats.projection import projection_of
from crawl_engine.append.formats.row_json import encode_value
from crawl_engine.append.formats.table_names import quote_name
from crawl_engine.append.formats.typed_table import (
    Ladder,
    SqlType,
    TypedTable,
    build_columns,
    encode_bool,
    encode_date,
    encode_integer,
    encode_list,
    encode_moment,
    encode_number,
    encode_text,
)
from crawl_engine.append.formats.writer import Batch
from crawl_engine.errors import CrawlError

MAX_NAME_BYTES = 63
"""PostgreSQL cuts longer names."""
CONSOLE_TABLE = "_crawl_console"
Connection = psycopg.Connection[TupleRow]

_ROWS = '"_crawl_console_rows"'
"""The temporary table of one batch, where rows may replace others."""
_INDEX_PREFIX = "crawl_console_"
_FIND = "SELECT oid, relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
_COLUMNS = """
SELECT attname::text, format_type(atttypid, atttypmod), attnotnull AND NOT atthasdef AND attidentity = '',
    attgenerated <> ''
FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
"""
_UNIQUE = """
SELECT i.relname::text, (SELECT array_agg(a.attname::text ORDER BY k.place)
    FROM unnest(x.indkey) WITH ORDINALITY k (number, place) JOIN pg_attribute a
    ON a.attrelid = x.indrelid AND a.attnum = k.number)
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
WHERE x.indrelid = %s AND x.indisunique AND x.indisvalid
"""

_TEXT, _JSON = SqlType("text", encode_text), SqlType("jsonb", encode_value)
_SCALARS: dict[str, tuple[SqlType, ...]] = {
    "int": (SqlType("bigint", encode_integer), SqlType("numeric", encode_number), _TEXT),
    "float": (SqlType("double precision", encode_number), SqlType("numeric", encode_number), _TEXT),
    "decimal": (SqlType("numeric", encode_number), _TEXT),
    "bool": (SqlType("boolean", encode_bool), _TEXT),
    "date": (SqlType("date", encode_date), SqlType("timestamp with time zone", encode_moment), _TEXT),
}
_SCALARS |= dict.fromkeys(("datetime", "instant"), _SCALARS["date"])
_SCALARS |= dict.fromkeys(("json", "table"), (_JSON, _TEXT))
_TEXTS = SqlType("text[]", encode_list(encode_text))


class UnfitTable(CrawlError):
    """A table that exists cannot take the rows of its dataDef."""


def _ladder(type_: ColumnType) -> Ladder:
    """The types for values of a column."""
    if isinstance(type_, dict):
        return Ladder((_TEXTS, _JSON) if type_["list"] in ("str", "url") else (_JSON, _TEXT))
    if isinstance(type_, list):
        return Ladder((_JSON, _TEXT))
    return Ladder(_SCALARS.get(type_, (_TEXT, SqlType("character varying", encode_text))))


class PostgresTable(TypedTable):
    """The table of one dataDef. With a key, only the row with the highest id of each key stays."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        """`settings`: of the output."""
        super().__init__(name, build_columns(settings, _ladder))
        place_of = {field: place for place, field in enumerate(settings["columns"])}
        self.key = [self.column_names[place_of[field]] for field in settings.get("key", ())]
        self._projection = projection_of(settings)
        self._quoted_key = ", ".join(map(quote_name, self.key))
        self._hashed_key = ", ".join(map(self._hash_of, self.key))
        names = [self.row_column, *self.column_names]
        self._columns = ", ".join(map(quote_name, names))
        self._has_key = " OR ".join(f"{quote_name(name)} IS NOT NULL" for name in self.key)

    def prepare(self, db: Connection) -> tuple[int, list[int]]:
        """Create what is missing; returns the table's number, and by column the place of its type in its ladder.

        Raises UnfitTable.
        """
        names = [self.name, self.row_column, *self.column_names]
        too_long = [name for name in names if len(name.encode()) > MAX_NAME_BYTES]
        if too_long or self.name == CONSOLE_TABLE:
            raise UnfitTable(
                f"'{(too_long or names)[0]}' cannot be a name in PostgreSQL",
                "Rename it; a name has at most 63 bytes.",
            )
        found = db.execute(_FIND, (self.quoted_name,)).fetchone()
        if found is None:
            places = [0] * len(self.ladders)
            db.execute(self.create_sql(places, "PRIMARY KEY"))
            self._ensure_key(db, {})
            return (db.execute(_FIND, (self.quoted_name,)).fetchone() or (0,))[0], places
        oid, kind = found
        if kind not in ("r", "p"):
            raise UnfitTable(f"{self.name}: is not a table", "Rename it, or the dataDef.")
        places = self._fit_columns(db, oid)
        unique: dict[str, list[str]] = dict(db.execute(_UNIQUE, (oid,)).fetchall())
        if [self.row_column] not in unique.values():
            db.execute(f"CREATE UNIQUE INDEX ON {self.quoted_name} ({quote_name(self.row_column)})")
        self._ensure_key(db, unique)
        return oid, places

    def insert(self, db: Connection, batch: Batch, places: list[int], *, may_exist: bool = False) -> bool:
        """Insert rows; `places` follows if a column must change its type. Returns whether rows replaced others.

        `may_exist`: some rows may be in the table. A row does not replace one with a higher id.
        """
        needed, rows = self.encode(batch if self._projection is None else self._projection.apply(batch), places)
        for column, (name, ladder) in enumerate(zip(self.column_names, self.ladders, strict=True)):
            if needed[column] > places[column]:
                type_, quoted = ladder.steps[needed[column]].name, quote_name(name)
                using = f"to_jsonb({quoted})" if type_ == "jsonb" else f"{quoted}::{type_}"
                db.execute(f"ALTER TABLE {self.quoted_name} ALTER {quoted} TYPE {type_} USING {using}")
                places[column] = needed[column]
        if not self.key and not may_exist:
            self._copy(db, self.quoted_name, rows)
            return False
        db.execute(
            f"CREATE TEMP TABLE {_ROWS} ON COMMIT DROP AS SELECT {self._columns} FROM {self.quoted_name} WITH NO DATA"
        )
        self._copy(db, _ROWS, rows)
        replaced = self._merge(db)
        db.execute(f"DROP TABLE {_ROWS}")
        return replaced

    def delete(self, db: Connection, rows: Sequence[int]) -> bool:
        """Delete rows by their ids; returns whether one was there."""
        where = f"{quote_name(self.row_column)} = ANY(%s)"
        return db.execute(f"DELETE FROM {self.quoted_name} WHERE {where}", (list(rows),)).rowcount > 0

    def delete_range(self, db: Connection, first: int, end: int) -> None:
        """Delete the rows from an id on, up to and without another one."""
        row = quote_name(self.row_column)
        db.execute(f"DELETE FROM {self.quoted_name} WHERE {row} >= %s AND {row} < %s", (first, end))

    def _copy(self, db: Connection, target: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with db.cursor() as cursor, cursor.copy(f"COPY {target} ({self._columns}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def _merge(self, db: Connection) -> bool:
        """Take the rows of the temporary table over; returns whether rows replaced others or were replaced."""
        row = quote_name(self.row_column)
        if not self.key:
            db.execute(
                f"INSERT INTO {self.quoted_name} ({self._columns}) SELECT {self._columns} FROM {_ROWS}"
                f" ON CONFLICT ({row}) DO NOTHING"
            )
            return False
        updates = ", ".join(f"{quote_name(name)} = excluded.{quote_name(name)}" for name in self.column_names)
        [(keyed, fresh)] = db.execute(
            f"WITH taken AS (INSERT INTO {self.quoted_name} AS t ({self._columns})"
            f" SELECT DISTINCT ON ({self._quoted_key}) {self._columns} FROM {_ROWS} WHERE {self._has_key}"
            f" ORDER BY {self._quoted_key}, {row} DESC"
            f" ON CONFLICT ({self._hashed_key}) WHERE {self._has_key}"
            f" DO UPDATE SET {row} = excluded.{row}, {updates} WHERE t.{row} < excluded.{row}"
            f" RETURNING xmax = 0 AS fresh)"
            f" SELECT (SELECT count(*) FROM {_ROWS} WHERE {self._has_key}), count(*) FILTER (WHERE fresh) FROM taken"
        ).fetchall()
        db.execute(
            f"INSERT INTO {self.quoted_name} ({self._columns}) SELECT {self._columns} FROM {_ROWS}"
            f" WHERE NOT ({self._has_key}) ON CONFLICT ({row}) DO NOTHING"
        )
        return bool(fresh < keyed)

    def _hash_of(self, column: str) -> str:
        """What the index has of a column of the key: of a text a hash, since an index takes no long one."""
        is_text = self.ladders[self.column_names.index(column)].steps[0].name == "text"
        return f"md5({quote_name(column)})" if is_text else quote_name(column)

    def _fit_columns(self, db: Connection, oid: int) -> list[int]:
        """Add missing columns; returns the places of all types. Raises UnfitTable."""
        present = {name: rest for name, *rest in db.execute(_COLUMNS, (oid,)).fetchall()}
        problems, places, missing = [], [], []
        row_type = present.pop(self.row_column, [None])[0]
        if row_type is None:
            missing.append(f"{quote_name(self.row_column)} bigint")
        elif row_type != "bigint":
            problems.append(f"the column {self.row_column} is {row_type}, not bigint")
        for name, ladder in zip(self.column_names, self.ladders, strict=True):
            type_, _, generated = present.pop(name, (None, False, False))
            place = 0 if type_ is None else ladder.find(type_)
            if type_ is None:
                missing.append(f"{quote_name(name)} {ladder.steps[0].name}")
            elif generated:
                problems.append(f"the column {name} is generated")
            elif place is None:
                problems.append(f"the column {name} is {type_}, and its field needs {ladder.steps[0].name}")
            places.append(place or 0)
        problems += [
            f"the column {name} must have a value, and no field gives one"
            for name, (_, required, _) in present.items()
            if required
        ]
        if problems:
            raise UnfitTable(
                f"the table {self.name} does not fit: {'; '.join(problems)}",
                "Change the table, or rename it or the dataDef.",
            )
        if missing:
            db.execute(f"ALTER TABLE {self.quoted_name} {', '.join(f'ADD COLUMN {column}' for column in missing)}")
        return places

    def _ensure_key(self, db: Connection, unique: Mapping[str, Sequence[str]]) -> None:
        """The unique index of the key; those of earlier keys are dropped."""
        digest = hashlib.blake2b(f"{self.name}\0{self._hashed_key}".encode(), digest_size=6).hexdigest()
        wanted = f"{_INDEX_PREFIX}{digest}" if self.key else ""
        for name in unique:
            if name.startswith(_INDEX_PREFIX) and name != wanted:
                db.execute(f"DROP INDEX {quote_name(name)}")
        if not wanted or wanted in unique:
            return
        try:
            db.execute(
                f"CREATE UNIQUE INDEX {wanted} ON {self.quoted_name} ({self._hashed_key}) NULLS NOT DISTINCT"
                f" WHERE {self._has_key}"
            )
        except psycopg.errors.UniqueViolation:
            raise UnfitTable(
                f"the table {self.name} has several rows with one key ({', '.join(self.key)})",
                "Delete all but one of each, or rename the table or the dataDef.",
            ) from None
