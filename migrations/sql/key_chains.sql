-- Every append key has a chain value, and one chain links all of them up, so that a key without one is damage.
-- Keys from before the chain had none, and the first append after those linked up to the chain of the event before it. Here all
-- are linked up anew from the first key on. A chain that does not fit its keys stays as it is, so that verification finds it.

CREATE FUNCTION key_chain_fits() RETURNS boolean LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce(bool_and(CASE
        WHEN k.is_first THEN coalesce(k.chain = key_link(CASE WHEN k.first_position = 1 THEN decode(repeat('00', 32), 'hex')
            ELSE (SELECT e.chain FROM events e WHERE e.position = k.first_position - 1) END,
            k.key, k.digest, k.first_position, k.last_position), true) -- that event may be in the archive
        ELSE coalesce(k.chain = key_link(k.before, k.key, k.digest, k.first_position, k.last_position), false) END), true)
    FROM (SELECT a.*, lag(a.chain) OVER (ORDER BY a.first_position) AS before,
              a.first_position = min(a.first_position) OVER () AS is_first
          FROM append_keys a WHERE a.first_position >= (SELECT min(c.first_position) FROM append_keys c WHERE c.chain IS NOT NULL)) k
$$;

ALTER TABLE append_keys DISABLE TRIGGER refuse_change;
WITH found AS MATERIALIZED (SELECT key_chain_fits() AS fits)
UPDATE append_keys k SET chain = linked.chain
FROM found, (SELECT key, key_chain_over(decode(repeat('00', 32), 'hex'), key, digest, first_position, last_position)
          OVER (ORDER BY first_position) AS chain
      FROM append_keys) linked
WHERE k.key = linked.key AND k.chain IS DISTINCT FROM linked.chain AND (k.chain IS NULL OR found.fits);
ALTER TABLE append_keys ENABLE ALWAYS TRIGGER refuse_change;
ALTER TABLE append_keys ALTER COLUMN chain SET NOT NULL;
DROP FUNCTION key_chain_fits();
