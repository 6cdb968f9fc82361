-- The log: its tables, the chain over its events, and the guards that refuse whatever does not follow the head.

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

-- a row stands for the last of `events` consecutive versions at consecutive positions
CREATE TABLE stream_versions (
    stream   text    NOT NULL,
    version  bigint  NOT NULL,
    position bigint  NOT NULL,
    events   integer NOT NULL DEFAULT 1,
    PRIMARY KEY (stream, version)
);

CREATE TABLE append_keys (
    key            text   NOT NULL PRIMARY KEY,
    digest         bytea  NOT NULL,
    first_position bigint NOT NULL,
    last_position  bigint NOT NULL
);

CREATE INDEX withdrawals ON events (position) WHERE type = 'RunsWithdrawn';

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'insufficient_privilege', HINT = 'correct a fact by appending another one';
END $$;

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

CREATE FUNCTION chain_link(previous bytea, at_position bigint, stream text, version bigint, at timestamptz, digest bytea)
RETURNS bytea LANGUAGE sql STABLE AS $$ -- STABLE like convert_to, or it is called for each row instead of being inlined
    SELECT sha256(previous || int8send(at_position) || int4send(octet_length(stream)) || convert_to(stream, 'UTF8')
        || int8send(version) || int8send((date_part('epoch', at) * 1000000)::bigint) || digest)
$$;

CREATE FUNCTION chain_next(state bytea, previous bytea, at_position bigint, stream text, version bigint, at timestamptz, digest bytea)
RETURNS bytea LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN chain_link(coalesce(state, previous), at_position, stream, version, at, digest);
END $$;

CREATE AGGREGATE chain_over (previous bytea, at_position bigint, stream text, version bigint, at timestamptz, digest bytea) (
    SFUNC = chain_next, STYPE = bytea
);

CREATE FUNCTION refuse_insert(about text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', about USING ERRCODE = 'integrity_constraint_violation', HINT = 'append through append_events()';
END $$;

CREATE FUNCTION guard_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    before   bigint;
    finish   bigint;
    amount   bigint;
    previous bytea := decode(repeat('00', 32), 'hex');
    earliest timestamptz := '-infinity';
    latest   timestamptz := 'infinity';
    first_at timestamptz;
    last_at  timestamptz;
    kept     bigint;
    wrong    bigint;
    misled   text;
BEGIN
    IF TG_TABLE_SCHEMA <> current_schema() THEN
        RAISE EXCEPTION '% is no table of this log', TG_TABLE_NAME
            USING ERRCODE = 'insufficient_privilege', HINT = 'append through append_events()';
    END IF;
    SELECT min(position) - 1, max(position), count(*), min(at), max(at) INTO before, finish, amount, first_at, last_at FROM inserted;
    IF amount = 0 THEN
        RETURN NULL;
    END IF;
    IF before > 0 THEN
        SELECT chain, at INTO previous, earliest FROM events WHERE position = before;
    ELSIF (SELECT max(position) FROM events) > finish THEN
        previous := NULL;
    END IF;
    IF previous IS NULL OR amount <> finish - before THEN
        PERFORM refuse_insert(format('positions %s to %s do not follow the head of the log', before + 1, finish));
    END IF;
    IF session_user <> current_user THEN -- the owner may import a log whose clock ran ahead of this one
        latest := greatest(clock_timestamp(), earliest);
    END IF;
    IF first_at < earliest OR last_at > latest OR first_at < last_at AND EXISTS (
        SELECT FROM (SELECT at < lag(at) OVER (ORDER BY position) AS goes_back FROM inserted) moments WHERE goes_back) THEN
        PERFORM refuse_insert(format('the times of positions %s to %s do not follow the head of the log', before + 1, finish));
    END IF;
    IF amount = 1 THEN
        INSERT INTO stream_versions (stream, version, position, events)
        SELECT stream, version, position, 1 FROM inserted i
        WHERE chain = chain_link(previous, position, stream, version, at, digest)
            AND version = 1 + coalesce((SELECT max(s.version) FROM stream_versions s WHERE s.stream = i.stream), 0);
        GET DIAGNOSTICS kept = ROW_COUNT;
    ELSE
        -- nothing is sorted: rows that do not come in the order of positions do not follow one another
        WITH linked AS (
            SELECT stream, version, position, position = before + row_number() OVER seen AND chain = chain_link(lag(chain, 1, previous) OVER seen, position, stream, version, at, digest) AS follows
            FROM inserted WINDOW seen AS (ROWS UNBOUNDED PRECEDING)
        ), blocks AS (
            SELECT stream, min(version) AS low, max(version) AS high, max(position) AS last, count(*) AS events
            FROM linked GROUP BY stream, position - version HAVING bool_and(follows)
        ), ordered AS (
            SELECT *, lag(high) OVER (PARTITION BY stream ORDER BY last) AS preceding FROM blocks
        ), written AS (
            INSERT INTO stream_versions (stream, version, position, events)
            SELECT stream, high, last, events FROM ordered o
            WHERE high - low + 1 = events AND low = 1 + coalesce(
                preceding, (SELECT max(s.version) FROM stream_versions s WHERE s.stream = o.stream), 0)
            RETURNING events
        )
        SELECT sum(events) INTO kept FROM written;
    END IF;
    IF kept = amount THEN
        RETURN NULL;
    END IF;
    SELECT position INTO wrong FROM (
        SELECT position, before + row_number() OVER () AS expected FROM inserted
    ) numbered WHERE position <> expected LIMIT 1;
    IF FOUND THEN
        PERFORM refuse_insert(format('position %s does not come in the order of positions', wrong));
    END IF;
    SELECT position INTO wrong FROM (
        SELECT position, chain, chain_link(lag(chain, 1, previous) OVER (ORDER BY position), position, stream, version, at, digest) AS link
        FROM inserted
    ) linked WHERE chain <> link ORDER BY position LIMIT 1;
    IF FOUND THEN
        PERFORM refuse_insert(format('the chain breaks at position %s', wrong));
    END IF;
    SELECT i.stream INTO misled FROM inserted i
    WHERE NOT EXISTS (SELECT FROM stream_versions s
        WHERE s.stream = i.stream AND s.position >= i.position AND s.position - s.events < i.position)
    ORDER BY i.position LIMIT 1;
    PERFORM refuse_insert(format('the versions of stream %s do not follow its last one', misled));
    RETURN NULL;
END $$;

CREATE TRIGGER guard_insert AFTER INSERT ON events REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION guard_insert();
ALTER TABLE events ENABLE ALWAYS TRIGGER guard_insert;

REVOKE ALL ON FUNCTION refuse_change() FROM PUBLIC;
REVOKE ALL ON FUNCTION make_append_only(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION refuse_insert(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION guard_insert() FROM PUBLIC;
