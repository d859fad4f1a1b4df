#!/bin/sh
# Makes a random secret where there is none yet. The containers run as users of their own and must
# be able to read the files, so it is the folder that keeps others out.
set -eu
folder="$(dirname "$0")/secrets"
mkdir -p "$folder"
chmod 700 "$folder"
for name in postgres-password monitor-token grafana-database-password grafana-admin-password; do
    [ -s "$folder/$name" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' > "$folder/$name"
done
printf 'postgresql://monitor:%s@postgres:5432/monitor' "$(cat "$folder/postgres-password")" \
    > "$folder/database-url"
chmod 644 "$folder"/*
echo "secrets are in $folder; Grafana's admin password is in grafana-admin-password"
