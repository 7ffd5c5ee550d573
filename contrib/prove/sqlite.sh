#!/bin/sh
# SQLite in WAL mode under durio prove exec: does a commit that was acknowledged survive a power cut?
#
#   durio prove exec --disk write-back --setup 'contrib/prove/sqlite.sh setup' \
#     --check 'contrib/prove/sqlite.sh check' -- contrib/prove/sqlite.sh load
#
# setup             makes a database
# load [MODE]       commits rows with synchronous=MODE (FULL, NORMAL or OFF; default: FULL)
# check [MODE]      integrity, no gap between the rows, and with FULL every acknowledged one
#
# What SQLite promises (https://www.sqlite.org/pragma.html#pragma_synchronous): in WAL mode FULL is durable
# across a power loss; NORMAL may lose the latest commits, and stays consistent.
set -eu

database=$DURIO_DATA/test.sqlite
step=${1:-}
mode=${2:-FULL}

# An exit code of 1 is a verdict; a missing program is none.
command -v sqlite3 >/dev/null || { echo "sqlite3 is not installed" >&2; exit 3; }

setup() {
    sqlite3 -batch -bail "$database" "PRAGMA journal_mode = WAL;
        CREATE TABLE entry (number INTEGER PRIMARY KEY, content BLOB NOT NULL);"
}

# One session. Each INSERT is a transaction of its own; the SELECT behind it runs when that has committed, and
# sqlite3 flushes its output before it reads the next line.
load() {
    {
        # What settings print is no acknowledgement.
        echo ".output /dev/null"
        # Small, so that checkpoints come between the cuts too.
        echo "PRAGMA synchronous = $mode; PRAGMA wal_autocheckpoint = 100;"
        echo ".output stdout"
        number=0
        while :; do
            number=$((number + 1))
            echo "INSERT INTO entry VALUES ($number, randomblob(500)); SELECT 'committed $number';"
        done
    } | sqlite3 -batch -bail "$database"
}

# Asks the database; whatever it cannot answer after a cut is a loss.
ask() {
    sqlite3 -batch -bail "$database" "$1" || { echo "the database does not answer: $1" >&2; exit 1; }
}

check() {
    integrity=$(ask "PRAGMA integrity_check")
    [ "$integrity" = ok ] || { echo "corrupt: $integrity"; exit 1; }
    rows=$(ask "SELECT count(*) FROM entry")
    last=$(ask "SELECT coalesce(max(number), 0) FROM entry")
    [ "$rows" = "$last" ] || { echo "corrupt: $rows rows, and the last has number $last"; exit 1; }
    # Without it nothing can be decided.
    line=$(tail -n 1 "$DURIO_ACKNOWLEDGED") || exit 3
    acknowledged=${line#committed }
    [ "$acknowledged" -gt 0 ] || exit 3
    if [ "$last" -lt "$acknowledged" ]; then
        echo "commits up to $acknowledged were acknowledged; the database ends with $last"
        [ "$mode" != FULL ] || exit 1
    fi
    exit 0
}

case $step in
setup | load | check) $step ;;
*) echo "usage: $0 setup|load|check [FULL|NORMAL|OFF]" >&2; exit 3 ;;
esac
