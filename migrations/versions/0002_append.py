"""Appending by arrays or by COPY: one guard writes the stream versions, functions hold the lock and keep the keys."""

from alembic import op

revision = "0002"
down_revision = "0001"

GUARD = """
CREATE OR REPLACE FUNCTION guard_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    before   bigint;
    finish   bigint;
    amount   bigint;
    previous bytea := decode(repeat('00', 32), 'hex');
    earliest timestamptz := '-infinity';
    latest   timestamptz := 'infinity';
    wrong    bigint;
    misled   text;
BEGIN
    IF TG_TABLE_SCHEMA <> current_schema() THEN
        RAISE EXCEPTION '% is no table of this log', TG_TABLE_NAME
            USING ERRCODE = 'insufficient_privilege', HINT = 'append through append_events()';
    END IF;
    SELECT min(position) - 1, max(position), count(*) INTO before, finish, amount FROM inserted;
    IF amount = 0 THEN
        RETURN NULL;
    END IF;
    IF before > 0 THEN
        SELECT chain, at INTO previous, earliest FROM events WHERE position = before;
    ELSIF (SELECT max(position) FROM events) > finish THEN
        previous := NULL;
    END IF;
    IF previous IS NULL OR amount <> finish - before THEN
        RAISE EXCEPTION 'positions % to % do not follow the head of the log', before + 1, finish
            USING ERRCODE = 'integrity_constraint_violation', HINT = 'append through append_events()';
    END IF;
    IF session_user <> current_user THEN -- the owner may import a log whose clock ran ahead of this one
        latest := greatest(clock_timestamp(), earliest);
    END IF;
    IF amount = 1 THEN
        SELECT position INTO wrong FROM inserted
        WHERE chain <> chain_link(previous, position, stream, version, at, digest)
            OR at < earliest OR at > latest;
    ELSE
        SELECT position INTO wrong FROM (
            SELECT position, chain, at, lag(at, 1, earliest) OVER byposition AS preceding,
                   chain_link(lag(chain, 1, previous) OVER byposition, position, stream, version, at, digest) AS link
            FROM inserted WINDOW byposition AS (ORDER BY position)
        ) linked
        WHERE chain <> link OR at < preceding OR at > latest ORDER BY position LIMIT 1;
    END IF;
    IF FOUND THEN
        RAISE EXCEPTION 'the chain breaks at position %', wrong
            USING ERRCODE = 'integrity_constraint_violation', HINT = 'append through append_events()';
    END IF;
    IF amount = 1 THEN
        SELECT i.stream INTO misled FROM inserted i
        WHERE i.version <> 1 + coalesce((SELECT max(s.version) FROM stream_versions s WHERE s.stream = i.stream), 0);
    ELSE
        SELECT found.stream INTO misled
        FROM (SELECT stream, min(version) AS low, max(version) AS high, count(*) AS number FROM inserted GROUP BY stream) found
        WHERE high - low + 1 <> number
            OR low <> 1 + coalesce((SELECT max(s.version) FROM stream_versions s WHERE s.stream = found.stream), 0) LIMIT 1;
    END IF;
    IF FOUND THEN
        RAISE EXCEPTION 'the versions of stream % do not follow its last one', misled
            USING ERRCODE = 'integrity_constraint_violation', HINT = 'append through append_events()';
    END IF;
    INSERT INTO stream_versions SELECT stream, version, position FROM inserted;
    RETURN NULL;
END $$;
"""

SPARE = """
-- every partition costs each append a little, and judge_appends() reserves the next one in time
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['events_10000001', 'events_15000001'] LOOP
        IF NOT EXISTS (SELECT FROM events WHERE position > 5000000) AND to_regclass(name) IS NOT NULL THEN
            EXECUTE format('DROP TABLE %I', name);
        END IF;
    END LOOP;
END $$;
"""

LINK = """
CREATE OR REPLACE FUNCTION chain_link(previous bytea, at_position bigint, stream text, version bigint, at timestamptz, digest bytea)
RETURNS bytea LANGUAGE sql STABLE AS $$ -- STABLE like convert_to, or it is called for each row instead of being inlined
    SELECT sha256(previous || int8send(at_position) || int4send(octet_length(stream)) || convert_to(stream, 'UTF8')
        || int8send(version) || int8send((date_part('epoch', at) * 1000000)::bigint) || digest)
$$;
"""

ORDER = """
CREATE FUNCTION chain_next(state bytea, previous bytea, at_position bigint, stream text, version bigint, at timestamptz, digest bytea)
RETURNS bytea LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN chain_link(coalesce(state, previous), at_position, stream, version, at, digest);
END $$;

CREATE AGGREGATE chain_over (previous bytea, at_position bigint, stream text, version bigint, at timestamptz, digest bytea) (
    SFUNC = chain_next, STYPE = bytea
);
"""

