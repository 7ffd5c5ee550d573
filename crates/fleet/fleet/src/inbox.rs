//! The messages that wait between a link to the bus and its party, within limits.
//!
//! A status is complete in itself, and live figures are for the view alone: of each sender the newest
//! waits, in the place of the one before. Orders, answers, reports of relays and pieces of runs wait in
//! their order. A message without room is dropped, and said so: it is sent again, or asked for. Each kind
//! has its room, so that pieces of runs do not make hosts seem silent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use durio_agree::live::LIVE_KIND;
use durio_agree::relay::STATUSES_BYTES;
use durio_base::counted;

use crate::words::remark;

/// In each room: four times the hosts of a relay.
pub(crate) const MESSAGES_MAX: usize = 8_192;
/// The pieces of runs that are on their way at a time have 2 MiB, and 22 behind ten relays.
const BYTES_MAX: usize = 64 << 20;

/// The messages of one link that wait.
#[derive(Debug, Default)]
pub(crate) struct BusInbox(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    ordered: Room,
    superseded: Room,
    /// The newest message of each subject that has no order.
    newest: BTreeMap<String, Vec<u8>>,
    dropped: u64,
}

#[derive(Debug, Default)]
struct Room {
    messages: usize,
    bytes: usize,
}

/// A message that waits, until it is opened or dropped.
#[derive(Debug)]
pub(crate) struct WaitingMessage {
    inbox: Arc<BusInbox>,
    /// Absent once it is open.
    subject: Option<String>,
    /// Absent if the newest of the subject counts.
    bytes: Option<Vec<u8>>,
}

impl Room {
    /// Takes a message in, in the place of an earlier one of that length; false if there is no room.
    fn add(&mut self, earlier: Option<usize>, bytes: usize) -> bool {
        let messages = self.messages + usize::from(earlier.is_none());
        let bytes = self.bytes.saturating_sub(earlier.unwrap_or(0)).saturating_add(bytes);
        let has_room = messages <= MESSAGES_MAX && bytes <= BYTES_MAX;
        if has_room {
            (self.messages, self.bytes) = (messages, bytes);
        }
        has_room
    }
}

impl BusInbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message for the party; `None` if it has the place of an earlier one, or no room.
    pub(crate) fn receive(
        self: &Arc<Self>,
        subject: &str,
        bytes: Vec<u8>,
    ) -> Option<WaitingMessage> {
        let mut guard = self.lock();
        let Waiting { ordered, superseded, newest, .. } = &mut *guard;
        let is_newest = is_superseded(subject, bytes.len());
        let earlier = newest.get(subject).filter(|_| is_newest).map(Vec::len);
        let room = if is_newest { superseded } else { ordered };
        if !room.add(earlier, bytes.len()) {
            drop(guard);
            self.note_dropped(subject);
            return None;
        }
        let bytes = match is_newest {
            true => {
                newest.insert(subject.to_owned(), bytes);
                None
            }
            false => Some(bytes),
        };
        if earlier.is_some() {
            return None;
        }
        let (inbox, subject) = (Arc::clone(self), Some(subject.to_owned()));
        Some(WaitingMessage { inbox, subject, bytes })
    }

    /// Says that a message was dropped: the first, the second, the fourth and so on.
    pub(crate) fn note_dropped(&self, subject: &str) {
        let dropped = {
            let mut waiting = self.lock();
            waiting.dropped += 1;
            waiting.dropped
        };
        if dropped.is_power_of_two() {
            let messages = counted(dropped, "message");
            remark(&format!(
                "durio: {messages} dropped, the last on '{subject}': the bus delivers faster than \
                 this program reads; orders and results are sent again"
            ));
        }
    }
}

impl WaitingMessage {
    /// The subject and the bytes.
    pub(crate) fn open(mut self) -> (String, Vec<u8>) {
        self.leave().unwrap_or_default()
    }

    fn leave(&mut self) -> Option<(String, Vec<u8>)> {
        let subject = self.subject.take()?;
        let mut guard = self.inbox.lock();
        let Waiting { ordered, superseded, newest, .. } = &mut *guard;
        let (room, bytes) = match self.bytes.take() {
            Some(bytes) => (ordered, bytes),
            None => (superseded, newest.remove(&subject).unwrap_or_default()),
        };
        room.messages = room.messages.saturating_sub(1);
        room.bytes = room.bytes.saturating_sub(bytes.len());
        Some((subject, bytes))
    }
}

