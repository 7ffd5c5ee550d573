//! A depth that is asked for and not there.
//!
//! In: a claim. Out: depths above one that cannot be. Not here: how full the queue was.

use super::super::wording::{evidence, number, with_text};
use super::{Claim, Seen, Tier};

/// Engines whose buffered reads do not block in submission (Linux 5.10 on ext4, XFS, Btrfs).
const BUFFERED_ASYNCHRONOUS: [&str; 2] = ["io_uring", "uring"];

pub(super) fn not_real(claim: &Claim) -> Option<Seen> {
    let (jobs, depth) = (claim.jobs?, claim.depth?);
    let engine = claim.engine.clone().unwrap_or_default();
    let able = BUFFERED_ASYNCHRONOUS.contains(&engine.to_ascii_lowercase().as_str());
    let why = match (claim.blocking, claim.buffered) {
        (Some(true), _) => format!("the engine ({engine}) waits for each operation"),
        (_, Some(true)) if !able => "it is buffered".to_owned(),
        _ => return None,
    };
    (depth > 1).then(|| {
        let reason = format!(
            "depth {depth} is given and {why}: about {jobs} in flight, not {}",
            number(f64::from(jobs) * f64::from(depth)),
        );
        let evidence = evidence([("depth", f64::from(depth)), ("jobs", f64::from(jobs))]);
        Seen::new(Tier::Method, reason, with_text(evidence, "engine", &engine))
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::sound;
    use super::*;

    #[test]
    fn blocking_and_buffered_depths_are_told() {
        let mut claim = sound("randread");
        claim.depth = Some(32);
        assert_eq!(not_real(&claim), None, "nothing is known of the engine");
        claim.blocking = Some(true);
        assert!(not_real(&claim).is_some());
        claim.depth = Some(1);
        assert_eq!(not_real(&claim), None);
        (claim.depth, claim.blocking, claim.buffered) = (Some(4), Some(false), Some(true));
        claim.engine = Some("libaio".into());
        assert!(not_real(&claim).is_some());
        claim.engine = Some("io_uring".into());
        assert_eq!(not_real(&claim), None);
        claim.engine = Some("libaio".into());
        claim.buffered = Some(false);
        assert_eq!(not_real(&claim), None);
    }
}
