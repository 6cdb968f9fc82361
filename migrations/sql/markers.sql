-- Withdrawals and disownings that were dropped from the table of events: every reader needs them, also one without the archive.
-- Those dropped before this table was made are in the archive alone: a row of the type `before` says up to which position.
-- May be repeated, as growth.sql.

DO $$ BEGIN
    IF to_regclass('dropped_markers') IS NULL THEN
        CREATE TABLE dropped_markers (
            position bigint NOT NULL PRIMARY KEY CHECK (position > 0),
            type     text   NOT NULL,
            named    jsonb  NOT NULL
        );
        PERFORM make_append_only('dropped_markers');
        INSERT INTO dropped_markers SELECT max(d.upto), 'before', '[]' FROM dropped d HAVING max(d.upto) > 0;
    END IF;
END $$;