APPEND = """
DROP FUNCTION append_events(jsonb);

-- Outcomes in order: 'committed', 'repeated', 'key_reused', 'conflict'. versions: each stream's before its request.
-- partition: the head's, NULL while the log is empty.
-- earliers, twins: the last request before it with the same stream, with the same key; 0 where there is none.
CREATE FUNCTION judge_appends(
    streams text[], earliers integer[], expects bigint[], keys text[], twins integer[], contents bytea[], amounts integer[],
    OUT head bigint, OUT previous bytea, OUT moment timestamptz, OUT partition text,
    OUT outcomes text[], OUT firsts bigint[], OUT lasts bigint[], OUT versions bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    afters  bigint[];
    holders integer[];
    known   bytea[];
    finish  bigint;
    current bigint;
    holder  integer;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0));
    SELECT e.position, e.chain, e.at, e.tableoid::regclass INTO head, previous, moment, partition
    FROM events e ORDER BY e.position DESC LIMIT 1;
    IF NOT FOUND THEN
        head := 0;
        previous := decode(repeat('00', 32), 'hex');
    END IF;
    moment := greatest(clock_timestamp(), moment);
    finish := head;
    SELECT array_agg('conflict'::text), array_agg((found.k).digest ORDER BY found.nth), array_agg(found.v ORDER BY found.nth),
           array_agg((found.k).first_position ORDER BY found.nth), array_agg((found.k).last_position ORDER BY found.nth)
    INTO outcomes, known, versions, firsts, lasts
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
        IF known[i] IS NOT NULL THEN
            outcomes[i] := CASE WHEN known[i] = contents[i] THEN 'repeated' ELSE 'key_reused' END;
        ELSIF holder > 0 THEN
            outcomes[i] := CASE WHEN contents[holder] = contents[i] THEN 'repeated' ELSE 'key_reused' END;
            firsts[i] := firsts[holder];
            lasts[i] := lasts[holder];
        ELSIF expects[i] IS NULL OR expects[i] = current THEN
            outcomes[i] := 'committed';
            firsts[i] := finish + 1;
            lasts[i] := finish + amounts[i];
            finish := lasts[i];
            current := current + amounts[i];
            holder := i;
        END IF;
        holders[i] := holder;
        afters[i] := current;
    END LOOP;
    IF finish > head THEN
        PERFORM set_config('flywheel.last_key', (SELECT k FROM unnest(keys, lasts) AS r (k, l) WHERE l = finish LIMIT 1), true);
        INSERT INTO append_keys
        SELECT r.key, r.content, r.first, r.last FROM unnest(keys, contents, firsts, lasts, outcomes) AS r (key, content, first, last, outcome)
        WHERE r.outcome = 'committed';
        PERFORM pg_notify(current_schema() || '/events', finish::text);
    END IF;
    IF finish / 1000000 > head / 1000000 THEN
        PERFORM reserve_partitions(finish + 6000000);
    END IF;
END $$;

CREATE FUNCTION append_events(
    streams text[], earliers integer[], expects bigint[], keys text[], twins integer[], contents bytea[], amounts integer[],
    actors text[], causes bigint[],
    owners integer[], ordinals integer[], types text[], schema_versions integer[], payloads text[], digests bytea[])
RETURNS TABLE (outcome text, first_position bigint, last_position bigint, stream_version bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    j record;
BEGIN
    j := judge_appends(streams, earliers, expects, keys, twins, contents, amounts);
    IF 'committed' = ANY (j.outcomes) THEN
        INSERT INTO events
        SELECT j.firsts[e.owner] + e.nth, streams[e.owner], j.versions[e.owner] + e.nth + 1, j.moment, actors[e.owner],
            causes[e.owner], e.type, e.schema_version, e.payload::jsonb, e.digest,
            chain_over(j.previous, j.firsts[e.owner] + e.nth, streams[e.owner], j.versions[e.owner] + e.nth + 1, j.moment, e.digest)
                OVER (ORDER BY e.place)
        FROM unnest(owners, ordinals, types, schema_versions, payloads, digests)
            WITH ORDINALITY AS e (owner, nth, type, schema_version, payload, digest, place)
        WHERE j.outcomes[e.owner] = 'committed';
    END IF;
    RETURN QUERY SELECT o, f, l, v FROM unnest(j.outcomes, j.firsts, j.lasts, j.versions) AS r (o, f, l, v);
END $$;
"""

KEYED = """
-- Keys are kept before the events of COPY are there: at the commit the last of them must have its event.
CREATE FUNCTION keys_have_events() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM events WHERE position = NEW.last_position) THEN
        RAISE EXCEPTION 'the append key % names position %, which no event took', NEW.key, NEW.last_position
            USING ERRCODE = 'integrity_constraint_violation', HINT = 'append through append_events()';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER keys_have_events AFTER INSERT ON append_keys DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.key = current_setting('flywheel.last_key', true)) EXECUTE FUNCTION keys_have_events();
ALTER TABLE append_keys ENABLE ALWAYS TRIGGER keys_have_events;
"""

PRIVILEGES = """
REVOKE ALL ON FUNCTION guard_insert() FROM PUBLIC;
REVOKE ALL ON FUNCTION refuse_change() FROM PUBLIC;
REVOKE ALL ON FUNCTION keys_have_events() FROM PUBLIC;
REVOKE ALL ON FUNCTION judge_appends(text[], integer[], bigint[], text[], integer[], bytea[], integer[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION append_events(text[], integer[], bigint[], text[], integer[], bytea[], integer[], text[], bigint[], integer[], integer[], text[], integer[], text[], bytea[]) FROM PUBLIC;
"""


def upgrade() -> None:
    for part in (SPARE, LINK, GUARD, ORDER, APPEND, KEYED, PRIVILEGES):
        op.execute(part)
