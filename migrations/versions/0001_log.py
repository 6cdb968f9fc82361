"""The log, its guards, blobs, and the tables that everything derived is kept in."""

from alembic import op

revision = "0001"
down_revision = None

LOG = """
CREATE TABLE events (
    position       bigint      NOT NULL PRIMARY KEY,
    stream         text        NOT NULL,
    version        bigint      NOT NULL,
    at             timestamptz NOT NULL,
    actor          text        NOT NULL,
    cause          bigint,
    type           text        NOT NULL,
    schema_version integer     NOT NULL,
    payload        jsonb       NOT NULL,
    digest         bytea       NOT NULL CHECK (octet_length(digest) = 32),
    chain          bytea       NOT NULL CHECK (octet_length(chain) = 32)
) PARTITION BY RANGE (position);

CREATE TABLE stream_versions (
    stream   text   NOT NULL,
    version  bigint NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (stream, version)
);

CREATE TABLE append_keys (
    key            text   NOT NULL PRIMARY KEY,
    digest         bytea  NOT NULL,
    first_position bigint NOT NULL,
    last_position  bigint NOT NULL
);
"""

GUARDS = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'insufficient_privilege', HINT = 'correct a fact by appending another one';
END $$;

CREATE FUNCTION chain_link(previous bytea, at_position bigint, stream text, version bigint, at timestamptz, digest bytea)
RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT sha256(previous || int8send(at_position) || int4send(octet_length(convert_to(stream, 'UTF8')))
        || convert_to(stream, 'UTF8') || int8send(version)
        || int8send((extract(epoch FROM at) * 1000000)::bigint) || digest)
$$;

CREATE FUNCTION guard_insert() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    before   bigint;
    finish   bigint;
    amount   bigint;
    previous bytea := decode(repeat('00', 32), 'hex');
    wrong    bigint;
BEGIN
    SELECT min(position) - 1, max(position), count(*) INTO before, finish, amount FROM inserted;
    IF amount = 0 THEN
        RETURN NULL;
    END IF;
    IF before > 0 THEN
        SELECT chain INTO previous FROM events WHERE position = before;
    END IF;
    IF previous IS NULL OR amount <> finish - before OR EXISTS (SELECT FROM events WHERE position > finish) THEN
        RAISE EXCEPTION 'positions % to % do not follow the head of the log', before + 1, finish
            USING ERRCODE = 'integrity_constraint_violation', HINT = 'append through append_events()';
    END IF;
    SELECT position INTO wrong FROM (
        SELECT position, chain,
               chain_link(lag(chain, 1, previous) OVER (ORDER BY position), position, stream, version, at, digest) AS link
        FROM inserted
    ) linked WHERE chain <> link ORDER BY position LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the chain breaks at position %', wrong
            USING ERRCODE = 'integrity_constraint_violation', HINT = 'append through append_events()';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER guard_insert AFTER INSERT ON events REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION guard_insert();
ALTER TABLE events ENABLE ALWAYS TRIGGER guard_insert;

CREATE FUNCTION make_append_only(name text) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER refuse_change', name);
    EXECUTE format('CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER refuse_truncate', name);
END $$;

