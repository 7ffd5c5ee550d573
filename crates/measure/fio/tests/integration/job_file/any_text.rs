//! Texts that nobody wrote: no panic, no endless work.

use std::time::{Duration, Instant};

use super::{MACHINE, jobs};
use durio_fio::job_file::{
    HostParameters, JobSource, option_rows, parse_command_line, parse_job_file, resolve,
};
use proptest::prelude::*;

/// Files with most of the grammar in them.
const FIXTURES: [&str; 3] = [
    "; comment\n[global]\nkb_base=1000\nbs=4k,8k,16k ; sizes\nsize=10%\n[job one]\n\
     rw=randrw:8\nbssplit=4k/10:64k/50:32k/40,8k\nruntime=(2m)\nsize=(4k*(2+2))\nfilename=a\\:b:c\n",
    "[a]\nrandom_distribution=zoned:50/5:30/15:20/,100/1\ncpus_allowed=0-3,7\nrate_iops=,100\n\
     numjobs=$ncpus*2\nsize=8*$mb_memory\nfilesize=${SIZE}\ninclude other\n[b]\nstonewall\n",
    "[wal]\nfdatasync=1\nsync=dsync\nbsrange=512-4k,1k:8k\npercentage_random=50,,10\n\
     numa_mem_policy=interleave:0-1\nfile_service_type=zipf:1.2:0.5\niodepth=0x20\noffset=3z\n",
];

fn read_all(text: &str) {
    let mut read = |name: &str, _: Option<&str>| match name {
        "self" => Ok(JobSource { name: "self".into(), text: "include self\ninclude self".into() }),
        _ => Ok(JobSource { name: name.into(), text: "bs=4k\nloops=(1+1)".into() }),
    };
    let environment = |name: &str| Some(format!("${{{name}}}4k$ncpus"));
    let mut host = HostParameters { read: &mut read, environment: &environment, machine: MACHINE };
    let source = JobSource { name: "any".into(), text: text.into() };
    if let Ok(file) = parse_job_file(&source, &mut host) {
        let _ = resolve(&file);
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if let Ok(file) = parse_command_line(&words, &mut host) {
        let _ = resolve(&file);
    }
}

/// Option names with values made of pieces that mean something somewhere.
fn any_setting() -> impl Strategy<Value = String> {
    let names: Vec<&str> = option_rows().map(|row| row.name).collect();
    let pieces = prop::collection::vec(
        prop::sample::select(vec![
            "4",
            "k",
            "kib",
            "m",
            "%",
            "z",
            "(",
            ")",
            "-",
            "+",
            "*",
            "/",
            "^",
            ":",
            ",",
            ".",
            " ",
            "0x",
            "zipf",
            "read",
            "randrw",
            "bind",
            "us",
            "s",
            "99999999999",
            "$ncpus",
            "${A}",
            "\\:",
            "é",
            "e9",
            "'",
            "1",
            "0",
        ]),
        0..10,
    );
    (prop::sample::select(names), pieces)
        .prop_map(|(name, pieces)| format!("{name}={}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_text_gives_jobs_or_an_error(text in "\\PC{0,200}") {
        read_all(&text);
        read_all(&format!("[a]\n{text}"));
    }

    #[test]
    fn any_bytes_give_jobs_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_values_give_jobs_or_an_error(settings in prop::collection::vec(any_setting(), 1..6)) {
        read_all(&format!("[a]\n{}", settings.join("\n")));
        read_all(&settings.iter().map(|setting| format!("--{setting} ")).collect::<String>());
    }

    #[test]
    fn an_error_names_a_line_of_the_text(settings in prop::collection::vec(any_setting(), 1..6)) {
        let text = format!("[a]\n{}", settings.join("\n"));
        if let Err(error) = jobs(&text) {
            let rest = error.to_string();
            let line = rest.strip_prefix("j.fio:").and_then(|rest| rest.split(':').next());
            let line: usize = line.unwrap().parse().unwrap();
            prop_assert!((1..=settings.len() + 1).contains(&line), "{rest}");
        }
    }
}

/// A small generator with a known sequence (xorshift), so that a failure repeats.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }
}

#[test]
fn the_texts_that_are_mutated_are_right_themselves() {
    for text in FIXTURES {
        let text = text.replace("include other", "bs=4k").replace("${SIZE}", "4k");
        assert!(jobs(&text).is_ok(), "{:?}", jobs(&text));
    }
}

#[test]
fn mutated_job_files_give_jobs_or_an_error() {
    let seed = 0x5eed_0001;
    eprintln!("seed {seed:#x}");
    let mut sequence = Sequence(seed);
    let bits =
        [b'[', b']', b'=', b'\n', b';', b'(', b')', b',', b':', b'-', b'%', b'k', b'9', 0, 0xff];
    for round in 0..1500 {
        let mut bytes = FIXTURES[round % FIXTURES.len()].as_bytes().to_vec();
        for _ in 0..=sequence.below(4) {
            let at = sequence.below(bytes.len());
            match sequence.below(4) {
                0 => bytes[at] = bits[sequence.below(bits.len())],
                1 => bytes.insert(at, bits[sequence.below(bits.len())]),
                2 => {
                    bytes.truncate(at.max(1));
                }
                _ => {
                    let end = (at + sequence.below(20)).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    let to = sequence.below(bytes.len());
                    bytes.splice(to..to, copy);
                }
            }
        }
        read_all(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn the_largest_texts_take_bounded_time() {
    let begin = Instant::now();
    let each = |text: &str| {
        read_all(text);
        eprintln!("{} bytes: {:?} in all", text.len(), begin.elapsed());
    };
    let global = format!("[global]\n{}", "bssplit=,4k/10:64k/50:32k/40\n".repeat(63));
    each(&format!("{global}{}", "description=x\n".repeat(1500)));
    each(&format!("{global}{}", "[a]\nrw=read\n".repeat(500)));
    each("[a]\ninclude self");
    each(&format!("[a]\ndescription={}", "${A}".repeat(2000)));
    each(&format!("[a]\nbs={}", "(".repeat(8000)));
    each(&format!("[a]\ncpus_allowed={}", "0-4095,".repeat(1000)));
    each(&"x".repeat((1 << 20) + 1));
    // Two seconds on a quiet machine; without a bound some of them would take hours.
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}
