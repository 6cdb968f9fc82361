-- Every append key has a chain value, so that a key without one is damage. Keys from before the chain get theirs here, from
-- the first key on. A chain that appends began after such keys stays as it is: its first key links up to the event before it.

ALTER TABLE append_keys DISABLE TRIGGER refuse_change;
UPDATE append_keys k SET chain = linked.chain
FROM (SELECT key, key_chain_over(decode(repeat('00', 32), 'hex'), key, digest, first_position, last_position)
          OVER (ORDER BY first_position) AS chain
      FROM append_keys WHERE chain IS NULL) linked
WHERE k.key = linked.key;
ALTER TABLE append_keys ENABLE ALWAYS TRIGGER refuse_change;
ALTER TABLE append_keys ALTER COLUMN chain SET NOT NULL;
