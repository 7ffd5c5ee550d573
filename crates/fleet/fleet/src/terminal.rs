//! Lines on stderr: what a campaign reports, remarks that stay, and lines of progress that the next ones
//! replace. The figures in these also go to a page and to stdout.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durio_agree::live::LiveDocument;
use durio_base::visible;
use durio_command::CommandError;
use rustix::termios::tcgetwinsize;

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

    /// Ends the documents on stdout; false if there were none.
    pub(crate) fn end_json(&mut self) -> bool {
        let Some(JsonOutput { lines, thread }) = self.json.take() else { return false };
        drop(lines);
        // A panic there was reported by itself.
        let _ = thread.join();
        true
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

/// True if a question can be asked and answered.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Reads the answer to a question of yes or no.
pub(crate) fn agreed(question: &str) -> bool {
    let _ = write!(io::stderr().lock(), "{question} [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
