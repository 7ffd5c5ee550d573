//! The kernel's io_uring as it seldom is. Completions that are seen late: by a library that is loaded before the C library and sits on
//! every so many calls of io_uring. Little's law holds all the same; two other checks must see it.
//! And a kernel that has no memory for requests.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::loops::sh;
use crate::requirements::{has, skip};
use crate::sandbox::Sandbox;

/// A library whose `DO` happens in calls of io_uring_enter (number 426 on all architectures).
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <time.h>
long syscall(long number, long a, long b, long c, long d, long e, long f) {
    static long (*next)(long, ...);
    static __thread unsigned calls;
    if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    struct timespec late = { 0, 20000000 };
    if (number == 426) { ++calls; DO }
    return next(number, a, b, c, d, e, f);
}
"#;

/// Every hundredth is 20 ms late.
const SITS: &str = "if (calls % 100 == 0) nanosleep(&late, 0);";
/// From the thousandth on the kernel has no memory.
const NO_MEMORY: &str = "if (calls > 1000) { errno = EAGAIN; return -1; }";

const READS: &str = "run --quiet --no-self-cost --target data/user.db --rw randread --bs 4k \
                     --engine uring --depth 16 --duration 1s --format json";

fn library(sandbox: &Sandbox, act: &str) -> PathBuf {
    let (source, library) = (sandbox.root().join("held.c"), sandbox.root().join("held.so"));
    fs::write(&source, LIBRARY.replace("DO", act)).unwrap();
    sh(&format!("cc -shared -fPIC -o '{}' '{}'", library.display(), source.display()));
    library
}

fn codes(document: &Value) -> Vec<String> {
    let warnings = document["warnings"].as_array().unwrap();
    warnings.iter().map(|warning| warning["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_engine_that_sits_on_completions_is_told_by_the_device_and_by_its_looks() {
    if !has(&["cc"]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    fs::write(sandbox.data().join("cold.db"), vec![7; 4 << 20]).unwrap();
    sandbox.accept_changes();
    let line = READS.replace("user.db", "cold.db");
    let plain = sandbox.durio(&line).run().expect_exit(0).json();
    let workload = &plain["workloads"][0];
    if workload["effective"]["engine"] != "uring" {
        return skip("no io_uring here");
    }
    assert!(workload["unwatched_ns_max"].as_u64().unwrap() > 0, "{workload}");
    let library = library(&sandbox, SITS);
    let late = || sandbox.durio(&line).env("LD_PRELOAD", &library).run().expect_exit(0).json();
    // The device's time can be told only while the tests beside this one leave it alone.
    let is_told = |document: &Value| !document["workloads"][0]["device_time"].is_null();
    let runs: Vec<Value> = (0..5).map(|_| late()).collect();
    let late = runs.iter().find(|run| is_told(run)).unwrap_or(&runs[0]);
    let workload = &late["workloads"][0];
    let deviation = workload["in_flight"]["deviation"].as_f64().unwrap();
    assert!(deviation.abs() < 0.05, "Little's law sees it: {deviation}");
    let unwatched = workload["unwatched_ns_max"].as_u64().unwrap();
    assert!(unwatched >= 20_000_000, "{unwatched}");
    assert!(codes(late).contains(&"unwatched".to_owned()), "{:?}", codes(late));
    match is_told(late) {
        false => skip("the devices under the tests do not count, or others use them"),
        true => assert!(codes(late).contains(&"outside-device".to_owned()), "{:?}", codes(late)),
    }
}

#[test]
fn a_kernel_without_memory_for_requests_ends_the_step_with_its_error() {
    if !has(&["cc"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let ended = sandbox.durio(READS).env("LD_PRELOAD", library(&sandbox, NO_MEMORY)).run();
    if ended.code() == 0 && ended.json()["workloads"][0]["effective"]["engine"] != "uring" {
        return skip("no io_uring here");
    }
    ended.expect_exit(3).expect_stderr("enter io_uring").expect_stderr("temporarily unavailable");
}
