"""Stream versions by blocks of consecutive events, a guard in few statements, and a short way in for one request."""

from alembic import op

revision = "0006"
down_revision = "0005"

BLOCKS = """
-- a row stands for the last of `events` consecutive versions at consecutive positions; what is there stands for one each
ALTER TABLE stream_versions ADD COLUMN events integer NOT NULL DEFAULT 1;
"""

GUARD = """
CREATE FUNCTION refuse_insert(about text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', about USING ERRCODE = 'integrity_constraint_violation', HINT = 'append through append_events()';
END $$;

CREATE OR REPLACE FUNCTION guard_insert() RETURNS trigger
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
"""

RULE = """
CREATE FUNCTION judged(kept bytea, content bytea, expect bigint, version bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN kept = content THEN 'repeated' WHEN kept IS NOT NULL THEN 'key_reused'
        WHEN expect IS NULL OR expect = version THEN 'committed' ELSE 'conflict' END
$$;
"""

JUDGE = """
-- A function that is asked in an expression needs no plan of its own, which PERFORM would cost. It answers void, never NULL.
-- Outcomes in order: 'committed', 'repeated', 'key_reused', 'conflict'. versions: each stream's before its request.
-- partition: the head's, NULL while the log is empty.
-- earliers, twins: the last request before it with the same stream, with the same key; 0 where there is none.
CREATE OR REPLACE FUNCTION judge_appends(
    streams text[], earliers integer[], expects bigint[], keys text[], twins integer[], contents bytea[], amounts integer[],
    OUT head bigint, OUT previous bytea, OUT moment timestamptz, OUT partition text,
    OUT outcomes text[], OUT firsts bigint[], OUT lasts bigint[], OUT versions bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    afters   bigint[];
    holders  integer[];
    known    bytea[];
    finish   bigint;
    current  bigint;
    holder   integer;
    last_key text;
BEGIN
    IF pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0)) IS NULL THEN
    END IF;
    SELECT e.position, e.chain, e.at, e.tableoid::regclass INTO head, previous, moment, partition
    FROM events e ORDER BY e.position DESC LIMIT 1;
    IF NOT FOUND THEN
        head := 0;
        previous := decode(repeat('00', 32), 'hex');
    END IF;
    moment := greatest(clock_timestamp(), moment);
    finish := head;
    SELECT array_agg((found.k).digest ORDER BY found.nth), array_agg(found.v ORDER BY found.nth),
           array_agg((found.k).first_position ORDER BY found.nth), array_agg((found.k).last_position ORDER BY found.nth)
    INTO known, versions, firsts, lasts
    FROM (SELECT r.nth, (SELECT k FROM append_keys k WHERE k.key = r.key) AS k,
                 (SELECT coalesce(max(s.version), 0) FROM stream_versions s WHERE s.stream = r.stream) AS v
          FROM unnest(keys, streams) WITH ORDINALITY AS r (key, stream, nth)) found;
    afters := versions;
    holders := array_fill(0, ARRAY[cardinality(keys)]);
    FOR i IN 1 .. cardinality(keys) LOOP
        current := versions[i];
        IF earliers[i] > 0 THEN
            current := afters[earliers[i]];
            versions[i] := current;
        END IF;
        holder := 0;
        IF twins[i] > 0 THEN
            holder := holders[twins[i]];
        END IF;
        IF known[i] IS NULL AND holder > 0 THEN
            known[i] := contents[holder];
            firsts[i] := firsts[holder];
            lasts[i] := lasts[holder];
        END IF;
        outcomes[i] := judged(known[i], contents[i], expects[i], current);
        IF outcomes[i] = 'committed' THEN
            firsts[i] := finish + 1;
            lasts[i] := finish + amounts[i];
            finish := lasts[i];
            current := current + amounts[i];
            holder := i;
            last_key := keys[i];
        END IF;
        holders[i] := holder;
        afters[i] := current;
    END LOOP;
    IF finish > head THEN
        last_key := set_config('flywheel.last_key', last_key, true);
        INSERT INTO append_keys
        SELECT r.key, r.content, r.first, r.last FROM unnest(keys, contents, firsts, lasts, outcomes) AS r (key, content, first, last, outcome)
        WHERE r.outcome = 'committed';
        IF pg_notify(current_schema() || '/events', finish::text) IS NULL THEN
        END IF;
    END IF;
    IF finish / 1000000 > head / 1000000 THEN
        PERFORM reserve_partitions(finish + 6000000);
    END IF;
END $$;
"""

REQUEST = """
-- What append_events() does, for one request, in fewer statements. version: the stream's before it.
-- The events go in before their key, in one call: no key can be kept for events that never come.
CREATE FUNCTION append_request(
    stream text, expect bigint, key text, content bytea, actor text, cause bigint,
    types text[], schema_versions integer[], payloads text[], digests bytea[],
    OUT outcome text, OUT first bigint, OUT last bigint, OUT version bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    head     bigint;
    previous bytea;
    moment   timestamptz;
    kept     bytea;
    amount   integer := cardinality(types);
BEGIN
    IF pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0)) IS NULL THEN
    END IF;
    SELECT e.position, e.chain, e.at, k.digest, k.first_position, k.last_position, coalesce(v.version, 0)
    INTO head, previous, moment, kept, first, last, version
    FROM (SELECT) one
        LEFT JOIN (SELECT * FROM events e ORDER BY e.position DESC LIMIT 1) e ON true
        LEFT JOIN append_keys k ON k.key = append_request.key
        LEFT JOIN (SELECT s.version FROM stream_versions s WHERE s.stream = append_request.stream
                   ORDER BY s.version DESC LIMIT 1) v ON true;
    outcome := judged(kept, content, expect, version);
    IF outcome <> 'committed' THEN
        RETURN;
    END IF;
    head := coalesce(head, 0);
    previous := coalesce(previous, decode(repeat('00', 32), 'hex'));
    moment := greatest(clock_timestamp(), moment);
    first := head + 1;
    last := head + amount;
    IF amount = 0 THEN
        RETURN;
    ELSIF amount = 1 THEN
        INSERT INTO events VALUES (first, stream, version + 1, moment, actor, cause, types[1], schema_versions[1],
            payloads[1]::jsonb, digests[1], chain_link(previous, first, stream, version + 1, moment, digests[1]));
    ELSE
        INSERT INTO events
        SELECT head + e.nth, stream, version + e.nth, moment, actor, cause, e.type, e.schema_version, e.payload::jsonb, e.digest,
            chain_over(previous, head + e.nth, stream, version + e.nth, moment, e.digest) OVER (ORDER BY e.nth)
        FROM unnest(types, schema_versions, payloads, digests) WITH ORDINALITY AS e (type, schema_version, payload, digest, nth);
    END IF;
    INSERT INTO append_keys VALUES (key, content, first, last);
    IF pg_notify(current_schema() || '/events', last::text) IS NULL THEN
    END IF;
    IF last / 1000000 > head / 1000000 THEN
        PERFORM reserve_partitions(last + 6000000);
    END IF;
END $$;
"""

PRIVILEGES = """
REVOKE ALL ON FUNCTION refuse_insert(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION append_request(text, bigint, text, bytea, text, bigint, text[], integer[], text[], bytea[]) FROM PUBLIC;
"""


def upgrade() -> None:
    for part in (BLOCKS, GUARD, RULE, JUDGE, REQUEST, PRIVILEGES):
        op.execute(part)
