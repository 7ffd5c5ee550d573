//! The rate that a benchmark prints.

/// Transactions in a second, as pgbench, redis-benchmark, db_bench, YCSB, etcd's benchmark and sysbench write it.
const UNITS: [&str; 9] = [
    "tps",
    "ops/sec",
    "ops/s",
    "requests per second",
    "requests/sec",
    "transactions/sec",
    "transactions per second",
    "commits/s",
    "per sec.",
];

/// A number that is the whole last line of a benchmark's text; else its first rate.
pub(super) fn said_rate(text: &str) -> Option<f64> {
    // Progress that is written over itself is separate lines.
    let lines = || text.split(['\n', '\r']).map(str::trim).filter(|it| !it.is_empty());
    let last = lines().next_back().and_then(|it| it.parse().ok()).filter(is_rate);
    // What sysbench reports in between begins so.
    let is_result = |it: &&str| !it.starts_with("[ ");
    last.or_else(|| lines().filter(is_result).find_map(of_line))
}

fn is_rate(rate: &f64) -> bool {
    rate.is_finite() && *rate > 0.0
}

/// A number behind a unit (`tps = 5`, `Requests/sec: 5`, `Throughput(ops/sec), 5`), or the one before it.
fn of_line(line: &str) -> Option<f64> {
    let line = line.to_ascii_lowercase();
    let (before, behind) = UNITS.iter().find_map(|unit| line.split_once(unit))?;
    let blank = [' ', '\t'];
    let of_behind = || {
        let value = behind.trim_start_matches(blank).strip_prefix(['=', ':', ')'])?;
        let value = value.trim_start_matches([' ', '\t', ',']);
        value.split(blank).next()?.parse().ok()
    };
    let of_before = || before.trim_end().rsplit([' ', '\t', '(']).next()?.parse().ok();
    of_behind().or_else(of_before).filter(is_rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_found_as_benchmarks_print_them() {
        for (text, rate) in [
            (
                "latency average = 1.007 ms\ntps = 993.104 (without initial connection time)\n",
                993.104,
            ),
            (
                "SET: rps=0.0 (overall: 1.0)\rSET: 21954.32 requests per second, p50=0.9\n",
                21_954.32,
            ),
            (
                "Read rate: 0 ops/second\nfillrandom : 54.4 micros/op 18359 ops/sec 5.4 seconds 9 operations; 2.1 MB/s",
                18_359.0,
            ),
            ("[OVERALL], RunTime(ms), 10110\n[OVERALL], Throughput(ops/sec), 98.91\n", 98.91),
            ("Summary:\n  Total: 1.8 secs.\n  Requests/sec:\t5552.0943\n", 5552.0943),
            (
                "  transactions:  12059 (1205.44 per sec.)\n  queries: 2 (2410.88 per sec.)\n",
                1205.44,
            ),
            ("warming up\n812.5\n", 812.5),
            ("[ 1s ] thds: 8 tps: 412.00\n transactions: 9 (500.0 per sec.)\n", 500.0),
            ("tps = 5\n812.5\n", 812.5),
        ] {
            assert_eq!(said_rate(text), Some(rate), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_none() {
        for text in ["", "done\n", "tps = inf", "0\n", "ops/sec", "5 seconds\n", "-3"] {
            assert_eq!(said_rate(text), None, "{text}");
        }
    }
}
