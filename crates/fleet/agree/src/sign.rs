//! Who said something: ed25519 signatures over the exact bytes that were sent, with keys in the
//! form of NATS (`U…`, and `SU…` for the secret half); and what is not accepted again: old messages, and
//! the campaigns that are over.
//!
//! The bus is not trusted: a broken server can drop messages, and cannot make one.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use durio_base::{Bytes, CallError, CallErrorKind};
use durio_block::{Folder, read_bounded};
use durio_command::CommandError;
use nkeys::{KeyPair, KeyPairType};

use crate::host_name::shown;
use crate::message::{BusMessage, Verify, is_campaign};

/// Why a key, a message or a campaign is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustErrorKind {
    /// Not a key of a user in the form of NATS.
    InvalidKey,
    /// Changed since it was signed, or signed by another key.
    Changed,
    /// Of a campaign that has ended.
    Replayed,
    /// The list of ended campaigns could not be used.
    Io,
}

impl CallErrorKind for TrustErrorKind {
    fn from_system(_source: &io::Error) -> Self {
        Self::Io
    }

    fn hint(self, _source: &io::Error) -> Option<&'static str> {
        match self {
            Self::InvalidKey => Some("public keys begin with U and have 56 characters"),
            Self::Changed | Self::Replayed | Self::Io => None,
        }
    }
}

/// A key, a message or a campaign that is not accepted, with its reason.
pub type TrustError = CallError<TrustErrorKind>;

/// Both halves of a key. The secret half is shown by [`SigningKey::seed`] alone.
#[derive(Clone)]
pub struct SigningKey(KeyPair);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.public()).finish()
    }
}

impl SigningKey {
    /// A new one, from the system's random numbers.
    #[must_use]
    pub fn generate() -> Self {
        Self(KeyPair::new_user())
    }

    /// The key of a seed, `SU…`.
    ///
    /// # Errors
    /// If it is not the seed of a user. The seed is not in the message.
    pub fn from_seed(seed: &str) -> Result<Self, TrustError> {
        let invalid =
            || CallError::because(TrustErrorKind::InvalidKey, "read the seed", "it is not SU…");
        let pair = KeyPair::from_seed(seed.trim()).map_err(|_| invalid())?;
        match pair.key_pair_type() {
            KeyPairType::User => Ok(Self(pair)),
            _ => Err(invalid()),
        }
    }

    /// The public half, `U…`.
    #[must_use]
    pub fn public(&self) -> String {
        self.0.public_key()
    }

    /// The secret half, for a file of mode 0600 or the stdin of an agent.
    pub fn seed(&self) -> Result<String, TrustError> {
        self.0.seed().map_err(|error| without_seed(&error))
    }

    /// The signature of these very bytes, in URL-safe base64.
    pub fn sign(&self, bytes: &[u8]) -> Result<String, TrustError> {
        let signature = self.0.sign(bytes).map_err(|error| without_seed(&error))?;
        Ok(URL_SAFE_NO_PAD.encode(signature))
    }

    /// A message as it goes over the bus, with its signature.
    ///
    /// # Errors
    /// If it is larger than the bus carries.
    pub fn encode(&self, mut message: BusMessage) -> Result<Vec<u8>, CommandError> {
        let bytes = message.signed_bytes().map_err(CommandError::cannot)?;
        message.signature = Some(self.sign(&bytes)?);
        message.encode().map_err(CommandError::cannot)
    }
}

fn without_seed(error: &nkeys::error::Error) -> TrustError {
    CallError::because(TrustErrorKind::InvalidKey, "sign", error.to_string())
}

/// Refuses a text that is not the public key of a user.
pub fn check_public_key(key: &str) -> Result<(), TrustError> {
    public_key(key).map(|_| ())
}

fn public_key(key: &str) -> Result<KeyPair, TrustError> {
    let invalid = |reason: String| {
        CallError::because(TrustErrorKind::InvalidKey, "use the key", reason).about(shown_key(key))
    };
    let pair = KeyPair::from_public_key(key).map_err(|error| invalid(error.to_string()))?;
    match pair.key_pair_type() {
        KeyPairType::User => Ok(pair),
        _ => Err(invalid("it is not the key of a user".to_owned())),
    }
}

/// A key in a message. A seed in the place of a key must not be printed whole.
fn shown_key(key: &str) -> String {
    const SHOWN: usize = 8;
    match key.chars().nth(SHOWN) {
        Some(_) => key.chars().take(SHOWN).chain(['…']).collect(),
        None => key.to_owned(),
    }
}

/// Checks a signature over these very bytes.
///
/// # Errors
/// [`TrustErrorKind::Changed`] if bytes or signature are not those that were made with the key.
pub fn verify(key: &str, bytes: &[u8], signature: &str) -> Result<(), TrustError> {
    let changed = |reason: &str| {
        CallError::because(TrustErrorKind::Changed, "accept the message of key", reason.to_owned())
            .about(shown_key(key))
    };
    let pair = public_key(key)?;
    let signature = URL_SAFE_NO_PAD
        .decode(signature)
        .map_err(|_| changed("its signature is not URL-safe base64"))?;
    pair.verify(bytes, &signature).map_err(|_| {
        changed("its signature does not match: the message was changed or signed by another key")
    })
}

