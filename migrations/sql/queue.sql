-- Beside the job queue's own tables: jobs that were parked, and profiles of state keys.

CREATE TABLE parked_jobs (
    job   bigint      PRIMARY KEY REFERENCES procrastinate_jobs (id) ON DELETE CASCADE,
    error text        NOT NULL,
    at    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE profiles (
    name   text        PRIMARY KEY,
    ticket bigint      NOT NULL,
    body   bytea,
    at     timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE parked_jobs IS 'jobs that are not tried again by themselves, and the error of their last try';
COMMENT ON COLUMN profiles.ticket IS 'only the newest one handed out may hand the profile in';
COMMENT ON COLUMN profiles.body IS 'cookies and last address as JSON; NULL: never handed in';
