//! What a coordinator of simulated hosts reads, writes and computes.
//!
//! Its messages are encoded, decoded, signed and verified as those of a real one, and the time of that
//! is measured, with that of its machine and its live view. The server of the bus is not simulated.

use std::hint::black_box;
use std::time::{Duration, Instant};

use durio_base::Nanos;

use super::truth::{SECOND, ToyKeys};
use crate::coordinator::{CoordinatorEffect, CoordinatorInput, CoordinatorMachine};
use crate::live::LiveBoard;
use crate::message::{BusMessage, COORDINATOR, Verify};
use crate::sign::{SigningKey, TrustError, TrustedKeys};

#[derive(Debug, Clone, Default)]
pub(super) struct HubSecond {
    pub(super) messages: u64,
    pub(super) busy: Duration,
}

#[derive(Debug)]
pub(super) struct Hub {
    keys: HubKeys,
    /// What each host sends of its figures.
    pub(super) live: Vec<u8>,
    pub(super) board: LiveBoard,
    pub(super) bytes: u64,
    /// The seconds that were simulated.
    pub(super) seconds: Vec<HubSecond>,
    pub(super) refused: u64,
}

/// Toy signatures decide; real ones are made and checked for their time.
#[derive(Debug)]
struct HubKeys {
    key: SigningKey,
    trusted: TrustedKeys,
    signature: String,
}

impl Verify for HubKeys {
    fn is_signed(&self, sender: &str, bytes: &[u8], signature: &str) -> bool {
        black_box(self.trusted.is_signed(COORDINATOR, bytes, &self.signature));
        ToyKeys.is_signed(sender, bytes, signature)
    }
}

impl Hub {
    pub(super) fn new(live: &[u8]) -> Result<Self, TrustError> {
        let key = SigningKey::generate();
        let mut trusted = TrustedKeys::default();
        trusted.trust(COORDINATOR, &key.public())?;
        let signature = key.sign(b"")?;
        let keys = HubKeys { key, trusted, signature };
        let (live, board, seconds) = (live.to_vec(), LiveBoard::default(), Vec::new());
        Ok(Self { keys, live, board, bytes: 0, seconds, refused: 0 })
    }

    /// The machine's answer to an input, with all that a real coordinator does for it.
    pub(super) fn handle(
        &mut self,
        machine: &mut CoordinatorMachine,
        (now, clock): (u64, Nanos),
        input: CoordinatorInput,
    ) -> Vec<CoordinatorEffect> {
        let arrived = match &input {
            CoordinatorInput::Message { message, .. } => message.encode().map(Some),
            _ => Ok(None),
        };
        let began = Instant::now();
        let decoded = arrived.and_then(|arrived| match arrived {
            Some(encoded) => Ok(Some((BusMessage::decode(&encoded)?, encoded.len()))),
            None => Ok(None),
        });
        let Ok(decoded) = decoded else {
            self.refused += 1;
            return Vec::new();
        };
        let mut sizes = Vec::new();
        let input = match (input, decoded) {
            (CoordinatorInput::Message { host, .. }, Some((message, size))) => {
                sizes.push(size);
                CoordinatorInput::Message { host, message }
            }
            (input, _) => input,
        };
        let effects = machine.handle(clock, input, &self.keys);
        for effect in &effects {
            if let CoordinatorEffect::Send { message, .. } = effect {
                sizes.extend(self.keys.signed_size(message));
            }
        }
        let busy = began.elapsed();
        self.count(now, &sizes, busy);
        effects
    }

    pub(super) fn count(&mut self, now: u64, sizes: &[usize], busy: Duration) {
        let at = usize::try_from(now / SECOND).unwrap_or(0);
        if self.seconds.len() <= at {
            self.seconds.resize(at + 1, HubSecond::default());
        }
        let second = &mut self.seconds[at];
        second.messages += sizes.len() as u64;
        second.busy += busy;
        self.bytes += sizes.iter().map(|&size| size as u64).sum::<u64>();
    }
}

impl HubKeys {
    /// Bytes of a message with its signature.
    fn signed_size(&self, message: &BusMessage) -> Option<usize> {
        let signature = self.key.sign(&message.signed_bytes().ok()?).ok()?;
        let signed = BusMessage { signature: Some(signature), ..message.clone() };
        Some(signed.encode().ok()?.len())
    }
}
