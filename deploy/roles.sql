-- Three roles and one project's schema, for a PostgreSQL that is not the embedded one.
--
--   psql -d DATABASE -f deploy/roles.sql                                    the project `default`
--   psql -d DATABASE -v project=boats -v app=boats_app -f deploy/roles.sql  another one, with another role
--
-- Run it as a superuser, once for each project, before `flywheel db migrate`; running it again repairs what differs.
-- It sets no passwords: do that with \password, so that none is in a file or in the server's log.
--
--   owner    owns the schema and runs migrations (FLYWHEEL_OWNER_URL); nothing else connects as it
--   app      reads, appends and folds (FLYWHEEL_DATABASE_URL); `flywheel db migrate` grants it exactly what it needs
--   reader   reads every table of the schema, for audits and reports; it can run `flywheel log verify`

\set ON_ERROR_STOP on
\if :{?project} \else \set project default \endif
\if :{?owner}   \else \set owner flywheel_owner \endif
\if :{?app}     \else \set app flywheel \endif
\if :{?reader}  \else \set reader flywheel_reader \endif
\set schema flywheel_ :project
SELECT current_database() AS database \gset

BEGIN;

SELECT format('CREATE ROLE %I', name)
FROM (VALUES (:'owner'), (:'app'), (:'reader')) AS wanted (name)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name)
\gexec

ALTER ROLE :"owner"  LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE :"app"    LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE :"reader" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE :"reader" IN DATABASE :"database" SET default_transaction_read_only = on;

-- Nobody else connects, and nobody makes temporary tables.
REVOKE ALL ON DATABASE :"database" FROM PUBLIC;
GRANT CONNECT, CREATE ON DATABASE :"database" TO :"owner";
REVOKE ALL ON DATABASE :"database" FROM :"app", :"reader";
GRANT CONNECT ON DATABASE :"database" TO :"app", :"reader";
REVOKE CREATE ON SCHEMA public FROM PUBLIC;

-- Nobody stores large objects: they belong to no schema, no project counts them, and no backup of a schema has them.
REVOKE ALL ON FUNCTION lo_create(oid), lo_creat(integer), lo_from_bytea(oid, bytea) FROM PUBLIC;
REVOKE ALL ON FUNCTION lo_import(text), lo_import(text, oid) FROM PUBLIC;

CREATE SCHEMA IF NOT EXISTS :"schema" AUTHORIZATION :"owner";
ALTER SCHEMA :"schema" OWNER TO :"owner";
REVOKE ALL ON SCHEMA :"schema" FROM PUBLIC;

-- The reader: every table that is there, and every one that a later migration makes.
REVOKE ALL ON ALL TABLES IN SCHEMA :"schema" FROM :"reader";
GRANT USAGE ON SCHEMA :"schema" TO :"reader";
GRANT SELECT ON ALL TABLES IN SCHEMA :"schema" TO :"reader";
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA :"schema" GRANT SELECT ON TABLES TO :"reader";

COMMIT;
