-- The chain over append keys: a key's name and content digest cannot change without breaking it.
-- Keys that were stored before this column have none until migration 0011 links them up.

ALTER TABLE append_keys ADD COLUMN IF NOT EXISTS chain bytea CHECK (octet_length(chain) = 32);

CREATE INDEX IF NOT EXISTS keys_by_position ON append_keys (last_position);

CREATE OR REPLACE FUNCTION key_link(previous bytea, key text, digest bytea, first bigint, last bigint)
RETURNS bytea LANGUAGE sql STABLE AS $$ -- STABLE as chain_link is
    SELECT sha256(previous || int8send(first) || int8send(last) || int4send(octet_length(key)) || convert_to(key, 'UTF8') || digest)
$$;

CREATE OR REPLACE FUNCTION key_chain_next(state bytea, previous bytea, key text, digest bytea, first bigint, last bigint)
RETURNS bytea LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN key_link(coalesce(state, previous), key, digest, first, last);
END $$;

CREATE OR REPLACE AGGREGATE key_chain_over (previous bytea, key text, digest bytea, first bigint, last bigint) (
    SFUNC = key_chain_next, STYPE = bytea
);
