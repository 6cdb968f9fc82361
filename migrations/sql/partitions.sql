-- Partitions of the table of events: which there are, and how the next ones are reserved.

CREATE FUNCTION partitions() RETURNS TABLE (name text, low bigint, high bigint) LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT c.relname::text, bounds[1]::bigint, bounds[2]::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid,
         regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''?(\d+)''?\) TO \(''?(\d+)''?\)') bounds
    WHERE i.inhparent = 'events'::regclass ORDER BY 2
$$;

CREATE FUNCTION guard_partition(name text) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    appender oid;
BEGIN
    FOR appender IN SELECT a.grantee FROM pg_class c, aclexplode(c.relacl) a
                    WHERE c.oid = 'events'::regclass AND a.privilege_type = 'INSERT' AND a.grantee NOT IN (0, c.relowner) LOOP
        EXECUTE format('GRANT INSERT ON %I TO %I', name, pg_get_userbyid(appender));
    END LOOP;
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER refuse_change', name);
    EXECUTE format('CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER refuse_truncate', name);
    EXECUTE format('CREATE TRIGGER guard_insert AFTER INSERT ON %I REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION guard_insert()', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER guard_insert', name);
END $$;

CREATE FUNCTION reserve_partitions(upto bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    size    CONSTANT bigint := 5000000;
    made    integer := 0;
    start   bigint;
    name    text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '/partitions', 0));
    -- what was dropped stays dropped: the first partition is the one that holds the first position still here
    SELECT coalesce(max(d.upto), 0) / size * size + 1 INTO start FROM dropped d;
    WHILE start <= upto LOOP
        name := 'events_' || start;
        IF NOT EXISTS (SELECT FROM partitions() p WHERE p.low < start + size AND p.high > start) THEN
            -- attached rather than made in place, because that waits for no reader
            EXECUTE format('CREATE TABLE %I (LIKE events INCLUDING ALL, CONSTRAINT rest CHECK (position >= %s AND position < %s))', name, start, start + size);
            EXECUTE format('ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, start, start + size);
            EXECUTE format('ALTER TABLE %I DROP CONSTRAINT rest', name);
            PERFORM guard_partition(name);
            made := made + 1;
        END IF;
        start := start + size;
    END LOOP;
    RETURN made;
END $$;

REVOKE ALL ON FUNCTION guard_partition(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION reserve_partitions(bigint) FROM PUBLIC;
