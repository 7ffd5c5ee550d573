//! The databases that are traced: how each is made, served, loaded, and which of its files are the log.
//!
//! In: nothing. Out: [`DATABASES`]. Not here: running any of it (`server`).
//!
//! Each command is for a shell that stops at the first error, with `$DIR` (a folder of its own), `$AS` (what
//! makes a command that of a plain user), `$PORT` and `$PEER_PORT` (free ones of the loopback), `$CLIENTS` and
//! `$EACH` (transactions of each client). A transaction has a value of 100 bytes.

/// A database and its commands.
#[derive(Debug)]
pub(super) struct Database {
    /// The profile's name.
    pub(super) name: &'static str,
    /// What is run, each with Debian's package.
    pub(super) programs: &'static [(&'static str, &'static str)],
    /// Who runs it where the caller is root: it refuses root, or should not need it.
    pub(super) user: Option<&'static str>,
    /// Prints its version.
    pub(super) version: &'static str,
    /// One transaction, and the settings that are not the package's own.
    pub(super) transaction: &'static str,
    /// Makes it.
    pub(super) setup: &'static str,
    /// Serves it until SIGTERM; none for one that lives in its clients.
    pub(super) serve: Option<Serve>,
    /// Commits with `$CLIENTS` at once; the last word that it prints is how many commits were acknowledged.
    pub(super) load: &'static str,
    /// True for a file of its log, by its path.
    pub(super) is_log: fn(&str) -> bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Serve {
    pub(super) start: &'static str,
    /// Succeeds when it takes transactions.
    pub(super) ready: &'static str,
}

pub(super) const DATABASES: [Database; 7] = [
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
        load: r#"pgbench -h "$DIR" -U postgres -n -f "$DIR/insert.sql" -c "$CLIENTS" -t "$EACH" postgres |
            sed -n 's,^number of transactions actually processed: \([0-9]*\)/.*,\1,p'"#,
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
        setup: r#"$AS mariadb-install-db --no-defaults --datadir="$DIR/data" --skip-test-db \
            --auth-root-authentication-method=normal"#,
        serve: Some(Serve {
            start: r#"exec $AS mariadbd --no-defaults --datadir="$DIR/data" --socket="$DIR/socket" \
                --skip-networking"#,
            ready: r#"mariadb --no-defaults -uroot -S "$DIR/socket" -e 'CREATE DATABASE test;
                CREATE TABLE test.entry (number bigint AUTO_INCREMENT PRIMARY KEY, content varbinary(100))'"#,
        }),
        load: r#"
            mysqlslap --no-defaults -uroot -S "$DIR/socket" --create-schema=test --no-drop \
                --concurrency="$CLIENTS" --number-of-queries=$((CLIENTS * EACH)) \
                --query="INSERT INTO entry (content) VALUES (repeat('x', 100))" >&2
            echo $((CLIENTS * EACH))"#,
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
            for client in $(seq "$CLIENTS"); do
                curl -s -o /dev/null -w '%{http_code}\n' -d "@$DIR/put.json" \
                    "http://127.0.0.1:$PORT/v3/kv/put?[1-$EACH]" >"$DIR/answers.$client" &
            done
            wait
            cat "$DIR"/answers.* | grep -c '^200$'
            rm "$DIR"/answers.*"#,
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
            redis-benchmark -s "$DIR/socket" -t set -d 100 -c "$CLIENTS" -n $((CLIENTS * EACH)) -q >&2
            echo $((CLIENTS * EACH))"#,
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
            db_bench --benchmarks=fillrandom --sync=1 --db="$DIR/data.$CLIENTS" --threads="$CLIENTS" --num="$EACH" \
                --key_size=16 --value_size=100 --compression_type=none |
                sed -n 's/^fillrandom .* \([0-9]*\) operations;.*/\1/p'"#,
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
        is_log: |path| path.ends_with("-journal"),
    },
];

/// A shell for each client. One that waits for another longer than a minute fails, and so does the load.
const SQLITE_LOAD: &str = r#"
    {
        echo '.timeout 60000'
        yes 'INSERT INTO entry (content) VALUES (zeroblob(100)); SELECT 1;' | head -n "$EACH"
    } >"$DIR/insert.sql"
    clients=
    for client in $(seq "$CLIENTS"); do
        sqlite3 -batch -bail "$DIR/test.sqlite" <"$DIR/insert.sql" >"$DIR/answers.$client" &
        clients="$clients $!"
    done
    for client in $clients; do wait "$client"; done
    cat "$DIR"/answers.* | wc -l
    rm "$DIR"/answers.*"#;
