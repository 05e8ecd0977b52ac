"""Creates and checks the schema of a crawl in PostgreSQL: the tables of the SQLite files, rendered."""

import re
from pathlib import Path

from msgspec import Struct

from crawl_engine.errors import StorageError
from crawl_engine.store.db.file_header import SCHEMA_NUMBER, OtherDatabase, other_format
from crawl_engine.store.db.retry_busy import DatabaseBusy

STATE = """
SELECT current_setting('server_version_num')::int / 10000 AS version, current_setting('server_encoding') AS encoding,
    to_regnamespace($1) IS NOT NULL AS has_schema,
    (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace($1)) AS tables,
    obj_description(to_regclass($1 || '.meta'), 'pg_class') AS mark,
    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS is_read_only,
    has_database_privilege(current_database(), 'CREATE') AS may_create,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS free_connections,
    pg_backend_pid() AS is_shared
"""
_MARK = "crawl-console "
_OLDEST_SERVER = 14
_SQL_DIR = Path(__file__).parent
_TABLE = re.compile(r"^CREATE TABLE (\w+) \((.*?)^\)", re.DOTALL | re.MULTILINE)
_COLUMN = re.compile(r"^\s+(\w+)\s+(TEXT|INTEGER|REAL|BLOB)\b", re.MULTILINE)
_TYPES = {"TEXT": "text", "INTEGER": "bigint", "REAL": "float8", "BLOB": "bytea"}
_COUNTERS = {
    "ready": "state = 'READY' AND not_before IS NULL",
    "delayed": "state = 'READY' AND not_before IS NOT NULL",
    **{state.lower(): f"state = '{state}'" for state in ("TAKEN", "DONE", "FAILED", "SKIPPED", "INCOMPLETE")},
}
# the plan is made once for a connection, so it must be right for few sequences: no scan of them all
_COUNT = """
CREATE FUNCTION $schema.count_{name}_jobs() RETURNS trigger LANGUAGE plpgsql
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    WITH changed AS (SELECT sequence, {sums} FROM ({source}) AS one GROUP BY sequence),
    counted AS (
        UPDATE $schema.sequences AS s SET {sets} FROM changed WHERE s.id = changed.sequence AND ({changes})
        RETURNING s.run, CASE WHEN s.kind <> 'extract' THEN (s.ready + s.taken > 0)::int
            - (s.ready + s.taken - changed.ready - changed.taken > 0)::int ELSE 0 END AS by
    )
    UPDATE $schema.runs SET active_sequences = active_sequences + moved.by
    FROM (SELECT run, sum(by) AS by FROM counted GROUP BY run HAVING sum(by) <> 0) AS moved WHERE runs.seq = moved.run;
    IF EXISTS (SELECT 1 FROM ({source}) AS one WHERE state = 'FAILED') THEN
        INSERT INTO $schema.failures (sequence, reason, jobs)
        SELECT sequence, coalesce(reason, ''), sum(by) FROM ({source}) AS one WHERE state = 'FAILED'
        GROUP BY sequence, coalesce(reason, '') HAVING sum(by) <> 0
        ON CONFLICT (sequence, reason) DO UPDATE SET jobs = failures.jobs + excluded.jobs;
        DELETE FROM $schema.failures WHERE jobs <= 0 AND sequence IN (SELECT sequence FROM ({source}) AS one);
    END IF;
    RETURN NULL;
END $$;
"""
_NEW = "SELECT sequence, state, not_before, reason, 1 AS by FROM new_jobs"
_OLD = "SELECT sequence, state, not_before, reason, -1 AS by FROM old_jobs"
_SOURCES = {"born": _NEW, "changed": f"{_NEW} UNION ALL {_OLD}", "gone": _OLD}