/// The keys of the parties of a campaign: on a host the coordinator's key, on the coordinator the
/// keys of all hosts.
#[derive(Debug, Clone, Default)]
pub struct TrustedKeys {
    by_sender: BTreeMap<String, String>,
}

impl TrustedKeys {
    /// Trusts a key to speak for `sender`; a later one replaces it.
    ///
    /// # Errors
    /// If it is not the public key of a user.
    pub fn trust(&mut self, sender: &str, key: &str) -> Result<(), TrustError> {
        check_public_key(key)?;
        self.by_sender.insert(sender.to_owned(), key.to_owned());
        Ok(())
    }
}

impl Verify for TrustedKeys {
    fn is_signed(&self, sender: &str, bytes: &[u8], signature: &str) -> bool {
        self.by_sender.get(sender).is_some_and(|key| verify(key, bytes, signature).is_ok())
    }
}

/// The file of ended campaigns in the state folder.
const ENDED_FILE: &str = "ended-campaigns";
/// Orders of older ones are long beyond their last moment.
const ENDED_MAX: usize = 10_000;
/// 32 digits and a line break each.
const ENDED_BYTES_MAX: Bytes = Bytes::from_mib(1);

/// The campaigns that ended on this host: they are not joined again. Within a campaign, the state
/// machine of the host refuses old orders.
#[derive(Debug, Default)]
pub struct EndedCampaigns {
    ended: Vec<String>,
}

impl EndedCampaigns {
    /// From the state folder.
    ///
    /// # Errors
    /// If the list is there and cannot be read: without it an old campaign could be repeated.
    pub fn open(state: &Folder) -> Result<Self, TrustError> {
        let read = state.open_own(ENDED_FILE).and_then(|file| read_bounded(file, ENDED_BYTES_MAX));
        let bytes = match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(list_failed)?,
        };
        let text = String::from_utf8_lossy(&bytes);
        Ok(Self { ended: text.lines().map(ToOwned::to_owned).collect() })
    }

    /// Refuses a campaign that ended here.
    ///
    /// # Errors
    /// [`TrustErrorKind::Replayed`]
    pub fn check(&self, campaign: &str) -> Result<(), TrustError> {
        let refused = |reason: &'static str| {
            let error = CallError::because(TrustErrorKind::Replayed, "join campaign", reason);
            Err(error.about(shown(campaign)))
        };
        if !is_campaign(campaign) {
            return refused("a campaign is named by 32 hexadecimal digits");
        }
        if self.ended.iter().any(|ended| ended == campaign) {
            return refused("it has ended on this host");
        }
        Ok(())
    }

    /// Adds a campaign, also for later processes. One that is there already stays once.
    ///
    /// # Errors
    /// If its name is invalid, or the list cannot be written.
    pub fn end(&mut self, state: &Folder, campaign: &str) -> Result<(), TrustError> {
        if self.ended.iter().any(|ended| ended == campaign) {
            return Ok(());
        }
        self.check(campaign)?;
        self.ended.push(campaign.to_owned());
        let surplus = self.ended.len().saturating_sub(ENDED_MAX);
        self.ended.drain(..surplus);
        let text: String = self.ended.iter().map(|ended| format!("{ended}\n")).collect();
        state.replace(ENDED_FILE, text.as_bytes()).map_err(list_failed)
    }
}

fn list_failed(error: io::Error) -> TrustError {
    CallError::new("use the list of ended campaigns", error)
}

/// Boots of a sender in one campaign.
const BOOTS_MAX: usize = 16;

/// The newest message of a sender that was taken, over its processes and boots: older ones are not
/// obeyed again.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    /// The last is the present one; words of earlier ones are stale.
    boots: Vec<String>,
    /// Incarnation and sequence of the message.
    number: (u64, u64),
}

impl Newest {
    /// Takes a message that is newer, and says whether it is the first of a boot: of another clock,
    /// which counts from zero. `None` for a duplicate, one that was overtaken, and an earlier boot.
    pub(crate) fn take(&mut self, boot: &str, number: (u64, u64)) -> Option<bool> {
        let is_new_boot = self.boots.last().is_none_or(|last| last != boot);
        if is_new_boot {
            if self.boots.iter().any(|known| known == boot) || self.boots.len() >= BOOTS_MAX {
                return None;
            }
            self.boots.push(boot.to_owned());
            self.number = (0, 0);
        }
        if number <= self.number {
            return None;
        }
        self.number = number;
        Some(is_new_boot)
    }

    /// True for the newest message of the present boot, and for those before it.
    pub(crate) fn knows(&self, boot: &str, number: (u64, u64)) -> bool {
        self.boots.last().is_some_and(|last| last == boot) && number <= self.number
    }

    /// True if the newest message is this one, or a later one of the same process.
    pub(crate) fn has(&self, number: (u64, u64)) -> bool {
        self.number.0 == number.0 && number.1 <= self.number.1
    }
}

#[cfg(test)]
mod tests;
