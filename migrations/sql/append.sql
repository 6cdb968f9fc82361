-- Appending: one lock, one rule of what becomes of a request, and two ways in, for many requests and for one.
-- A migration that changes this file executes it again, so each statement replaces what stands.

CREATE OR REPLACE FUNCTION judged(kept bytea, content bytea, expect bigint, version bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN kept = content THEN 'repeated' WHEN kept IS NOT NULL THEN 'key_reused'
        WHEN expect IS NULL OR expect = version THEN 'committed' ELSE 'conflict' END
$$;

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
    anchor   bytea;
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
        -- of the last key that is there: a key that was taken away leaves a gap, and cannot be put back under another name
        anchor := coalesce((SELECT k.chain FROM append_keys k WHERE k.last_position <= head ORDER BY k.last_position DESC LIMIT 1),
            decode(repeat('00', 32), 'hex'));
        INSERT INTO append_keys
        SELECT r.key, r.content, r.first, r.last, key_chain_over(anchor, r.key, r.content, r.first, r.last) OVER (ORDER BY r.first)
        FROM unnest(keys, contents, firsts, lasts, outcomes) AS r (key, content, first, last, outcome)
        WHERE r.outcome = 'committed';
        IF pg_notify(current_schema() || '/events', finish::text) IS NULL THEN
        END IF;
    END IF;
    IF finish / 1000000 > head / 1000000 THEN
        PERFORM reserve_partitions(finish + 6000000);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION append_events(
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

-- What append_events() does, for one request, in fewer statements. version: the stream's before it.
-- The events go in before their key, in one call: no key can be kept for events that never come.
CREATE OR REPLACE FUNCTION append_request(
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
    INSERT INTO append_keys VALUES (key, content, first, last, key_link(
        coalesce((SELECT k.chain FROM append_keys k WHERE k.last_position <= head ORDER BY k.last_position DESC LIMIT 1),
            decode(repeat('00', 32), 'hex')), key, content, first, last));
    IF pg_notify(current_schema() || '/events', last::text) IS NULL THEN
    END IF;
    IF last / 1000000 > head / 1000000 THEN
        PERFORM reserve_partitions(last + 6000000);
    END IF;
END $$;

-- Keys are kept before the events of COPY are there: at the commit the last of them must have its event.
CREATE OR REPLACE FUNCTION keys_have_events() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM events WHERE position = NEW.last_position) THEN
        RAISE EXCEPTION 'the append key % names position %, which no event took', NEW.key, NEW.last_position
            USING ERRCODE = 'integrity_constraint_violation', HINT = 'append through append_events()';
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS keys_have_events ON append_keys;
CREATE CONSTRAINT TRIGGER keys_have_events AFTER INSERT ON append_keys DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.key = current_setting('flywheel.last_key', true)) EXECUTE FUNCTION keys_have_events();
ALTER TABLE append_keys ENABLE ALWAYS TRIGGER keys_have_events;

REVOKE ALL ON FUNCTION keys_have_events() FROM PUBLIC;
REVOKE ALL ON FUNCTION judge_appends(text[], integer[], bigint[], text[], integer[], bytea[], integer[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION append_events(text[], integer[], bigint[], text[], integer[], bytea[], integer[], text[], bigint[], integer[], integer[], text[], integer[], text[], bytea[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION append_request(text, bigint, text, bytea, text, bigint, text[], integer[], text[], bytea[]) FROM PUBLIC;
