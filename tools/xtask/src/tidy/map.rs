//! `cargo xtask tidy --map`: a map of the workspace.
//!
//! Takes manifests and sources; prints the crates by row, the highest first, each with its
//! sentence, its lines and its direct dependencies; how long functions are, and the share of
//! comments with reasons in the product. `rows` has the rules on dependencies.

use std::fmt::Write as _;

use syn::visit::Visit;

use super::rows::row_of;
use super::tree::{CrateManifest, SourceFile};

/// Draws the crates by row.
pub(super) fn draw(manifests: &[CrateManifest], sources: &[SourceFile]) -> String {
    let mut rooms: Vec<_> = manifests
        .iter()
        .filter_map(|manifest| Some((row_of(&manifest.crate_name)?, manifest)))
        .collect();
    rooms.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.crate_name.cmp(&b.1.crate_name)));
    let (mut text, mut sum) = (String::new(), [0, 0]);
    for (row, manifest) in rooms {
        let folder = manifest.path.trim_end_matches("/Cargo.toml");
        let own = sources.iter().filter(|source| source.is_in(folder));
        let [lines, tests] = own.map(lines_of).fold([0, 0], |a, b| [a[0] + b[0], a[1] + b[1]]);
        sum = [sum[0] + lines, sum[1] + tests];
        let name = folder.trim_start_matches("crates/");
        let about = description(&manifest.text);
        let _ = writeln!(text, "{row}  {name:<15} {lines:>6} {tests:>6}  {about}");
        let uses: Vec<_> = manifest.dependencies.iter().filter_map(|used| room(used)).collect();
        if !uses.is_empty() {
            let _ = writeln!(text, "{:>33} uses {}", "", uses.join(", "));
        }
    }
    let _ = writeln!(text, "   {:<15} {:>6} {:>6}\n", "all", sum[0], sum[1]);
    let _ = writeln!(text, "{}\n{}", functions(sources), comments(sources));
    format!("row crate            lines  tests\n{text}")
}

/// The functions of the product by their lines, from the signature to the brace.
fn functions(sources: &[SourceFile]) -> String {
    let mut all = Functions::default();
    for source in sources.iter().filter(|source| !is_test_file(&source.path)) {
        if let Ok(file) = syn::parse_file(product_of(source)) {
            all.path.clone_from(&source.path);
            all.visit_file(&file);
        }
    }
    let mut found = all.found;
    found.sort();
    let at = |per_mille: usize| {
        found.get(found.len() * per_mille / 1000).map_or(0, |function| function.0)
    };
    let longest = found.last().map_or("none", |function| function.1.as_str());
    let (median, p99, most) = (at(500), at(990), found.last().map_or(0, |function| function.0));
    format!("{} functions: median {median} lines, p99 {p99}, max {most} ({longest})", found.len())
}

/// Lines of each function, and where it is.
#[derive(Default)]
struct Functions {
    path: String,
    found: Vec<(usize, String)>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let (first, last) = (signature.fn_token.span.start(), body.brace_token.span.close().end());
        let lines = last.line + 1 - first.line;
        self.found.push((lines, format!("{}: {}", self.path, signature.ident)));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.add(&it.sig, &it.block);
        syn::visit::visit_item_fn(self, it);
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        self.add(&it.sig, &it.block);
        syn::visit::visit_impl_item_fn(self, it);
    }
}

/// The share of lines that are `//` comments: those of documentation are not counted.
fn comments(sources: &[SourceFile]) -> String {
    let product = sources.iter().filter(|source| !is_test_file(&source.path));
    let lines = product.flat_map(|source| product_of(source).lines()).map(str::trim);
    let (mut all, mut reasons) = (0_u32, 0_u32);
    for line in lines.filter(|line| !line.is_empty()) {
        let is_documentation = line.starts_with("///") || line.starts_with("//!");
        all += 1;
        reasons += u32::from(line.starts_with("//") && !is_documentation);
    }
    let share = f64::from(reasons) * 100.0 / f64::from(all.max(1));
    format!("{reasons} lines of comments that are no documentation, {share:.1} %")
}

/// The name of one of our crates, without the common prefix.
fn room(name: &str) -> Option<&str> {
    row_of(name).map(|_| name.trim_start_matches("durio-"))
}

fn description(manifest: &str) -> &str {
    let line = manifest.lines().find_map(|line| line.strip_prefix("description = "));
    // A registry shows the sentence alone, so the sentence names the project there.
    line.unwrap_or_default().trim_matches('"').trim_start_matches("part of durio: ")
}

/// Lines that are not blank: of the product, and of its tests.
pub(super) fn lines_of(source: &SourceFile) -> [usize; 2] {
    let count = |text: &str| text.lines().filter(|line| !line.trim().is_empty()).count();
    if is_test_file(&source.path) {
        return [0, count(&source.text)];
    }
    let product = count(product_of(source));
    // The attribute before the tests and the line that opens them are neither.
    let tests = (count(&source.text) - product).saturating_sub(2);
    [product, tests]
}

/// The part of a file before its tests.
pub(super) fn product_of(source: &SourceFile) -> &str {
    source
        .text
        .split_once("#[cfg(test)]\nmod tests {")
        .map_or(source.text.as_str(), |parts| parts.0)
}

pub(super) fn is_test_file(path: &str) -> bool {
    path.contains("/tests/")
        || path.starts_with("tools/testkit/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_apart_wherever_they_stand() {
        let inside = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let count = |path, text| lines_of(&SourceFile::new(path, text));
        assert_eq!(count("crates/measure/run/src/job.rs", inside), [1, 2]);
        assert_eq!(count("crates/measure/run/src/job/tests.rs", "fn a() {}\n"), [0, 1]);
        assert_eq!(count("crates/measure/run/tests/cli/x.rs", "fn a() {}\n"), [0, 1]);
    }

    #[test]
    fn functions_are_measured_with_their_signature_and_tests_are_not() {
        let text = "fn a(\n    b: u8,\n) {\n    // Why.\n    c();\n}\nimpl D {\n    fn e() {}\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn f() {\n\n\n\n\n\n\n\n    }\n}\n";
        let sources = [SourceFile::new("crates/x/src/y.rs", text)];
        let expected = "2 functions: median 6 lines, p99 6, max 6 (crates/x/src/y.rs: a)";
        assert_eq!(functions(&sources), expected);
        assert_eq!(comments(&sources), "1 lines of comments that are no documentation, 11.1 %");
    }

    #[test]
    fn a_crate_is_drawn_with_its_row_its_sentence_and_what_it_uses() {
        let manifest = CrateManifest {
            crate_name: "durio-plan".to_owned(),
            path: "crates/core/plan/Cargo.toml".to_owned(),
            text: "description = \"part of durio: the plan as data\"\n".to_owned(),
            dependencies: vec!["durio-base".to_owned(), "serde".to_owned()],
        };
        let map = draw(&[manifest], &[SourceFile::new("crates/core/plan/src/lib.rs", "//! x\n")]);
        assert!(map.contains("3  core/plan            1      0  the plan as data\n"), "{map}");
        assert!(map.contains(" uses base\n"), "{map}");
    }
}