class ServerState(Struct, frozen=True):
    """What a server says of itself and of a schema."""

    version: int
    encoding: str
    has_schema: bool
    tables: int
    mark: str | None
    """The comment on a table that says whose schema this is."""
    is_read_only: bool
    may_create: bool
    free_connections: int
    is_shared: bool
    """Whether PgBouncer shares its connections."""

    @property
    def has_crawl(self) -> bool:
        """Whether the schema has the tables of a crawl."""
        return self.mark is not None

    def check(self, name: str) -> None:
        """Raise OtherDatabase or StorageError if the schema cannot be read. `name`: of the schema, for users."""
        if self.version < _OLDEST_SERVER:
            raise StorageError(
                f"{name}: PostgreSQL {self.version} is too old", f"Use PostgreSQL {_OLDEST_SERVER} or newer."
            )
        if self.encoding != "UTF8":
            raise StorageError(f"{name}: the database has the encoding {self.encoding}", "Create one with UTF8.")
        number = (self.mark or "").removeprefix(_MARK)
        if (self.mark is None and self.tables) or (self.mark is not None and not number.isdigit()):
            raise OtherDatabase(
                f"{name}: the schema has tables of another program", "Nothing was changed. Use another --project."
            )
        if self.mark is not None and int(number) != SCHEMA_NUMBER:
            raise other_format(
                name,
                int(number),
                "Use that version. Its `store copy` to a data directory gives files that a newer version migrates.",
            )

    def check_writable(self, name: str) -> None:
        """Raise StorageError if this user cannot write here; DatabaseBusy if a crawl could, before a failover."""
        if self.is_read_only:
            refusal = DatabaseBusy if self.has_crawl else StorageError
            raise refusal(f"{name}: read-only, as a standby is", "Name the primary server with --store.")
        if not self.has_schema and not self.may_create:
            raise StorageError(
                f"{name}: the user may not create the schema",
                "GRANT CREATE ON DATABASE to this user, or create the schema for it and GRANT ALL on that.",
            )


def read_tables() -> dict[str, dict[str, str]]:
    """By table the types of its columns in PostgreSQL, by their names."""
    tables = {
        name: {column: _TYPES[type_] for column, type_ in _COLUMN.findall(body)}
        for name, body in _TABLE.findall(_ddl())
    }
    return {**tables, "sqlite_sequence": {"name": "text", "seq": "bigint"}, "clock": {"shift": "float8"}}


def render_schema(schema: str) -> str:
    """The statements that create the schema; `schema` is quoted."""
    text = re.sub(r"--[^\n]*", "", _ddl())
    text = re.sub(r"\bINTEGER PRIMARY KEY AUTOINCREMENT|\bINTEGER PRIMARY KEY(?! REFERENCES)",
                  "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", text)  # fmt: skip
    text = re.sub(r"REFERENCES \w+\(\w+\)", "", text)  # SQLite does not check them either
    text = re.sub(r"INSERT INTO meta[^;]*;", "", text)
    text = text.replace("WITHOUT ROWID", "")
    for sqlite, postgres in {**_TYPES, "TEXT": 'text COLLATE "C"'}.items():  # SQLite's order
        text = re.sub(rf"\b{sqlite}\b", postgres, text)
    text = re.sub(r"\b(CREATE TABLE|INSERT INTO|ON) (?=\w+ ?\()", rf"\1 {schema}.", text)
    # a partition for each run: a run is deleted without reading its events; identity columns keep ids unique
    text = re.sub(r"(\.(?:events|samples) \([^;]*);", r"\1 PARTITION BY LIST (run);", text)
    text = re.sub(r"(\.events \([^;]*?IDENTITY) PRIMARY KEY", r"\1", text)
    # counters change in place only where no index depends on them
    text = re.sub(r"CREATE INDEX sequences_waiting[^;]*;", "", text)
    # an entry of a B-tree holds 2,700 bytes, and URLs may be longer
    text = text.replace(
        f"ON {schema}.jobs(coalesce(target, url))", f"ON {schema}.jobs USING hash (coalesce(target, url))"
    )
    mark = f"COMMENT ON TABLE {schema}.meta IS '{_MARK}{SCHEMA_NUMBER}';"
    return f"{text}\n{_own_text().replace('$schema', schema)}\n{mark}"


def _ddl() -> str:
    return "".join((_SQL_DIR / name).read_text("utf-8") for name in ("schema.sql", "pages.sql"))


def _own_text() -> str:
    text = (_SQL_DIR / "postgres.sql").read_text("utf-8")
    counters = "".join(
        _COUNT.format(
            name=name, source=source,
            sums=", ".join(f"coalesce(sum(by) FILTER (WHERE {of}), 0) AS {c}" for c, of in _COUNTERS.items()),
            sets=", ".join(f"{c} = s.{c} + changed.{c}" for c in _COUNTERS),
            changes=" OR ".join(f"changed.{c} <> 0" for c in _COUNTERS),
        )
        for name, source in _SOURCES.items()
    )  # fmt: skip
    return text.replace("$counters", counters)
