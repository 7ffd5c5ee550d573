//! The parts of a man page beyond the help text: examples, files, related pages.

mod prove_and_raid;
#[cfg(test)]
mod tests;

/// A path, and what is there.
pub(super) type FileNote = (&'static str, &'static str);

/// The further sections of one command's page.
pub(super) struct PageNotes {
    /// The words after `durio`; none for durio itself.
    pub(super) command: &'static str,
    /// A command line and what it does. A test has each of them parsed.
    pub(super) examples: &'static [(&'static str, &'static str)],
    pub(super) files: &'static [&'static [FileNote]],
    /// Pages as they are named in other pages: `durio-check(1)`.
    pub(super) see_also: &'static [&'static str],
}

/// The notes of a command; a test asks for those of every command.
pub(super) fn notes_of(command: &str) -> Option<&'static PageNotes> {
    pages().find(|page| page.command == command)
}

fn pages() -> impl Iterator<Item = &'static PageNotes> {
    PAGES.iter().chain(prove_and_raid::PAGES)
}

const RUNS: &[FileNote] = &[
    (
        "$XDG_STATE_HOME/durio/runs/",
        "The state folder's runs, a folder for each, unless --out names another directory. \
         Without XDG_STATE_HOME it is ~/.local/state/durio/runs/.",
    ),
    (
        "$XDG_STATE_HOME/durio/runs-index.json",
        "What durio runs shows of them. Made from the run folders; may be removed at any time.",
    ),
];

const CONFIGURATION: &[FileNote] = &[(
    "$XDG_CONFIG_HOME/durio/config.toml",
    "Defaults of options (~/.config/durio/config.toml). DURIO_CONFIG names another file.",
)];

const RUN_FOLDER: &[FileNote] = &[
    ("RUN/run.json", "Version, start, command line and name of the run."),
    ("RUN/plan.json, RUN/environment.json", "The plan, and the machine."),
    ("RUN/events.jsonl, RUN/histograms.hlog", "All events and latencies."),
    ("RUN/journal.jsonl", "Files with names that durio made, so that they can be removed."),
    ("RUN/findings.json, RUN/report.html", "The report. durio report makes it again."),
];

const LEFTOVERS: &[FileNote] = &[(
    "$XDG_STATE_HOME/durio/leftovers/",
    "Pointers to the journals of runs that are alive or were killed. The next run removes the \
     files that a killed one left, if they are provably durio's.",
)];

const STACKS: &[FileNote] = &[(
    "$XDG_STATE_HOME/durio/stacks/",
    "Journals of the benches that built stacks, with what takes them down again.",
)];

const SETTINGS: &[FileNote] = &[(
    "$XDG_STATE_HOME/durio/settings/",
    "Old values of kernel settings while a proof or a campaign has changed them.",
)];

const PROBES: &[FileNote] =
    &[("$XDG_STATE_HOME/durio/watch/", "The probes of durio watch, a run folder for each.")];

const KERNELS: &[FileNote] = &[
    ("/boot/vmlinuz-*, /lib/modules/", "Kernels that are installed, with their modules."),
    (
        "$XDG_CACHE_HOME/durio/kernels/",
        "Unpacked kernels (~/.cache/durio/kernels/). DURIO_KERNELS names further folders.",
    ),
];

const MEASURING: &[&[FileNote]] = &[RUNS, RUN_FOLDER, LEFTOVERS];

