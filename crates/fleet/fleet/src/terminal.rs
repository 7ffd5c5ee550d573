//! Lines on stderr: what a campaign reports, remarks that stay, and lines of progress that the next ones
//! replace. The figures in these also go to a page and to stdout.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durio_agree::live::LiveDocument;
use durio_base::{Bytes, counted, visible};
use durio_command::CommandError;
use rustix::io::ioctl_fionread;
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

use crate::live_view::{self, LIVE_FILE, SharedDocument};
use crate::options::{CommonArguments, LiveFormat};
use crate::words::remark;

/// Between two moments of progress on a terminal, and elsewhere.
const EVERY: Duration = Duration::from_secs(1);
const EVERY_IN_FILES: Duration = Duration::from_secs(10);

/// Back to the first column, and the rest of the line removed (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";
/// The same a line above (CUU).
const CLEAR_ABOVE: &str = "\x1b[A\r\x1b[K";

#[derive(Debug)]
pub(crate) struct ProgressTerminal {
    is_terminal: bool,
    is_quiet: bool,
    /// When figures were made last, and when they were shown.
    made: Instant,
    shown: Instant,
    /// Lines of progress on the terminal.
    lines: usize,
    /// A question is on the terminal, which progress would overwrite.
    pub(crate) is_asking: bool,
    /// Where figures go to stdout.
    json: Option<JsonOutput>,
    page: Option<SharedDocument>,
}

/// Documents on stdout, by a thread: a reader that stands still must not delay heartbeats.
#[derive(Debug)]
struct JsonOutput {
    lines: SyncSender<String>,
    thread: JoinHandle<()>,
}

impl JsonOutput {
    fn start() -> Self {
        let (lines, written) = sync_channel::<String>(1);
        let thread = thread::spawn(move || {
            for line in written {
                let mut out = io::stdout().lock();
                if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
                    // A reader that is gone must not end a campaign.
                    return;
                }
            }
        });
        Self { lines, thread }
    }
}

impl ProgressTerminal {
    pub(crate) fn new(is_quiet: bool) -> Self {
        let (is_terminal, now) = (io::stderr().is_terminal(), Instant::now());
        Self {
            is_terminal,
            is_quiet,
            made: now,
            shown: now,
            lines: 0,
            is_asking: false,
            json: None,
            page: None,
        }
    }

    /// # Errors
    /// If the page cannot be served at its address.
    pub(crate) fn of_campaign(common: &CommonArguments) -> Result<Self, CommandError> {
        let mut terminal = Self::new(common.quiet);
        terminal.json = common.live.map(|LiveFormat::Json| JsonOutput::start());
        if let Some(address) = common.listen {
            let page = SharedDocument::default();
            live_view::serve(address, SharedDocument::clone(&page))?;
            terminal.page = Some(page);
        }
        Ok(terminal)
    }

    /// Ends the documents on stdout; false if none were asked for.
    pub(crate) fn end_json(&mut self) -> bool {
        let Some(JsonOutput { lines, thread }) = self.json.take() else { return false };
        drop(lines);
        // A panic there was reported by itself.
        let _ = thread.join();
        true
    }

    pub(crate) fn show_help(&mut self) {
        if can_ask() && !self.is_quiet {
            self.remark(TYPED_HELP);
        }
    }

    pub(crate) fn typed(&self) -> Vec<TypedOrder> {
        match self.is_asking {
            true => Vec::new(),
            false => typed_lines().lines().filter_map(TypedOrder::parse).collect(),
        }
    }

    /// A line that stays.
    pub(crate) fn remark(&mut self, line: &str) {
        self.clear();
        remark(line);
    }

    /// Once a second: shows the fleet, and keeps its figures in the campaign's folder.
    pub(crate) fn progress(&mut self, folder: &Path, document: impl FnOnce() -> LiveDocument) {
        if self.made.elapsed() < EVERY {
            return;
        }
        self.made = Instant::now();
        let document = document();
        if let Ok(mut text) = serde_json::to_string(&document) {
            save_figures(folder, &text);
            if let Some(json) = &self.json {
                text.push('\n');
                // What a slow reader has no room for is left out: the next document is newer.
                let _ = json.lines.try_send(text);
            }
        }
        let every = if self.is_terminal { EVERY } else { EVERY_IN_FILES };
        if !self.is_quiet && !self.is_asking && self.shown.elapsed() >= every {
            self.shown = Instant::now();
            self.show(&document);
        }
        if let Some(page) = &self.page {
            *live_view::lock(page) = document;
        }
    }

    fn show(&mut self, document: &LiveDocument) {
        if !self.is_terminal {
            remark(&live_view::lines(document, usize::MAX).join("; "));
            return;
        }
        let size = tcgetwinsize(io::stderr()).ok();
        // Some terminals do not know theirs.
        let known = |size: Option<u16>, other| size.filter(|size| *size > 0).unwrap_or(other);
        let width = usize::from(known(size.map(|size| size.ws_col), 80)) - 1;
        let height = usize::from(known(size.map(|size| size.ws_row), 24));
        let lines = live_view::lines(document, width).into_iter();
        // What wraps or scrolls could not be replaced.
        let lines: Vec<String> = lines
            .take((height - 1).max(1))
            .map(|line| visible(&line).chars().take(width).collect())
            .collect();
        self.clear();
        // A closed terminal must not end a campaign.
        let _ = write!(io::stderr().lock(), "{}", lines.join("\n"));
        self.lines = lines.len();
    }

    pub(crate) fn clear(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if lines > 0 {
            let above = CLEAR_ABOVE.repeat(lines - 1);
            let _ = write!(io::stderr().lock(), "{CLEAR}{above}");
        }
    }
}

