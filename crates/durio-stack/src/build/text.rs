//! What would be done, and what was cleaned up, in words.
//!
//! In: a declared stack, or outcomes of cleaning. Out: lines for people. Not here: printing.

use std::fmt;

use super::clean::{CleanOutcome, CleanState};
use super::error::BuildError;
use super::place::Place;
use super::plan::commands;
use crate::DeclaredStack;

/// Every command that would build the stack, layer by layer, and below it what would undo it.
/// Names that only the kernel knows stand in braces.
///
/// # Errors
/// As [`check_declared`](super::check_declared).
pub fn plan_text(stack: &DeclaredStack, place: &Place) -> Result<String, BuildError> {
    let commands = commands(stack, place)?;
    let mut text = format!("stack {}\n", stack.name);
    for (index, layer) in stack.layers.iter().enumerate() {
        add(&mut text, &format!("  layer {}: {}", index + 1, layer.kind.name()));
        for command in commands.iter().filter(|command| command.layer == index) {
            add(&mut text, &format!("    {}", command.action));
            if let Some(undo) = &command.undo {
                add(&mut text, &format!("      undone by: {undo}"));
            }
        }
    }
    Ok(text)
}

fn add(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

impl fmt::Display for CleanOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stack =
            if self.stack.is_empty() { String::new() } else { format!(" ({})", self.stack) };
        write!(f, "{}{stack}: ", self.id)?;
        match &self.state {
            CleanState::Alive { pid } => write!(f, "process {pid} still uses it; left alone"),
            CleanState::Cleaned { undone } => write!(f, "cleaned up{}", list("undone", undone)),
            CleanState::Kept { undone, failures } => {
                let failures = list("not undone", failures);
                write!(f, "not all could be undone; try again{}{failures}", list("undone", undone))
            }
            CleanState::Unreadable(why) => {
                write!(f, "its journal cannot be read ({why}); nothing was touched")
            }
        }
    }
}

fn list(word: &str, lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {word}: {line}")).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::build::test_stacks::{ext4, loops, stack};

    #[test]
    fn a_plan_shows_each_layer_with_its_commands_and_their_undo() {
        let place = Place::with_id("abc1234", Path::new("/files"));
        let text = plan_text(&stack(vec![loops(1, 64), ext4()]), &place).unwrap();
        let mkfs = text.lines().position(|line| line.starts_with("    mkfs.ext4")).unwrap();
        let layer = text.lines().position(|line| line == "  layer 2: ext4").unwrap();
        assert!(text.starts_with("stack test\n  layer 1: loop\n") && layer < mkfs, "{text}");
        assert!(text.contains("\n      undone by: umount /run/durio/durioabc1234\n"), "{text}");
        assert!(plan_text(&stack(vec![ext4()]), &place).is_err());
    }

    #[test]
    fn each_outcome_says_what_was_done_and_what_was_not() {
        let text =
            |state| CleanOutcome { id: "abc1234".into(), stack: "s".into(), state }.to_string();
        assert_eq!(
            text(CleanState::Alive { pid: 7 }),
            "abc1234 (s): process 7 still uses it; left alone"
        );
        let undone = vec!["rmmod brd".to_owned()];
        assert_eq!(
            text(CleanState::Cleaned { undone: undone.clone() }),
            "abc1234 (s): cleaned up\n  undone: rmmod brd"
        );
        let kept = text(CleanState::Kept { undone, failures: vec!["umount /x: busy".into()] });
        assert!(kept.ends_with("\n  undone: rmmod brd\n  not undone: umount /x: busy"), "{kept}");
        assert!(text(CleanState::Unreadable("empty".into())).contains("nothing was touched"));
    }
}
