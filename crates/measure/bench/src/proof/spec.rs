//! The campaigns that prove rules: one step each, under the rule's load. A rule's load, a size, a
//! time, and for durio's switches the value give the text of a spec.

use durio_base::{Bytes, Nanos};
use durio_judge::advise::{ProveLoad, Switch};

/// What both sides have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProofLoad {
    pub(crate) load: ProveLoad,
    pub(crate) size: Bytes,
    pub(crate) duration: Nanos,
}

// A quarter of the file, in blocks of 8 KiB: of random reads from an empty page cache few hit what
// another has brought in.
const RANDOM_SHARE: u64 = 4;

/// The spec of one side; `own` is the value of a switch in durio.
pub(crate) fn spec(load: ProofLoad, own: Option<(Switch, &str)>) -> String {
    let layout = match own {
        Some((Switch::FileMode, layout)) => layout,
        _ => "incompressible",
    };
    let method = match own {
        Some((Switch::SyncMethod, method)) => method,
        _ => "fdatasync",
    };
    format!(
        "schema = 1\nname = \"proof\"\nself_cost = false\n\n[[target]]\nname = \"data\"\n\
         size = \"{}B\"\nlayout = \"{layout}\"\n\n[[step]]\nname = \"proof\"\n{}",
        load.size.get(),
        step(load, method)
    )
}

fn step(ProofLoad { load, size, duration }: ProofLoad, method: &str) -> String {
    let duration = duration.get();
    match load {
        // One pass: nothing is read twice, so no read hits the cache. The page cache fills during
        // it and no rate is steady: what counts is the time of the whole, one interval.
        ProveLoad::BufferedScan => "pattern = \"sequential\"\nblock_size = \"16KiB\"\n\
             cache = \"buffered\"\ndrop_cache = true\nloops = 1\ninterval = \"1h\"\n"
            .to_owned(),
        ProveLoad::BufferedRandom => {
            let blocks = (size.get() / 8192 / RANDOM_SHARE).max(1);
            format!(
                "pattern = \"random\"\nrun_length = 3\nblock_size = \"8KiB\"\njobs = 4\n\
                 cache = \"buffered\"\ndrop_cache = true\noperations = {blocks}\n\
                 interval = \"1h\"\n"
            )
        }
        ProveLoad::Mixed => format!(
            "pattern = \"random\"\nreads = \"70%\"\nblock_size = \"8KiB\"\njobs = 4\ndepth = 32\n\
             duration = \"{duration}ns\"\n"
        ),
        ProveLoad::Commits => format!(
            "pattern = \"sequential\"\nreads = \"0%\"\nblock_size = \"8KiB\"\n\
             cache = \"buffered\"\nsync = \"{method}\"\nduration = \"{duration}ns\"\n"
        ),
    }
}