/// For `durio fleet status`. Not synced: after a crash nothing needs them, and a slow disk must not
/// delay heartbeats.
fn save_figures(folder: &Path, text: &str) {
    let new = folder.join(".live.json.new");
    // A full disk is told by the record.
    let _ = fs::write(&new, text).and_then(|()| fs::rename(&new, folder.join(LIVE_FILE)));
}

/// For users who see the progress of a campaign.
const TYPED_HELP: &str = "durio: type q and Enter to stop, or skip HOST to continue without a host";

/// What the operator types while a campaign runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TypedOrder {
    Stop,
    Skip(String),
    Unknown,
}

impl TypedOrder {
    fn parse(line: &str) -> Option<Self> {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [] => None,
            ["q"] => Some(Self::Stop),
            ["skip", host] => Some(Self::Skip(host.to_owned())),
            _ => Some(Self::Unknown),
        }
    }
}

/// The lines that were typed since the last call. A process in the background may not read, and none
/// waits for a line.
fn typed_lines() -> String {
    let stdin = io::stdin();
    let is_ours = || tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
    let has_lines = || ioctl_fionread(&stdin).is_ok_and(|count| count > 0);
    let mut bytes = [0; 1024];
    let count = match stdin.is_terminal() && is_ours() && has_lines() {
        true => rustix::io::read(&stdin, &mut bytes).unwrap_or_default(),
        false => 0,
    };
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

/// True if a question can be asked and answered.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// On more hosts than this their number is typed, because a habit types `y`.
const HOSTS_BY_YES: u64 = 20;

/// What is asked before anything is written.
#[derive(Debug)]
pub(crate) struct RunQuestion {
    text: String,
    /// The answer; without one a yes.
    phrase: Option<String>,
}

impl RunQuestion {
    /// `overwritten` is the size of existing files and devices that are written to.
    pub(crate) fn new(hosts: u64, overwritten: Option<Bytes>) -> Self {
        let on = counted(hosts, "host");
        let (text, phrase) = match overwritten {
            None if hosts <= HOSTS_BY_YES => (format!("Run it on {on}? [y/N] "), None),
            None => (format!("Run it on {on}? "), Some(hosts.to_string())),
            Some(bytes) => (
                format!("It overwrites {bytes} on {on}. Run it? "),
                Some(format!("{hosts} {bytes}")),
            ),
        };
        let text = match &phrase {
            Some(phrase) => format!("{text}Type '{phrase}' to confirm: "),
            None => text,
        };
        Self { text, phrase }
    }

    fn accepts(&self, answer: &str) -> bool {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        match &self.phrase {
            Some(phrase) => words(answer) == words(phrase),
            None => matches!(answer.trim(), "y" | "Y" | "yes"),
        }
    }

    /// True if the answer that is typed is a yes.
    pub(crate) fn ask(&self) -> bool {
        let _ = write!(io::stderr().lock(), "{}", self.text);
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).is_ok() && self.accepts(&answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_line_stops_the_campaign_or_leaves_a_host_out() {
        let skip = TypedOrder::Skip("db3".to_owned());
        for (line, expected) in [
            ("q", Some(TypedOrder::Stop)),
            ("  skip  db3 ", Some(skip)),
            ("", None),
            ("skip", Some(TypedOrder::Unknown)),
            ("skip db3 db4", Some(TypedOrder::Unknown)),
            ("y", Some(TypedOrder::Unknown)),
        ] {
            assert_eq!(TypedOrder::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn many_hosts_and_what_is_overwritten_are_typed_back_and_a_few_new_files_take_a_yes() {
        let few = RunQuestion::new(20, None);
        assert_eq!(few.text, "Run it on 20 hosts? [y/N] ");
        assert!(few.accepts("y\n") && few.accepts("yes") && !few.accepts("20") && !few.accepts(""));
        let many = RunQuestion::new(21, None);
        assert_eq!(many.text, "Run it on 21 hosts? Type '21' to confirm: ");
        assert!(many.accepts(" 21\n"));
        assert!(["y", "yes", "20", "2 1", ""].iter().all(|answer| !many.accepts(answer)));
        let destroying = RunQuestion::new(1, Some(Bytes::from_mib(3 << 20)));
        let text = "It overwrites 3 TiB on 1 host. Run it? Type '1 3 TiB' to confirm: ";
        assert_eq!(destroying.text, text);
        assert!(destroying.accepts("1  3 TiB\n") && !destroying.accepts("1"));
        assert!(!destroying.accepts("y") && !destroying.accepts("1 3 GiB"));
    }

    #[test]
    fn figures_are_made_once_a_second_for_the_folder_and_the_page() {
        let folder = tempfile::tempdir().unwrap();
        let mut terminal = ProgressTerminal::new(true);
        let page = SharedDocument::default();
        terminal.page = Some(SharedDocument::clone(&page));
        let before = |millis: u64| {
            let now = Instant::now();
            now.checked_sub(Duration::from_millis(millis)).unwrap_or(now)
        };
        terminal.made = before(500);
        terminal.progress(folder.path(), || panic!("half a second is too early"));
        terminal.made = before(1_000);
        let document = LiveDocument { name: "check".to_owned(), ..LiveDocument::default() };
        terminal.progress(folder.path(), || document.clone());
        assert_eq!(*live_view::lock(&page), document);
        let saved = fs::read(folder.path().join(LIVE_FILE)).unwrap();
        assert_eq!(serde_json::from_slice::<LiveDocument>(&saved).unwrap(), document);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        terminal.progress(folder.path(), || panic!("it was just made"));
    }
}