SELECT make_append_only('stream_versions');
SELECT make_append_only('append_keys');
SELECT make_append_only('events');
"""

PARTITIONS = """
CREATE FUNCTION reserve_partitions(upto bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    size    CONSTANT bigint := 5000000;
    made    integer := 0;
    start   bigint := 1;
    name    text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '/partitions', 0));
    WHILE start <= upto LOOP
        name := 'events_' || start;
        IF to_regclass(quote_ident(name)) IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF events FOR VALUES FROM (%s) TO (%s)', name, start, start + size);
            EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER refuse_change', name);
            EXECUTE format('CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
            EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER refuse_truncate', name);
            EXECUTE format('CREATE TRIGGER guard_insert AFTER INSERT ON %I REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION guard_insert()', name);
            EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER guard_insert', name);
            made := made + 1;
        END IF;
        start := start + size;
    END LOOP;
    RETURN made;
END $$;

SELECT reserve_partitions(20000000);
"""

APPEND = """
CREATE FUNCTION append_events(requests jsonb)
RETURNS TABLE (outcome text, first_position bigint, last_position bigint, stream_version bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    request   jsonb;
    item      jsonb;
    known     append_keys%ROWTYPE;
    head      bigint;
    previous  bytea;
    moment    timestamptz;
    current   bigint;
    began     bigint;
    batch     events[] := '{}';
    row_      events;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0));
    SELECT e.position, e.chain, e.at INTO head, previous, moment FROM events e ORDER BY e.position DESC LIMIT 1;
    IF NOT FOUND THEN
        head := 0;
        previous := decode(repeat('00', 32), 'hex');
    END IF;
    moment := greatest(clock_timestamp(), moment);
    FOR request IN SELECT value FROM jsonb_array_elements(requests) WITH ORDINALITY AS r (value, nth) ORDER BY nth LOOP
        SELECT * INTO known FROM append_keys k WHERE k.key = request ->> 'key';
        IF FOUND THEN
            outcome := CASE WHEN known.digest = decode(request ->> 'digest', 'hex') THEN 'repeated' ELSE 'key_reused' END;
            first_position := known.first_position;
            last_position := known.last_position;
            stream_version := NULL;
            RETURN NEXT;
            CONTINUE;
        END IF;
        SELECT coalesce(max(s.version), 0) INTO current FROM stream_versions s WHERE s.stream = request ->> 'stream';
        IF (request ->> 'expect')::bigint <> current THEN
            outcome := 'conflict';
            first_position := NULL;
            last_position := NULL;
            stream_version := current;
            RETURN NEXT;
            CONTINUE;
        END IF;
        began := head + 1;
        FOR item IN SELECT value FROM jsonb_array_elements(request -> 'events') WITH ORDINALITY AS e (value, nth) ORDER BY nth LOOP
            head := head + 1;
            current := current + 1;
            row_ := ROW(head, request ->> 'stream', current, moment, request ->> 'actor', (request ->> 'cause')::bigint,
                        item ->> 'type', (item ->> 'schema_version')::integer, item -> 'payload',
                        decode(item ->> 'digest', 'hex'), NULL);
            row_.chain := chain_link(previous, head, row_.stream, current, moment, row_.digest);
            previous := row_.chain;
            batch := batch || row_;
            INSERT INTO stream_versions VALUES (row_.stream, current, head);
        END LOOP;
        INSERT INTO append_keys VALUES (request ->> 'key', decode(request ->> 'digest', 'hex'), began, head);
        outcome := 'committed';
        first_position := began;
        last_position := head;
        stream_version := current;
        RETURN NEXT;
    END LOOP;
    IF cardinality(batch) > 0 THEN
        INSERT INTO events SELECT * FROM unnest(batch);
        PERFORM pg_notify(current_schema() || '/events', head::text);
    END IF;
END $$;
"""

BLOBS = """
CREATE TABLE blobs (
    digest     text   NOT NULL PRIMARY KEY,
    media_type text   NOT NULL,
    size       bigint NOT NULL,
    body       bytea  NOT NULL
);
"""

DERIVED = """
CREATE TABLE fold_rows (
    projection text    NOT NULL,
    version    integer NOT NULL,
    key        text    NOT NULL,
    since      bigint  NOT NULL,
    state      jsonb   NOT NULL,
    PRIMARY KEY (projection, version, key, since)
);

CREATE TABLE bookmarks (
    projection   text    NOT NULL,
    version      integer NOT NULL,
    position     bigint  NOT NULL DEFAULT 0,
    is_live      boolean NOT NULL DEFAULT false,
    parked_at    bigint,
    parked_error text,
    PRIMARY KEY (projection, version)
);

CREATE UNIQUE INDEX one_live_version ON bookmarks (projection) WHERE is_live;
"""

PRIVILEGES = """
REVOKE ALL ON FUNCTION append_events(jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION reserve_partitions(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION make_append_only(text) FROM PUBLIC;
"""


def upgrade() -> None:
    for part in (LOG, GUARDS, PARTITIONS, APPEND, BLOBS, DERIVED, PRIVILEGES):
        op.execute(part)
