-- Blobs by binary address: encoded, dated, and erasable by subject down to a tombstone.

-- body: null once erased. encoding: 0 raw, 1 zstd. subject: the subject's tag. size: of the plain bytes.
CREATE TABLE blobs (
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    size       bigint      NOT NULL CHECK (size >= 0),
    encoding   smallint    NOT NULL CHECK (encoding IN (0, 1)),
    address    bytea       NOT NULL PRIMARY KEY CHECK (octet_length(address) = 32),
    subject    bytea       CHECK (octet_length(subject) = 32),
    media_type text        NOT NULL,
    body       bytea,
    CHECK (body IS NOT NULL OR subject IS NOT NULL)
);
ALTER TABLE blobs ALTER body SET STORAGE EXTERNAL;
CREATE INDEX blobs_of_subject ON blobs (subject) WHERE subject IS NOT NULL;

CREATE FUNCTION erase_blobs(tag bytea) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT address FROM blobs WHERE subject = tag ORDER BY address FOR UPDATE;
    UPDATE blobs SET body = NULL WHERE subject = tag AND body IS NOT NULL;
    SELECT count(*) FROM blobs WHERE subject = tag;
$$;
REVOKE ALL ON FUNCTION erase_blobs(bytea) FROM PUBLIC;
