-- What PostgreSQL has besides the tables of schema.sql and pages.sql: functions that SQLite has, and triggers.sql.

CREATE AGGREGATE $schema.total(double precision) (sfunc = float8pl, stype = double precision, initcond = '0');

CREATE FUNCTION $schema.julianday(text) RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT extract(epoch FROM statement_timestamp())::double precision / 86400.0 + 2440587.5
$$;

CREATE FUNCTION $schema.json_each(list text, OUT key bigint, OUT value bigint) RETURNS SETOF record
LANGUAGE sql IMMUTABLE ROWS 50 AS $$
    SELECT number - 1, item::bigint FROM json_array_elements_text(list::json) WITH ORDINALITY AS given (item, number)
$$;

CREATE FUNCTION $schema.json_texts(list text, OUT key bigint, OUT value text) RETURNS SETOF record
LANGUAGE sql IMMUTABLE ROWS 50 AS $$
    SELECT number - 1, item FROM json_array_elements_text(list::json) WITH ORDINALITY AS given (item, number)
$$;

-- the items of an array in a document, as texts
CREATE FUNCTION $schema.json_each(document text, path text, OUT key bigint, OUT value text) RETURNS SETOF record
LANGUAGE sql IMMUTABLE ROWS 50 AS $$
    SELECT number - 1, item FROM json_array_elements_text(document::json #> string_to_array(substr(path, 3), '.'))
        WITH ORDINALITY AS given (item, number)
$$;

-- `$."a"."b"` as an array of names
CREATE FUNCTION $schema.json_path(path text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array(SELECT part[1]::json #>> '{}' FROM regexp_matches(path, '\.("(?:[^"\\]|\\.)*")', 'g') AS part)
$$;

-- a pattern of GLOB as one of LIKE; brackets stand around one character alone
CREATE FUNCTION $schema.glob_pattern(glob text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(replace(replace(replace(replace(
        regexp_replace(glob, '[\\%_]', '\\\&', 'g'), '[*]', chr(1)), '*', '%'), chr(1), '*'), '[?]', '?'), '[[]', '[')
$$;

CREATE FUNCTION $schema.instr(text, text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT strpos($1, $2) $$;
CREATE FUNCTION $schema.substr(text, bigint, bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT pg_catalog.substr($1, $2::integer, $3::integer)
$$;
CREATE FUNCTION $schema.substr(bytea, bigint, bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT pg_catalog.substr($1, $2::integer, $3::integer)
$$;
CREATE FUNCTION $schema.hex(bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT upper(encode($1, 'hex')) $$;
CREATE FUNCTION $schema.to_blob(text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT convert_to($1, 'UTF8') $$;

CREATE TABLE $schema.clock (shift double precision NOT NULL); -- see PostgresDatabase._clock
INSERT INTO $schema.clock (shift) VALUES (0);

CREATE VIEW $schema.sqlite_sequence AS                  -- the highest id ever given
    SELECT 'rows' AS name, CASE WHEN is_called THEN last_value ELSE 0 END AS seq FROM $schema.rows_id_seq
    UNION ALL SELECT 'pages', CASE WHEN is_called THEN last_value ELSE 0 END FROM $schema.pages_id_seq;

-- The doorbells of engine/crawl_engine/queue.py: the columns are Huey's. A crash empties the table, which costs nothing.
CREATE UNLOGGED TABLE $schema.doorbells (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue    text NOT NULL,
    data     bytea NOT NULL,
    priority double precision NOT NULL
) WITH (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

INSERT INTO $schema.meta (name, value) VALUES ('identity', replace(gen_random_uuid()::text, '-', ''));

-- Each change of state of a run or node is also an event: the events, replayed, give the tables.

CREATE FUNCTION $schema.tell_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> NEW.state THEN
        INSERT INTO $schema.events (run, at, level, source, kind, text) VALUES (NEW.seq,
            extract(epoch FROM clock_timestamp()), 'INFO', 'supervisor', 'state', 'run ' || NEW.state);
    END IF;
    IF OLD.stage <> NEW.stage THEN
        INSERT INTO $schema.events (run, at, level, source, kind, text) VALUES (NEW.seq,
            extract(epoch FROM clock_timestamp()), 'INFO', 'supervisor', 'stage', NEW.stage);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER runs_told AFTER UPDATE OF state, stage ON $schema.runs FOR EACH ROW
WHEN (OLD.state <> NEW.state OR OLD.stage <> NEW.stage) EXECUTE FUNCTION $schema.tell_run();

CREATE FUNCTION $schema.tell_node() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO $schema.events (run, at, level, source, kind, text) VALUES (NEW.run,
        extract(epoch FROM clock_timestamp()), 'INFO', 'n' || NEW.number, 'state',
        'n' || NEW.number || ' ' || NEW.state || ' ' || NEW.role);
    RETURN NULL;
END $$;
CREATE TRIGGER nodes_born AFTER INSERT ON $schema.nodes FOR EACH ROW EXECUTE FUNCTION $schema.tell_node();
CREATE TRIGGER nodes_told AFTER UPDATE OF state, role ON $schema.nodes FOR EACH ROW
WHEN (OLD.state <> NEW.state OR OLD.role <> NEW.role) EXECUTE FUNCTION $schema.tell_node();

-- Counters change in the statement that changes jobs: one row of `sequences` for all jobs of a statement.

$counters

CREATE TRIGGER jobs_born AFTER INSERT ON $schema.jobs REFERENCING NEW TABLE AS new_jobs
FOR EACH STATEMENT EXECUTE FUNCTION $schema.count_born_jobs();
CREATE TRIGGER jobs_changed AFTER UPDATE ON $schema.jobs REFERENCING OLD TABLE AS old_jobs NEW TABLE AS new_jobs
FOR EACH STATEMENT EXECUTE FUNCTION $schema.count_changed_jobs();
CREATE TRIGGER jobs_gone AFTER DELETE ON $schema.jobs REFERENCING OLD TABLE AS old_jobs
FOR EACH STATEMENT EXECUTE FUNCTION $schema.count_gone_jobs();

-- The functions above count active sequences too; this is for those that are counted again from the jobs.

CREATE FUNCTION $schema.count_active() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE $schema.runs SET active_sequences = active_sequences
        + (NEW.ready + NEW.taken > 0)::int - (OLD.ready + OLD.taken > 0)::int WHERE seq = NEW.run;
    RETURN NULL;
END $$;
CREATE TRIGGER sequences_active AFTER UPDATE OF ready, taken ON $schema.sequences FOR EACH ROW
WHEN (pg_trigger_depth() = 0 AND NEW.kind <> 'extract' AND (OLD.ready + OLD.taken > 0) <> (NEW.ready + NEW.taken > 0))
EXECUTE FUNCTION $schema.count_active();

-- Events and samples have a partition for each run, made and dropped with it; _other has the events without a run.

CREATE INDEX events_id ON $schema.events (id);
CREATE TABLE $schema.events_other PARTITION OF $schema.events DEFAULT;
CREATE TABLE $schema.samples_other PARTITION OF $schema.samples DEFAULT;

CREATE FUNCTION $schema.part_run() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE parted text;
BEGIN
    FOREACH parted IN ARRAY ARRAY['events', 'samples'] LOOP
        IF TG_OP = 'DELETE' THEN
            EXECUTE format('DROP TABLE IF EXISTS $schema.%s_%s', parted, OLD.seq);
        ELSE
            BEGIN
                EXECUTE format('CREATE TABLE $schema.%1$s_%2$s PARTITION OF $schema.%1$s FOR VALUES IN (%2$s)',
                    parted, NEW.seq);
            EXCEPTION WHEN check_violation THEN NULL;   -- it has rows already, copied before the run
            END;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER runs_parted AFTER INSERT OR DELETE ON $schema.runs FOR EACH ROW EXECUTE FUNCTION $schema.part_run();

CREATE FUNCTION $schema.drop_old_events(before double precision, except_run bigint) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE part regclass; newest double precision; dropped bigint := 0;
BEGIN
    FOR part IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = '$schema.events'::regclass
        AND inhrelid IS DISTINCT FROM to_regclass('$schema.events_' || except_run)
    LOOP
        EXECUTE format('SELECT at FROM %s ORDER BY id DESC LIMIT 1', part) INTO newest;
        IF newest < before THEN
            EXECUTE format('TRUNCATE %s', part);
            dropped := dropped + 1;
        END IF;
    END LOOP;
    RETURN dropped;
END $$;

-- Rows that change often leave room in their pages for their next versions, and are vacuumed by themselves.

DO $$
DECLARE hot text;
BEGIN
    FOREACH hot IN ARRAY ARRAY['runs', 'leader', 'supervisors', 'nodes', 'appenders', 'outputs', 'deliveries', 'hosts', 'sequences',
        'failures', 'page_repeats', 'row_counts', 'metrics', 'content_sums', 'health', 'field_health', 'result_counts',
        'host_speeds', 'host_answers', 'host_latencies', 'host_health', 'cookie_jars', 'checkpoints', 'meta'] LOOP
        EXECUTE format('ALTER TABLE $schema.%s SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, '
            'autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)', hot);
    END LOOP;
END $$;
ALTER TABLE $schema.jobs SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
