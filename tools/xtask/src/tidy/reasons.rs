//! Rule: every dependency on other people's code has its reason in the manifest that uses it.
//!
//! Takes a manifest; returns a problem for each dependency without a comment above it or above its
//! block of lines. Dev-dependencies are exempt.

use super::Problem;
use super::tree::CrateManifest;

pub(super) fn check(manifest: &CrateManifest) -> Vec<Problem> {
    let mut reader = ManifestReader::default();
    let numbered = (1..).zip(manifest.text.lines());
    let unexplained = numbered.filter_map(|(number, line)| Some((number, reader.read(line)?)));
    unexplained
        .map(|(number, name)| {
            let what = format!("{name} has no reason; say in a comment above it what it is for");
            Problem::new(&manifest.path, number, what)
        })
        .collect()
}

/// The key that a line of a manifest begins with; empty for other lines.
pub(super) fn key_of(line: &str) -> &str {
    let end = line.find(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'));
    &line[..end.unwrap_or(0)]
}

/// Where in the manifest the reader is.
#[derive(Debug, Default)]
struct ManifestReader {
    is_among_dependencies: bool,
    has_reason: bool,
    /// Brackets opened by a value that continues over several lines.
    depth: usize,
}

impl ManifestReader {
    /// Reads one line; returns the name of a dependency without a reason.
    fn read<'line>(&mut self, line: &'line str) -> Option<&'line str> {
        let line = line.trim();
        if self.depth > 0 {
            self.count_brackets(line);
        } else if line.starts_with('#') {
            self.has_reason = true;
        } else if line.is_empty() {
            self.has_reason = false;
        } else if line.starts_with('[') {
            return self.read_header(line.trim_matches(['[', ']']));
        } else {
            self.count_brackets(line);
            return self.unexplained(key_of(line)).filter(|_| self.is_among_dependencies);
        }
        None
    }

    /// `[dependencies]` opens a list; `[dependencies.name]` is a dependency by itself.
    fn read_header<'line>(&mut self, header: &'line str) -> Option<&'line str> {
        let single = header.rsplit_once('.').filter(|(table, _)| is_list(table));
        let unexplained = single.and_then(|(_, name)| self.unexplained(name));
        self.is_among_dependencies = is_list(header);
        self.has_reason = false;
        unexplained
    }

    fn unexplained<'line>(&self, name: &'line str) -> Option<&'line str> {
        let is_ours = name == "durio" || name.starts_with("durio-");
        (!is_ours && !self.has_reason).then_some(name)
    }

    fn count_brackets(&mut self, line: &str) {
        let opened = line.matches(['[', '{']).count();
        self.depth = (self.depth + opened).saturating_sub(line.matches([']', '}']).count());
    }
}

/// True for the tables of the crate's non-test dependencies, on all targets or on some.
fn is_list(table: &str) -> bool {
    let name = table.rsplit('.').next().unwrap_or(table);
    matches!(name, "dependencies" | "build-dependencies")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let manifest = CrateManifest {
            crate_name: "durio-run".to_owned(),
            path: "Cargo.toml".to_owned(),
            text: text.to_owned(),
            dependencies: Vec::new(),
        };
        check(&manifest).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn a_dependency_without_a_comment_is_caught() {
        assert_eq!(found("[dependencies]\ndurio-units = \"1\"\nserde.workspace = true\n"), [3]);
    }

    #[test]
    fn one_comment_serves_a_group_without_a_gap() {
        assert!(
            found("[dependencies]\n# Saved forms.\nserde = \"1\"\nserde_json = \"1\"\n").is_empty()
        );
        assert_eq!(found("[dependencies]\n# Saved forms.\nserde = \"1\"\n\ncsv = \"1\"\n"), [5]);
    }

    #[test]
    fn a_comment_above_the_list_is_no_reason() {
        assert_eq!(found("# All of them.\n[dependencies]\nserde = \"1\"\n"), [3]);
    }

    #[test]
    fn tests_need_no_reason() {
        assert!(
            found("[package]\nname = \"x\"\n[dev-dependencies]\ntempfile = \"3\"\n").is_empty()
        );
    }

    #[test]
    fn values_over_several_lines_are_one_dependency() {
        let text = "[dependencies]\n# Calls.\nrustix = { version = \"1\", features = [\n  \"fs\",\n\n] }\ncsv = \"1\"\n";
        assert!(found(text).is_empty());
    }

    #[test]
    fn tables_of_targets_and_of_single_dependencies_are_read() {
        assert_eq!(found("[target.'cfg(unix)'.dependencies]\nnix = \"1\"\n"), [2]);
        assert_eq!(found("[dependencies.serde]\nversion = \"1\"\n"), [1]);
        assert!(found("# Saved forms.\n[dependencies.serde]\nversion = \"1\"\n").is_empty());
        assert!(found("[dependencies.durio-base]\npath = \"x\"\n").is_empty());
    }
}
