//! `durio config`: shows the defaults in the user's file, and its path.

use durio_bench::BenchError;

use crate::config::Config;
use crate::exit_code::Exit;
use crate::output;

pub(crate) fn config() -> Result<Exit, BenchError> {
    let config = Config::read()?;
    let lines = config.lines();
    let text = match (&config.path, lines.is_empty()) {
        (None, _) => {
            "no configuration file: DURIO_CONFIG is empty, or there is no HOME\n".to_owned()
        }
        (Some(path), true) => {
            format!("{} sets nothing; durio config --help shows an example\n", path.display())
        }
        (Some(path), false) => format!("{} sets\n  {}\n", path.display(), lines.join("\n  ")),
    };
    output::answer_text(&text)?;
    Ok(Exit::Fine)
}
