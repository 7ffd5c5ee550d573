//! The databases that are traced and compared with predictions: how to make, serve and load each,
//! and which of its files are the log.
//!
//! A load prints lines of a name and a number, which `said` reads: `commits`, the number
//! acknowledged; `seconds`, their duration; and if its benchmark reports them `p50_us`, `p99_us`
//! and `per_sync`, commits that shared a sync.
//!
//! Each command is for a shell that stops at the first error, with `$DIR` (a private folder), `$AS`
//! (a prefix that runs a command as a plain user), `$PORT` and `$PEER_PORT` (free ports of the
//! loopback), `$CLIENTS` and `$EACH` (transactions of each client); loads have `$WARM`, which is
//! empty where they are traced. A transaction has a value of 100 bytes.

/// A database and its commands.
#[derive(Debug)]
pub(crate) struct Database {
    /// The profile's name.
    pub(crate) name: &'static str,
    /// The programs to run, each with Debian's package.
    pub(super) programs: &'static [(&'static str, &'static str)],
    /// The user that runs it if the caller is root: it refuses root, or should not need it.
    pub(super) user: Option<&'static str>,
    /// Prints its version.
    pub(super) version: &'static str,
    /// One transaction, and the settings that differ from the package's.
    pub(crate) transaction: &'static str,
    /// Makes it.
    pub(super) setup: &'static str,
    /// Serves it until SIGTERM; none for one that lives in its clients.
    pub(super) serve: Option<Serve>,
    /// Commits with `$CLIENTS` at once, `$EACH` transactions of each.
    pub(super) load: &'static str,
    /// Prints the database's count of syncs of its log, or a counter that grows by one with each;
    /// `None` if only the load can report it.
    pub(super) syncs: Option<&'static str>,
    /// Only one client commits at a time, and the others poll for their turn: only one client is
    /// compared with a prediction.
    pub(crate) is_for_one: bool,
    /// True for a file of its log, by its path.
    pub(super) is_log: fn(&str) -> bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Serve {
    pub(super) start: &'static str,
    /// Succeeds when it takes transactions.
    pub(super) ready: &'static str,
}

pub(crate) const DATABASES: [Database; 7] = [
    Database {
        name: "postgresql",
        programs: &[("postgres", "postgresql-15"), ("pgbench", "postgresql-15")],
        user: Some("postgres"),
        version: "postgres --version",
        transaction: "INSERT of an integer and a text of 100 bytes, no index, autocommit; pgbench",
        setup: r#"
            $AS initdb -D "$DIR/cluster" -A trust -U postgres --no-sync
            echo "INSERT INTO entry VALUES (1, repeat('x', 100))" >"$DIR/insert.sql""#,
        serve: Some(Serve {
            start: r#"exec $AS postgres -D "$DIR/cluster" -k "$DIR" -c listen_addresses="#,
            ready: r#"psql -h "$DIR" -U postgres -Xq -c 'CREATE TABLE entry (number int, content text)'"#,
        }),
        load: r#"
            pgbench -h "$DIR" -U postgres -n -f "$DIR/insert.sql" -c "$CLIENTS" -t "$EACH" \
                -l --log-prefix="$DIR/times" postgres |
                awk '
                    /^number of transactions actually processed:/ { split($6, of, "/"); commits = of[1] }
                    /^tps = / { printf "commits %d\nseconds %f\n", commits, commits / $3 }'
            cut -d ' ' -f 3 "$DIR"/times.* | sort -n | awk "$PERCENTILES"
            rm "$DIR"/times.*"#,
        syncs: Some(r#"psql -h "$DIR" -U postgres -XAtc 'SELECT wal_sync FROM pg_stat_wal'"#),
        is_for_one: false,
        is_log: |path| path.rsplit_once("/pg_wal/").is_some_and(|(_, name)| name.len() == 24),
    },
    Database {
        name: "mariadb",
        programs: &[
            ("mariadbd", "mariadb-server"),
            ("mariadb-install-db", "mariadb-server"),
            ("mysqlslap", "mariadb-client"),
        ],
        user: Some("mysql"),
        version: "mariadbd --version",
        transaction: "INSERT of a counter and 100 bytes into InnoDB, autocommit; mysqlslap; no settings, so no \
                      binary log",
        // A new log is preallocated: until all of it has been written once, a sync has to wait for
        // the filesystem's journal. A copy is written.
        setup: r#"
            $AS mariadb-install-db --no-defaults --datadir="$DIR/data" --skip-test-db \
                --auth-root-authentication-method=normal
            $AS cp --sparse=never --reflink=never "$DIR/data/ib_logfile0" "$DIR/data/copy"
            $AS mv "$DIR/data/copy" "$DIR/data/ib_logfile0""#,
        serve: Some(Serve {
            start: r#"exec $AS mariadbd --no-defaults --datadir="$DIR/data" --socket="$DIR/socket" \
                --skip-networking"#,
            ready: r#"mariadb --no-defaults -uroot -S "$DIR/socket" -e 'CREATE DATABASE test;
                CREATE TABLE test.entry (number bigint AUTO_INCREMENT PRIMARY KEY, content varbinary(100))'"#,
        }),
        load: r#"
            mysqlslap --no-defaults -uroot -S "$DIR/socket" --create-schema=test --no-drop \
                --concurrency="$CLIENTS" --number-of-queries=$((CLIENTS * EACH)) \
                --query="INSERT INTO entry (content) VALUES (repeat('x', 100))" |
                awk '/Average number of seconds to run all queries:/ { print "seconds", $(NF - 1) }'
            echo commits $((CLIENTS * EACH))"#,
        syncs: Some(
            r#"mariadb --no-defaults -uroot -S "$DIR/socket" -NBe "SHOW GLOBAL STATUS LIKE 'Innodb_data_fsyncs'" |
                cut -f 2"#,
        ),
        is_for_one: false,
        is_log: |path| path.contains("/ib_logfile"),
    },
    Database {
        name: "etcd",
        programs: &[("etcd", "etcd-server"), ("curl", "curl")],
        user: None,
        version: "etcd --version | head -n 1",
        transaction: "put of a key of 16 bytes and a value of 100, over HTTP, one member; curl",
        setup: r#"
            value=$(head -c 100 /dev/zero | base64 -w 0)
            printf '{"key":"MTIzNDU2Nzg5MDEyMzQ1Ng==","value":"%s"}' "$value" >"$DIR/put.json""#,
        serve: Some(Serve {
            start: r#"
                client=http://127.0.0.1:$PORT peer=http://127.0.0.1:$PEER_PORT
                exec etcd --data-dir "$DIR/data" --listen-client-urls $client --advertise-client-urls $client \
                    --listen-peer-urls $peer --initial-advertise-peer-urls $peer \
                    --initial-cluster default=$peer"#,
            ready: r#"curl -sSf -d "@$DIR/put.json" "http://127.0.0.1:$PORT/v3/kv/put""#,
        }),
        load: r#"
            begin=$(date +%s%N)
            for client in $(seq "$CLIENTS"); do
                curl -s -o /dev/null -w '%{http_code} %{time_total}\n' -d "@$DIR/put.json" \
                    "http://127.0.0.1:$PORT/v3/kv/put?[1-$EACH]" >"$DIR/answers.$client" &
            done
            wait
            echo seconds $(($(date +%s%N) - begin))e-9
            echo commits $(cat "$DIR"/answers.* | grep -c '^200 ')
            cat "$DIR"/answers.* | awk '{ print 1e6 * $2 }' | sort -n | awk "$PERCENTILES"
            rm "$DIR"/answers.*"#,
        syncs: Some(
            r#"curl -sS "http://127.0.0.1:$PORT/metrics" |
                sed -n 's/^etcd_disk_wal_fsync_duration_seconds_count //p'"#,
        ),
        is_for_one: false,
        is_log: |path| path.contains("/member/wal"),
    },
    Database {
        name: "redis",
        programs: &[("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")],
        user: None,
        version: "redis-server --version | cut -d ' ' -f 1-3",
        transaction: "SET of a key of 16 bytes to 100, appendonly yes, appendfsync always; redis-benchmark",
        setup: ":",
        serve: Some(Serve {
            start: r#"exec redis-server --port 0 --unixsocket "$DIR/socket" --dir "$DIR" --save '' \
                --appendonly yes --appendfsync always"#,
            ready: r#"redis-cli -e -s "$DIR/socket" ping"#,
        }),
        load: r#"
            redis-benchmark -s "$DIR/socket" -t set -d 100 -c "$CLIENTS" -n $((CLIENTS * EACH)) --csv |
                awk -F '[",]+' -v commits=$((CLIENTS * EACH)) '$2 == "SET" {
                    printf "commits %d\nseconds %f\n", commits, commits / $3
                    printf "p50_us %f\np99_us %f\n", 1000 * $6, 1000 * $8 }'"#,
        // All calls that write, minus those that were answers. Each count includes the call that
        // asks for it.
        syncs: Some(
            r#"
            info=$(redis-cli -s "$DIR/socket" info | tr -d '\r')
            of() { echo "$info" | sed -n "s/^$1://p"; }
            calls=$(sed -n 's/^syscw: //p' "/proc/$(of process_id)/io")
            echo $((calls - $(of total_writes_processed)))"#,
        ),
        is_for_one: false,
        is_log: |path| path.ends_with(".aof"),
    },
    Database {
        name: "rocksdb",
        programs: &[("db_bench", "rocksdb-tools")],
        user: None,
        version: "dpkg-query -W -f 'RocksDB ${Version}' rocksdb-tools",
        transaction: "put of a key of 16 bytes and a value of 100, sync=1; db_bench",
        setup: ":",
        serve: None,
        load: r#"
            db_bench --benchmarks=fillrandom,stats --sync=1 --db="$DIR/data.$CLIENTS" --threads="$CLIENTS" \
                --num="$EACH" --key_size=16 --value_size=100 --compression_type=none --histogram |
                awk '
                    /^fillrandom / { for (i = 2; i <= NF; i++) {
                        if ($i == "seconds") print "seconds", $(i - 1)
                        if ($i == "operations;") print "commits", $(i - 1) } }
                    /^Percentiles:/ && !seen++ { print "p50_us", $3; print "p99_us", $7 }
                    /^Cumulative WAL:/ { print "per_sync", $7 }'"#,
        syncs: None,
        is_for_one: false,
        is_log: |path| path.ends_with(".log"),
    },
    Database {
        name: "sqlite-wal",
        programs: &[("sqlite3", "sqlite3")],
        user: None,
        version: "sqlite3 --version | sed 's/^\\([^ ]*\\).*/SQLite \\1/'",
        transaction: "INSERT of a counter and 100 bytes, journal_mode = WAL, synchronous = FULL; sqlite3",
        setup: r#"sqlite3 "$DIR/test.sqlite" 'PRAGMA journal_mode = WAL;
            CREATE TABLE entry (number INTEGER PRIMARY KEY, content BLOB)'"#,
        serve: None,
        load: SQLITE_LOAD,
        syncs: None,
        is_for_one: true,
        is_log: |path| path.ends_with("-wal"),
    },
    Database {
        name: "sqlite-rollback",
        programs: &[("sqlite3", "sqlite3")],
        user: None,
        version: "sqlite3 --version | sed 's/^\\([^ ]*\\).*/SQLite \\1/'",
        transaction: "INSERT of a counter and 100 bytes, journal_mode = DELETE, synchronous = FULL; sqlite3",
        setup: r#"sqlite3 "$DIR/test.sqlite" \
            'CREATE TABLE entry (number INTEGER PRIMARY KEY, content BLOB)'"#,
        serve: None,
        load: SQLITE_LOAD,
        syncs: None,
        is_for_one: true,
        is_log: |path| path.ends_with("-journal"),
    },
];

/// `$PERCENTILES`, for awk: of microseconds in order, one a line.
pub(super) const PERCENTILES: &str = r#"
    { of[NR] = $1 }
    END { if (NR) { print "p50_us", of[int(NR * 0.5) + 1]; print "p99_us", of[int(NR * 0.99) + 1] } }"#;

/// A shell for each client. For a comparison with a prediction, a log with WAL is filled
/// beforehand, because it is rewritten again and again while a connection is open: a growing log
/// would wait for the filesystem's journal. A client that waits for another longer than a minute
/// fails, and so does the load.
const SQLITE_LOAD: &str = r#"
    {
        echo '.timeout 60000'
        if [ -n "$WARM" ]; then
            echo 'PRAGMA synchronous = OFF;'
            yes 'INSERT INTO entry (content) VALUES (zeroblob(100));' | head -n 2000
            echo 'PRAGMA synchronous = FULL;'
            echo ".shell date +%s%N >'$DIR/begin'"
        fi
        yes 'INSERT INTO entry (content) VALUES (zeroblob(100)); SELECT 1;' | head -n "$EACH"
    } >"$DIR/insert.sql"
    clients=
    date +%s%N >"$DIR/begin"
    for client in $(seq "$CLIENTS"); do
        sqlite3 -batch -bail "$DIR/test.sqlite" <"$DIR/insert.sql" >"$DIR/answers.$client" &
        clients="$clients $!"
    done
    for client in $clients; do wait "$client"; done
    echo seconds $(($(date +%s%N) - $(cat "$DIR/begin")))e-9
    echo commits $(cat "$DIR"/answers.* | wc -l)
    rm "$DIR"/answers.*"#;
