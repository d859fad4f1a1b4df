#!/bin/sh
# Runs once, in an empty database: a user for Grafana that may read the views and nothing else.
# The role monitor_reader is given its rights by 'monitor db upgrade'.
set -eu
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set=password="$(cat /run/secrets/grafana-database-password)" <<'SQL'
CREATE ROLE monitor_reader NOLOGIN;
CREATE ROLE grafana LOGIN PASSWORD :'password' IN ROLE monitor_reader;
SQL
