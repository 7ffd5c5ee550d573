#!/bin/sh
# PostgreSQL under durio prove exec: does a commit that was acknowledged survive a power cut?
#
#   durio prove exec --disk write-back --setup 'contrib/prove/postgresql.sh setup' \
#     --check 'contrib/prove/postgresql.sh check' -- contrib/prove/postgresql.sh load
#
# setup [FSYNC]     makes a cluster with fsync=FSYNC (on or off; default: on), data checksums on
# load              commits rows
# check             recovery, and every acknowledged row
#
# What PostgreSQL promises (https://www.postgresql.org/docs/15/runtime-config-wal.html#GUC-FSYNC): with fsync on
# a commit is durable across a power loss; with fsync off the data may even be corrupt beyond recovery.
#
# PROGRAMS=/path/to/bin names other programs than the newest of /usr/lib/postgresql.
set -eu

data=$DURIO_DATA/cluster
step=${1:-}
programs=${PROGRAMS:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)}

# An exit code of 1 is a verdict; a missing program is none.
[ -x "$programs/postgres" ] || { echo "there is no PostgreSQL in '$programs'" >&2; exit 3; }
id postgres >/dev/null || exit 3

# PostgreSQL does not run as root.
as_postgres() {
    setpriv --reuid=postgres --regid=postgres --clear-groups env HOME=/tmp "$@"
}

start() {
    # No server lives after a power cut, but another process may have its number.
    rm -f "$data/postmaster.pid"
    as_postgres "$programs/pg_ctl" -D "$data" -w -t 900 -l /tmp/log start >/dev/null
}

stop() {
    as_postgres "$programs/pg_ctl" -D "$data" -w -t 900 -m fast stop >/dev/null
}

sql() {
    as_postgres "$programs/psql" -h /tmp -d postgres -XqAt -v ON_ERROR_STOP=1 "$@"
}

setup() {
    install -d -o postgres "$data"
    as_postgres "$programs/initdb" -D "$data" -A trust -k --no-sync --wal-segsize=4 >/dev/null
    cat >>"$data/postgresql.conf" <<END
fsync = ${1:-on}
listen_addresses = ''
unix_socket_directories = '/tmp'
shared_buffers = 16MB
max_connections = 10
END
    start
    sql -c 'CREATE TABLE entry (number integer PRIMARY KEY)'
    stop
}

# One session. psql flushes its output before it reads the next line.
load() {
    start
    number=0
    while :; do
        number=$((number + 1))
        # echo of some shells changes backslashes.
        printf 'INSERT INTO entry VALUES (%d);\n\\echo committed %d\n' $number $number
    done | sql
}

# Whatever a cluster cannot answer after a cut is a loss.
ask() {
    sql -c "$1" || { echo "the database does not answer: $1" >&2; exit 1; }
}

check() {
    start || { echo "recovery failed:"; tail -n 20 /tmp/log; exit 1; }
    # Without it nothing can be decided.
    line=$(tail -n 1 "$DURIO_ACKNOWLEDGED") || exit 3
    acknowledged=${line#committed }
    [ "$acknowledged" -gt 0 ] || exit 3
    kept=$(ask "SELECT count(*) FROM entry WHERE number <= $acknowledged")
    [ "$kept" = "$acknowledged" ] || {
        last=$(ask "SELECT coalesce(max(number), 0) FROM entry")
        echo "of $acknowledged acknowledged commits $kept are there; the last has number $last"
        exit 1
    }
    exit 0
}

case $step in
setup | load | check) "$@" ;;
*) echo "usage: $0 setup [on|off] | load | check" >&2; exit 3 ;;
esac
