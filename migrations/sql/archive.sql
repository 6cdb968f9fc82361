-- Archived segments, and how the positions they hold leave the table: whole partitions, under the append lock.

CREATE TABLE segments (
    first    bigint      NOT NULL PRIMARY KEY CHECK (first > 0),
    last     bigint      NOT NULL UNIQUE,
    events   bigint      NOT NULL,
    previous bytea       NOT NULL CHECK (octet_length(previous) = 32),
    chain    bytea       NOT NULL CHECK (octet_length(chain) = 32),
    root     bytea       NOT NULL CHECK (octet_length(root) = 32),
    at       timestamptz NOT NULL,
    manifest jsonb       NOT NULL,
    CHECK (last >= first AND events = last - first + 1)
);

CREATE TABLE dropped (
    upto bigint      NOT NULL PRIMARY KEY CHECK (upto > 0),
    at   timestamptz NOT NULL
);

CREATE FUNCTION guard_segment() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    ended bigint;
    link  bytea;
BEGIN
    SELECT s.last, s.chain INTO ended, link FROM segments s ORDER BY s.last DESC LIMIT 1;
    IF NEW.first <> coalesce(ended, 0) + 1 OR NEW.previous <> coalesce(link, decode(repeat('00', 32), 'hex')) THEN
        RAISE EXCEPTION 'the segment % to % does not follow the last one, which ends at %', NEW.first, NEW.last, coalesce(ended, 0)
            USING ERRCODE = 'integrity_constraint_violation', HINT = 'archive with `flywheel log archive`';
    END IF;
    IF NOT EXISTS (SELECT FROM events e WHERE e.position = NEW.last AND e.chain = NEW.chain AND e.at = NEW.at) THEN
        RAISE EXCEPTION 'the segment % to % does not end as the log does', NEW.first, NEW.last
            USING ERRCODE = 'integrity_constraint_violation', HINT = 'archive with `flywheel log archive`';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER guard_segment BEFORE INSERT ON segments FOR EACH ROW EXECUTE FUNCTION guard_segment();
ALTER TABLE segments ENABLE ALWAYS TRIGGER guard_segment;

SELECT make_append_only('segments');
SELECT make_append_only('dropped');

CREATE FUNCTION refuse_drop(why text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', why USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'drop with `flywheel log archive --drop`';
END $$;

CREATE FUNCTION check_drop(upto bigint) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    head    bigint;
    live    bigint;
    wrong   bigint;
    expects bigint := 1;
    link    bytea := decode(repeat('00', 32), 'hex');
    amount  bigint;
    segment segments;
BEGIN
    SELECT max(e.position), min(e.position) INTO head, live FROM events e;
    IF upto >= coalesce(head, 0) THEN
        PERFORM refuse_drop(format('position %s is not before the newest event, %s, which stays in the table', upto, coalesce(head, 0)));
    END IF;
    FOR segment IN SELECT * FROM segments s WHERE s.first <= upto ORDER BY s.first LOOP
        IF segment.first <> expects OR segment.previous <> link THEN
            PERFORM refuse_drop(format('the segments leave a gap or a break at position %s', expects));
        END IF;
        IF segment.last >= live THEN
            SELECT count(*) INTO amount FROM events e WHERE e.position BETWEEN segment.first AND segment.last;
            IF amount <> segment.events THEN
                PERFORM refuse_drop(format('the table holds %s events from %s to %s, the segment %s', amount, segment.first, segment.last, segment.events));
            END IF;
            IF NOT EXISTS (SELECT FROM events e WHERE e.position = segment.last AND e.chain = segment.chain) THEN
                PERFORM refuse_drop(format('the chain in the table at %s is not that of the segment', segment.last));
            END IF;
        END IF;
        expects := segment.last + 1;
        link := segment.chain;
    END LOOP;
    IF expects <> upto + 1 THEN
        PERFORM refuse_drop(format('the segments end at position %s, not at %s', expects - 1, upto));
    END IF;
END $$;

CREATE FUNCTION split_partition(name text, high bigint, upto bigint) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    grant_ record;
    index_ text;
BEGIN
    EXECUTE format('CREATE TABLE events_rest (LIKE %I INCLUDING ALL, CONSTRAINT rest CHECK (position >= %s AND position < %s))', name, upto + 1, high);
    EXECUTE format('INSERT INTO events_rest SELECT * FROM %I WHERE position > %s ORDER BY position', name, upto);
    FOR grant_ IN SELECT a.privilege_type, a.grantee FROM pg_class c, aclexplode(c.relacl) a
                  WHERE c.oid = to_regclass(quote_ident(name)) AND a.grantee <> c.relowner LOOP
        EXECUTE format('GRANT %s ON events_rest TO %s', grant_.privilege_type,
                       CASE WHEN grant_.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grant_.grantee)) END);
    END LOOP;
    -- up to here others read on; from here on it is a matter of the catalogue alone
    LOCK TABLE events IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('ALTER TABLE events DETACH PARTITION %I', name);
    EXECUTE format('DROP TABLE %I', name);
    EXECUTE format('ALTER TABLE events_rest RENAME TO %I', name);
    FOR index_ IN SELECT i.indexname FROM pg_indexes i
                  WHERE i.schemaname = current_schema() AND i.tablename = name AND starts_with(i.indexname, 'events_rest_') LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', index_, name || substr(index_, length('events_rest') + 1));
    END LOOP;
    EXECUTE format('ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, upto + 1, high);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT rest', name);
    PERFORM guard_partition(name);
    EXECUTE format('ANALYZE %I', name);
END $$;

CREATE FUNCTION drop_archived(upto bigint) RETURNS bigint LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    before bigint;
    part   record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0));
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '/partitions', 0));
    SELECT coalesce(max(d.upto), 0) INTO before FROM dropped d;
    IF upto <= before THEN
        RETURN 0;
    END IF;
    PERFORM check_drop(upto);
    FOR part IN SELECT * FROM partitions() p WHERE p.low <= upto AND p.high > upto + 1 LOOP
        PERFORM split_partition(part.name, part.high, upto);
    END LOOP;
    LOCK TABLE events IN ACCESS EXCLUSIVE MODE;
    FOR part IN SELECT * FROM partitions() p WHERE p.high <= upto + 1 LOOP
        EXECUTE format('ALTER TABLE events DETACH PARTITION %I', part.name);
        EXECUTE format('DROP TABLE %I', part.name);
    END LOOP;
    INSERT INTO dropped VALUES (upto, clock_timestamp());
    RETURN upto - before;
END $$;

REVOKE ALL ON FUNCTION refuse_drop(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION check_drop(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION split_partition(text, bigint, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION drop_archived(bigint) FROM PUBLIC;