const PAGES: &[PageNotes] = &[
    PageNotes {
        command: "",
        examples: &[
            (
                "durio check /data",
                "Check in about a minute whether the storage is fit for a database.",
            ),
            ("durio durable --quick /data", "Measure what a durable write costs, in about 30 s."),
            ("durio report last", "Show the latest run again."),
            ("durio explain flush-fast", "Explain a word of a report."),
        ],
        files: MEASURING,
        see_also: &[
            "durio-check(1)",
            "durio-durable(1)",
            "durio-run(1)",
            "durio-report(1)",
            "fio(1)",
        ],
    },
    PageNotes {
        command: "check",
        examples: &[
            (
                "durio check /data",
                "Check the storage of a directory. Its existing files are not touched.",
            ),
            (
                "durio check --quick --database postgresql /data",
                "Finish in under 15 s; exit with 1 if it is unfit for PostgreSQL.",
            ),
            (
                "durio check --goal 'commit p99 < 5ms' --goal 'commit rate > 2000' /data",
                "Exit with 1 if a goal of your own is missed.",
            ),
            (
                "durio check --workload commit --thorough /data /mnt/other",
                "Measure one workload for 300 s on two storages, side by side.",
            ),
            (
                "durio check --destroy /dev/nvme1n1 /dev/nvme1n1",
                "Check a device, overwriting everything on it.",
            ),
        ],
        files: MEASURING,
        see_also: &[
            "durio-durable(1)",
            "durio-report(1)",
            "durio-explain(1)",
            "fdatasync(2)",
            "open(2)",
        ],
    },
    PageNotes {
        command: "durable",
        examples: &[
            ("durio durable --quick /var/lib/postgresql", "The main points, in about 30 s."),
            ("durio durable --only methods --only sizes /data", "Two of the experiments."),
            (
                "durio durable --thorough --destroy /dev/nvme1n1 /dev/nvme1n1",
                "Everything, on a device, overwriting everything on it.",
            ),
        ],
        files: MEASURING,
        see_also: &[
            "durio-check(1)",
            "fdatasync(2)",
            "open(2)",
            "io_uring(7)",
            "sync_file_range(2)",
        ],
    },
    PageNotes {
        command: "run",
        examples: &[
            (
                "durio run --target /data --rw write --bs 8k --sync fdatasync",
                "Write 8 KiB blocks, each made durable, for 10 s.",
            ),
            (
                "durio run --target /data --rw randread --bs 4k --engine uring --depth 32 --duration 30s",
                "Random reads with 32 in flight.",
            ),
            (
                "durio run --target /data --rw randread --depth 64 --rate 20k --ramp 2s",
                "20,000 reads per second, however slow the storage is.",
            ),
            ("durio run profile:postgresql --target /data", "What PostgreSQL does to its storage."),
            (
                "durio run db-ladder --target /data --scale-time 0.02",
                "A built-in campaign, in a fiftieth of its time.",
            ),
        ],
        files: &[RUNS, RUN_FOLDER, LEFTOVERS, SETTINGS],
        see_also: &[
            "durio-plan(1)",
            "durio-sweep(1)",
            "durio-profile(1)",
            "durio-fio(1)",
            "io_uring(7)",
            "open(2)",
        ],
    },
    PageNotes {
        command: "plan",
        examples: &[
            ("durio plan", "List the built-in campaigns."),
            (
                "durio plan db-ladder --target /data",
                "Show what this one would do, and for how long.",
            ),
            ("durio plan --schema", "Print the JSON schema of specs, for an editor."),
        ],
        files: &[],
        see_also: &["durio-run(1)", "durio-profile(1)"],
    },
    PageNotes {
        command: "sweep",
        examples: &[
            (
                "durio sweep --goal 'p99 < 2ms' --target /data --rw randread --bs 8k --engine uring --depth 64",
                "Find the highest rate of reads with a p99 of at most 2 ms.",
            ),
            (
                "durio sweep --goal 'p99.9 < 10ms' --target /data --rw write --bs 8k --sync fdatasync --precision 2",
                "The same for durable writes, to within 2 %.",
            ),
        ],
        files: MEASURING,
        see_also: &["durio-run(1)", "durio-report(1)", "io_uring(7)"],
    },
    PageNotes {
        command: "capture",
        examples: &[
            (
                "durio capture --pid 812 --duration 60s --profile mine.toml",
                "Watch a postmaster and its children for a minute; write a profile.",
            ),
            (
                "durio capture --unit postgresql@15-main --html page.html",
                "Watch the processes of a unit; write a page.",
            ),
            (
                "durio capture --path /var/lib/mysql --json",
                "Processes that have files there; for a script.",
            ),
        ],
        files: &[&[(
            "/sys/kernel/tracing/instances/durio-*",
            "Two trace instances, removed at the end, or by the next durio if this one was \
             killed.",
        )]],
        see_also: &["durio-profile(1)", "durio-replay(1)", "durio-run(1)", "strace(1)"],
    },
    PageNotes {
        command: "replay",
        examples: &[
            ("durio replay mine.trace /mnt/other", "Whether this storage keeps up with the load."),
            (
                "durio replay mine.trace /mnt/other --speed 2",
                "Whether it keeps up with twice the load.",
            ),
        ],
        files: &[LEFTOVERS],
        see_also: &["durio-capture(1)", "durio-predict(1)"],
    },
    PageNotes {
        command: "predict",
        examples: &[
            ("durio predict postgresql /var/lib/postgresql", "Commits of 1, 8 and 32 clients."),
            ("durio predict redis /data --clients 1,64,256", "With other numbers of clients."),
            (
                "durio predict mariadb /data --goal 'p99 < 5ms at 2000/s'",
                "Whether a load is sustained.",
            ),
        ],
        files: &[RUNS, RUN_FOLDER, LEFTOVERS],
        see_also: &["durio-check(1)", "durio-profile(1)", "durio-capture(1)"],
    },
    PageNotes {
        command: "profile",
        examples: &[
            ("durio profile list", "List the databases that durio knows."),
            ("durio profile show postgresql", "Show what one of them does, with the sources."),
        ],
        files: &[],
        see_also: &["durio-run(1)"],
    },
    PageNotes {
        command: "profile list",
        examples: &[("durio profile list", "List the databases that durio knows.")],
        files: &[],
        see_also: &["durio-profile-show(1)"],
    },
    PageNotes {
        command: "profile show",
        examples: &[
            ("durio profile show postgresql", "Show a built-in profile."),
            ("durio profile show ./mine.toml", "Show one of your own."),
        ],
        files: &[],
        see_also: &["durio-profile-list(1)", "durio-run(1)"],
    },
    PageNotes {
        command: "profile calibrate",
        examples: &[
            (
                "durio profile calibrate postgresql --profile mine.toml --command 'pgbench -n -f insert.sql -c {clients} -T 5'",
                "Find out what PostgreSQL takes here; it must run with fsync=off.",
            ),
            (
                "durio profile calibrate redis --clients 1 --profile mine.toml --command 'redis-benchmark -q -t set -c 1'",
                "The same for Redis, with one client.",
            ),
        ],
        files: &[],
        see_also: &["durio-predict(1)", "durio-profile-show(1)"],
    },
    PageNotes {
        command: "spec",
        examples: &[
            ("durio spec list", "List the specs within the program."),
            ("durio spec show raid-modes", "Print one, to start your own from."),
        ],
        files: &[],
        see_also: &["durio-plan(1)", "durio-run(1)", "durio-stack-bench(1)"],
    },
    PageNotes {
        command: "spec list",
        examples: &[("durio spec list", "List the specs within the program.")],
        files: &[],
        see_also: &["durio-spec-show(1)"],
    },
    PageNotes {
        command: "spec show",
        examples: &[
            ("durio spec show raid-modes > mine.toml", "Copy a bench of stacks."),
            ("durio spec show profile:postgresql", "Print the profile of a database."),
        ],
        files: &[],
        see_also: &["durio-spec-list(1)"],
    },
    PageNotes {
        command: "stack",
        examples: &[
            ("durio stack show /data", "Show the layers from a directory to its devices."),
            (
                "durio stack bench loop-layers --scale-time 0.1",
                "Measure what each layer costs, in a tenth of the time.",
            ),
        ],
        files: &[RUNS, RUN_FOLDER, LEFTOVERS, STACKS],
        see_also: &[
            "durio-stack-show(1)",
            "durio-stack-bench(1)",
            "durio-lab(1)",
            "mdadm(8)",
            "lvm(8)",
        ],
    },
    PageNotes {
        command: "stack show",
        examples: &[
            ("durio stack show /var/lib/postgresql", "Show the layers below a directory."),
            (
                "durio stack show --root /tmp/copied /data",
                "Show those of another machine, from copies of its /sys and /proc.",
            ),
        ],
        files: &[],
        see_also: &["durio-stack(1)", "lsblk(8)", "findmnt(8)"],
    },
    PageNotes {
        command: "stack plan",
        examples: &[
            ("durio stack plan", "List the built-in stack specs."),
            ("durio stack plan bitmap-cost", "Show every command that a bench would run."),
        ],
        files: &[],
        see_also: &["durio-stack-bench(1)", "mdadm(8)"],
    },
    PageNotes {
        command: "stack bench",
        examples: &[
            ("durio stack bench loop-layers", "Build and measure stacks on loop devices, as root."),
            (
                "durio stack bench raid-modes --lab --scale-time 0.02 --scale-size 0.3",
                "RAID in a virtual machine, without any privileges.",
            ),
            (
                "durio stack bench my-stacks.toml --destroy /dev/nvme1n1 --destroy /dev/nvme2n1",
                "A spec of your own, overwriting two devices.",
            ),
        ],
        files: &[RUNS, RUN_FOLDER, LEFTOVERS, STACKS],
        see_also: &[
            "durio-stack-plan(1)",
            "durio-stack-clean(1)",
            "durio-lab(1)",
            "mdadm(8)",
            "mkfs(8)",
        ],
    },
    PageNotes {
        command: "stack clean",
        examples: &[("durio stack clean", "Take down the stacks that a killed bench left.")],
        files: &[STACKS],
        see_also: &["durio-stack-bench(1)"],
    },
    PageNotes {
        command: "report",
        examples: &[
            ("durio report", "Show the latest run."),
            ("durio report last~1 --verbose", "The run before it, with method and evidence."),
            ("durio report check-4711 --format markdown", "One run, for an issue or a wiki."),
            ("durio report --open", "Open the page of the latest run in a browser."),
        ],
        files: &[RUNS, RUN_FOLDER],
        see_also: &["durio-runs(1)", "durio-compare(1)", "durio-explain(1)"],
    },
    PageNotes {
        command: "runs",
        examples: &[
            ("durio runs", "List the runs that are kept."),
            ("durio runs --probes", "List the probes of durio watch."),
        ],
        files: &[RUNS, PROBES],
        see_also: &["durio-runs-rm(1)", "durio-runs-prune(1)", "durio-history(1)"],
    },
    PageNotes {
        command: "runs rm",
        examples: &[("durio runs rm check-4711", "Remove one run, after a question.")],
        files: &[RUNS],
        see_also: &["durio-runs(1)", "durio-runs-prune(1)"],
    },
    PageNotes {
        command: "runs prune",
        examples: &[(
            "durio runs prune --keep 100 --older-than 30d --yes",
            "Remove runs older than 30 days, but never the latest 100.",
        )],
        files: &[RUNS],
        see_also: &["durio-runs(1)", "durio-runs-rm(1)"],
    },
    PageNotes {
        command: "history",
        examples: &[
            ("durio history /data", "Show how the rate of commits changed from run to run."),
            ("durio history /data --metric commit.p99 --probes", "The p99 that durio watch saw."),
        ],
        files: &[RUNS, PROBES],
        see_also: &["durio-runs(1)", "durio-watch(1)"],
    },
    PageNotes {
        command: "watch",
        examples: &[
            ("durio watch /data", "Probe every ten minutes."),
            (
                "durio watch /data --every 1m --listen 127.0.0.1:9119",
                "Probe each minute, and serve the figures to Prometheus.",
            ),
        ],
        files: &[PROBES],
        see_also: &["durio-history(1)", "durio-runs(1)", "systemd.service(5)"],
    },
    PageNotes {
        command: "config",
        examples: &[("durio config", "Show the defaults of your configuration file.")],
        files: &[CONFIGURATION],
        see_also: &["durio-check(1)", "durio-run(1)"],
    },
    PageNotes {
        command: "doctor",
        examples: &[
            ("durio doctor /data", "Show what durio can do here, before a check."),
            ("durio doctor /data --json", "The same for scripts."),
        ],
        files: &[],
        see_also: &["durio-check(1)", "io_uring(7)", "capabilities(7)"],
    },
    PageNotes {
        command: "explain",
        examples: &[
            ("durio explain", "List everything that can be explained."),
            ("durio explain flush-fast", "Explain one word of a report."),
        ],
        files: &[],
        see_also: &["durio-report(1)", "durio-check(1)"],
    },
    PageNotes {
        command: "typical",
        examples: &[
            ("durio typical", "List typical latencies of each class of storage."),
            ("durio typical ebs-gp3", "Show the published latencies of one class, with sources."),
        ],
        files: &[],
        see_also: &["durio-check(1)", "durio-compare(1)"],
    },
    PageNotes {
        command: "audit",
        examples: &[
            ("durio audit results.csv", "Check a table of results for impossible values."),
            ("durio audit fio.json --format markdown", "Check a fio result."),
        ],
        files: &[RUN_FOLDER],
        see_also: &["durio-compare(1)", "fio(1)"],
    },
    PageNotes {
        command: "advise",
        examples: &[
            (
                "durio advise /data --database postgresql --role log",
                "Rules for the directory of PostgreSQL's log.",
            ),
            (
                "durio advise /data --database mysql --setting innodb_io_capacity=200",
                "Judge a setting without its configuration file.",
            ),
            (
                "durio advise /data --database postgresql --write settings",
                "Write the lines to paste as files, each with how to install it.",
            ),
            ("durio advise /data --prove A01", "Measure before and after a change, and restore."),
        ],
        files: &[SETTINGS],
        see_also: &["durio-check(1)", "durio-explain(1)", "udev(7)", "mount(8)"],
    },
    PageNotes {
        command: "compare",
        examples: &[
            ("durio compare /mnt/a /mnt/b", "Measure two directories by turns, and compare them."),
            ("durio compare last~1 last", "Compare the latest two runs."),
            (
                "durio compare before1,before2,before3 after1,after2,after3 --fail-over 5%",
                "Three runs on each side; exit with 1 for a loss of more than 5 %.",
            ),
            (
                "durio compare --interleave a.toml b.toml --pairs 5 -- --target /data",
                "Run two specs by turns, and compare them.",
            ),
        ],
        files: &[RUNS],
        see_also: &["durio-runs(1)", "durio-history(1)", "durio-report(1)"],
    },
    PageNotes {
        command: "fio",
        examples: &[
            ("durio fio job.fio", "Run a fio job file, and print fio's output."),
            (
                "durio fio --name=wal --rw=write --bs=8k --size=64m --fdatasync=1 --output-format=json",
                "Run a job from the command line, with JSON as fio writes it.",
            ),
            ("durio fio --plan job.fio", "Show what would be done, without doing it."),
        ],
        files: MEASURING,
        see_also: &["fio(1)", "durio-run(1)", "durio-audit(1)"],
    },
    PageNotes {
        command: "lab",
        examples: &[
            ("durio lab kernels", "List the kernels that can be booted."),
            ("durio lab run -- uname -r", "Run a command in a guest, as root."),
        ],
        files: &[KERNELS],
        see_also: &["durio-lab-run(1)", "durio-stack-bench(1)", "qemu-system-x86_64(1)"],
    },
    PageNotes {
        command: "lab run",
        examples: &[
            ("durio lab run -- sh -c 'modprobe raid1; cat /proc/mdstat'", "Load a module as root."),
            ("durio lab run --timing wall --cpus 2 -- nproc", "A guest with the host's clock."),
            (
                "durio lab run --root shared --out results -- sh -c 'fio job.fio > $DURIO_LAB_OUT/fio.txt'",
                "Use this machine's programs, and bring a file out.",
            ),
        ],
        files: &[KERNELS],
        see_also: &["durio-lab-kernels(1)", "qemu-system-x86_64(1)"],
    },
    PageNotes {
        command: "lab kernels",
        examples: &[(
            "durio lab kernels",
            "List the kernels that can be booted, and their drivers.",
        )],
        files: &[KERNELS],
        see_also: &["durio-lab-run(1)", "modprobe(8)"],
    },
    PageNotes {
        command: "lab compare",
        examples: &[(
            "durio lab compare --kernel 6.1.0-56-amd64 --kernel 6.12.95+deb12-amd64 bitmap-cost",
            "Compare the software cost of a write-intent bitmap on two kernels.",
        )],
        files: &[KERNELS, RUNS],
        see_also: &["durio-lab-kernels(1)", "durio-stack-bench(1)", "mdadm(8)"],
    },
    PageNotes {
        command: "completions",
        examples: &[
            (
                "durio completions bash >~/.local/share/bash-completion/completions/durio",
                "For bash.",
            ),
            ("durio completions zsh >~/.zfunc/_durio", "For zsh, with ~/.zfunc in its fpath."),
        ],
        files: &[],
        see_also: &["durio(1)"],
    },
    PageNotes {
        command: "man",
        examples: &[("durio man ~/.local/share/man/man1", "Write the pages where man finds them.")],
        files: &[],
        see_also: &["durio(1)", "man(1)"],
    },
];
