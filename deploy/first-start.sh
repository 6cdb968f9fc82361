#!/bin/sh
# Run once by the image of PostgreSQL, when its volume is empty: the roles of roles.sql, and their passwords.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username postgres --dbname flywheel --file /flywheel/roles.sql
psql --no-psqlrc --set ON_ERROR_STOP=1 --username postgres --dbname flywheel \
    --set owner="$FLYWHEEL_DB_OWNER_PASSWORD" --set app="$FLYWHEEL_DB_APP_PASSWORD" <<'SQL'
ALTER ROLE flywheel_owner PASSWORD :'owner';
ALTER ROLE flywheel PASSWORD :'app';
SQL
