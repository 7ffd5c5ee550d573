//! A cut by hand: durio asks the operator to cut the power, and the agent's silence shows that it
//! happened.
//!
//! Returns when the agent was last heard. Evidence of the cut is gathered elsewhere.

use std::time::{Duration, Instant};

use durio_base::Nanos;

use super::{AFTER_THE_CUT, AgentTrials, LOOK, Operator, TrialError};
use crate::witness::{AgentLink, LoadHeard, WitnessError, hear_load};

/// An agent that acknowledges nothing for this long has no power, or so slow a disk that its cuts
/// do not count.
const SILENCE: Nanos = Nanos::from_secs(3);

impl AgentTrials {
    /// Asks the operator to cut the power, and listens until the target is silent. Returns an agent
    /// that is not known to be gone: a later message would show that it kept its power.
    pub(super) fn cut_by_hand(
        &mut self,
        mut link: AgentLink,
        operator: &Operator<'_>,
    ) -> Result<(Nanos, Option<AgentLink>), TrialError> {
        let (name, off) = (self.target.name.clone(), self.target.off);
        operator.say(&format!(
            "cut the power of '{name}' now; leave it off for {off}, then switch it on"
        ));
        let (begin, patience) = (Instant::now(), self.target.patience);
        let mut heard = LoadHeard::nothing_since(self.server.now());
        let at_hand = loop {
            operator.check()?;
            if begin.elapsed() > Duration::from_nanos(patience.get()) {
                let text = format!("nobody cut the power of '{name}' within {patience}");
                return Err(TrialError::Failed(text));
            }
            match self.hear(&mut link, &mut heard) {
                Err(TrialError::Witness(WitnessError::Ledger(error))) => return Err(error.into()),
                // Its connection has ended, or its target fails.
                Err(_) => break None,
                Ok(()) => {}
            }
            if heard.is_silent(self.server.now(), SILENCE) {
                break Some(link);
            }
        };
        operator.say(&format!("'{name}' is silent; leave its power off for {off}"));
        Ok((heard.last_at, at_hand))
    }

    /// How many acknowledgements came from an agent after its silence: it had power all the time.
    pub(super) fn heard_late(&mut self, link: Option<AgentLink>) -> Result<u64, TrialError> {
        let (Some(mut link), Some(book)) = (link, &mut self.book) else { return Ok(0) };
        let mut heard = LoadHeard::nothing_since(self.server.now());
        loop {
            match hear_load(&mut link, &self.server, book, &mut heard, LOOK) {
                Ok(true) => {}
                Err(WitnessError::Ledger(error)) => return Err(error.into()),
                Ok(false) | Err(_) => break,
            }
        }
        drop(link);
        if heard.acknowledged > 0 {
            // It ends when it finds its witness gone; its writes until then would be read as
            // unstable.
            std::thread::sleep(AFTER_THE_CUT);
        }
        Ok(heard.acknowledged)
    }
}