impl Drop for WaitingMessage {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whether the next message of this subject, c.CAMPAIGN.h.HOST.KIND, makes this one stale. A relay passes
/// on longer statuses of its hosts by its own subject.
fn is_superseded(subject: &str, bytes: usize) -> bool {
    let mut parts = subject.split('.');
    bytes <= STATUSES_BYTES
        && parts.nth(2) == Some("h")
        && matches!(parts.next_back(), Some("status" | LIVE_KIND))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "c.7f.h.db1.status";

    fn status(sender: &str, number: usize) -> Vec<u8> {
        format!("{{\"sender\":\"{sender}\",\"sequence\":{number}}}\n").into_bytes()
    }

    /// Messages and bytes of orders and results, and of statuses and figures.
    fn held(inbox: &BusInbox) -> [(usize, usize); 2] {
        let waiting = inbox.lock();
        assert_eq!(waiting.superseded.messages, waiting.newest.len());
        [&waiting.ordered, &waiting.superseded].map(|room| (room.messages, room.bytes))
    }

    #[test]
    fn of_a_thousand_statuses_of_a_host_the_newest_waits_and_of_orders_all_do() {
        let inbox = Arc::new(BusInbox::default());
        let first = inbox.receive(STATUS, status("db1", 0)).unwrap();
        for number in 1..1_000 {
            assert!(inbox.receive(STATUS, status("db1", number)).is_none());
        }
        let other = inbox.receive("c.7f.h.db2.status", status("db2", 7)).unwrap();
        let orders: Vec<WaitingMessage> = (0..10_u8)
            .map(|number| inbox.receive("c.7f.to.db1.start", vec![number]).unwrap())
            .collect();
        let length = status("db1", 999).len();
        assert_eq!(held(&inbox), [(10, 10), (2, length + status("db2", 7).len())]);
        assert_eq!(first.open(), (STATUS.to_owned(), status("db1", 999)));
        assert_eq!(other.open().1, status("db2", 7));
        let found: Vec<u8> = orders.into_iter().flat_map(|order| order.open().1).collect();
        assert_eq!(found, (0..10).collect::<Vec<u8>>());
        assert_eq!((held(&inbox), inbox.lock().dropped), ([(0, 0); 2], 0));
        // The next one is heard of again.
        assert!(inbox.receive(STATUS, status("db1", 1_000)).is_some());
    }

    #[test]
    fn a_result_beyond_the_limit_is_counted_as_dropped_and_statuses_have_their_own_room() {
        let inbox = Arc::new(BusInbox::default());
        let piece = |inbox: &Arc<BusInbox>| inbox.receive("c.7f.h.db1.piece", vec![0]);
        let mut waiting: Vec<WaitingMessage> =
            (0..MESSAGES_MAX).map(|_| piece(&inbox).unwrap()).collect();
        for dropped in 1..=3 {
            assert!(piece(&inbox).is_none());
            assert_eq!(inbox.lock().dropped, dropped);
        }
        assert_eq!(held(&inbox), [(8_192, 8_192), (0, 0)]);
        let status = inbox.receive(STATUS, status("db1", 1)).unwrap();
        // One that is not opened, as of a link that is gone, leaves its place as well.
        drop(waiting.pop());
        waiting.push(piece(&inbox).unwrap());
        assert!(piece(&inbox).is_none());
        drop((waiting, status));
        assert_eq!((held(&inbox), inbox.lock().dropped), ([(0, 0); 2], 4));
    }

    #[test]
    fn bytes_are_limited_as_well_also_of_a_status_that_grows() {
        let inbox = Arc::new(BusInbox::default());
        let piece = |bytes: usize| inbox.receive("c.7f.h.db1.piece", vec![0; bytes]);
        let (first, second) = (piece(BYTES_MAX - 1), piece(1));
        assert!(first.is_some() && second.is_some() && piece(1).is_none());
        assert_eq!((held(&inbox)[0], inbox.lock().dropped), ((2, 64 << 20), 1));
        let figures = |host: usize, bytes: usize| {
            inbox.receive(&format!("c.7f.h.db{host}.live"), vec![0; bytes])
        };
        let others: Vec<WaitingMessage> =
            (1..256).map(|host| figures(host, STATUSES_BYTES).unwrap()).collect();
        let grows = figures(256, STATUSES_BYTES - 2).unwrap();
        let small = figures(257, 1).unwrap();
        assert_eq!(held(&inbox)[1], (257, BYTES_MAX - 1));
        assert!(figures(256, STATUSES_BYTES - 1).is_none());
        assert_eq!((held(&inbox)[1], inbox.lock().dropped), ((257, BYTES_MAX), 1));
        assert!(figures(256, STATUSES_BYTES).is_none() && figures(258, 1).is_none());
        assert_eq!((held(&inbox)[1], inbox.lock().dropped), ((257, BYTES_MAX), 3));
        // The last that had room.
        assert_eq!(grows.open().1.len(), STATUSES_BYTES - 1);
        drop((first, second, others, small));
        assert_eq!(held(&inbox), [(0, 0); 2]);
    }

    #[test]
    fn a_long_status_which_may_be_of_any_host_of_a_relay_waits_in_its_order() {
        let inbox = Arc::new(BusInbox::default());
        let by_relay = |bytes: usize| inbox.receive("c.7f.h.gw1.status", vec![0; bytes]);
        let short = by_relay(STATUSES_BYTES).unwrap();
        assert!(by_relay(STATUSES_BYTES - 1).is_none());
        let long = [by_relay(STATUSES_BYTES + 1), by_relay(STATUSES_BYTES + 2)];
        let lengths = long.map(|message| message.unwrap().open().1.len());
        assert_eq!(lengths, [STATUSES_BYTES + 1, STATUSES_BYTES + 2]);
        assert_eq!(short.open().1.len(), STATUSES_BYTES - 1);
        assert_eq!(held(&inbox), [(0, 0); 2]);
    }

    #[test]
    fn statuses_and_figures_of_hosts_are_superseded_and_nothing_else_is() {
        for subject in ["c.7f.h.db1.status", "c.7f.h.db1,example.live"] {
            assert!(is_superseded(subject, 1), "{subject}");
        }
        for subject in [
            "c.7f.h.db1.piece",
            "c.7f.h.db1.answer",
            "c.7f.h.gw1.region",
            "c.7f.to.db1.start",
            "c.7f.to.gw1.status.stop",
            "c.7f.to.h.status",
            "j.h.status",
            "j.to.db1",
        ] {
            assert!(!is_superseded(subject, 1), "{subject}");
        }
    }
}
