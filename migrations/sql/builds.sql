-- Tables of folds as builds: one is live for each projection and version, another may be made beside it.

CREATE TABLE builds (
    build        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    projection   text    NOT NULL,
    version      integer NOT NULL,
    position     bigint  NOT NULL DEFAULT 0,
    is_live      boolean NOT NULL DEFAULT false,
    parked_at    bigint,
    parked_error text
);

CREATE UNIQUE INDEX one_live_build ON builds (projection, version) WHERE is_live;

CREATE TABLE fold_rows (
    build bigint NOT NULL,
    key   text   NOT NULL,
    since bigint NOT NULL,
    began bigint NOT NULL,
    state json,
    PRIMARY KEY (build, key, since) INCLUDE (began)
);

COMMENT ON COLUMN fold_rows.began IS 'of a fold keyed by stream, which keeps the latest state only: since when there is one';
COMMENT ON COLUMN fold_rows.state IS 'NULL: nothing, from here on';
