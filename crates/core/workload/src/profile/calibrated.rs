//! A profile whose software takes longer or shorter, as measured on another machine or build. The
//! result is a text with those times and their source; `durio profile calibrate` finds the factor.

use durio_base::Nanos;
use toml::de::DeTable;

use super::Profile;
use super::setting::{entry, inner};
use crate::DefinitionError;

/// The source of calibrated times.
const SOURCE: &str = "calibrated";

/// The text of a profile in which every time of the software is `factor` times as long; `document` says where
/// that is from.
///
/// # Errors
/// If the text is not a profile, or it has no `[software]`.
pub fn calibrated_text(
    name: &str,
    text: &str,
    factor: f64,
    document: &str,
) -> Result<String, DefinitionError> {
    let none = || DefinitionError(format!("'{name}' has no [software] to calibrate"));
    let profile = Profile::parse(name, text)?;
    let software = profile.software.ok_or_else(none)?;
    let table = DeTable::parse(text).map_err(|error| DefinitionError(error.to_string()))?;
    let keys = inner(table.get_ref(), "software").ok_or_else(none)?;
    let time = |(key, time): (&str, Nanos)| {
        let nanos = times_as_long(time, factor).get();
        let fact = format!("{{ value = \"{nanos}ns\", from = \"{SOURCE}\" }}");
        Some((entry(keys, key)?.1.span(), fact))
    };
    let mut changes: Vec<_> = software.times().into_iter().filter_map(time).collect();
    // An earlier calibration's document is replaced.
    let earlier = inner(table.get_ref(), "sources").and_then(|it| inner(it, SOURCE));
    let earlier = earlier.and_then(|it| entry(it, "document"));
    changes.extend(earlier.map(|(_, old)| (old.span(), quoted(document))));
    // From the end, so that places before it stay where they are.
    changes.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let mut changed = text.to_owned();
    for (place, new) in changes {
        changed.replace_range(place, &new);
    }
    if earlier.is_none() {
        let document = quoted(document);
        let source = format!("\n[sources.{SOURCE}]\nkind = \"fitted\"\ndocument = {document}\n");
        changed.push_str(&source);
    }
    for source in &profile.sources {
        if !changed.contains(&format!("from = \"{}\"", source.name)) {
            remove_table(&mut changed, &format!("[sources.{}]", source.name));
        }
    }
    // Tables in other forms than the built-in profiles have.
    let is_right = |it: &Profile| {
        (&it.log, &it.streams, &it.thresholds)
            == (&profile.log, &profile.streams, &profile.thresholds)
    };
    if Profile::parse(name, &changed).is_ok_and(|it| is_right(&it)) {
        return Ok(changed);
    }
    Err(DefinitionError(format!(
        "the text of '{name}' cannot be changed: write its tables as built-in profiles have them, a line \
         [sources.NAME] for each source and one line for each time of [software]"
    )))
}

/// Removes a table whose header is a line: until the next header.
fn remove_table(text: &mut String, header: &str) {
    let Some(begin) = text.find(&format!("\n{header}\n")) else { return };
    let behind = begin + 1 + header.len();
    let end = text.get(behind..).and_then(|it| it.find("\n[")).map_or(text.len(), |it| behind + it);
    text.replace_range(begin..end, "");
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "microseconds by a factor; what is too long or negative is refused when it is read"
)]
fn times_as_long(time: Nanos, factor: f64) -> Nanos {
    Nanos::new((time.get() as f64 * factor).round() as u64)
}

/// As a TOML string, without characters that need escapes.
fn quoted(text: &str) -> String {
    let plain = |it: char| match it {
        '"' | '\\' => '\'',
        it if it.is_control() => ' ',
        it => it,
    };
    format!("\"{}\"", text.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{profile, profile_names, profile_text};

    #[test]
    fn every_profile_that_is_predicted_can_be_calibrated_again_and_again() {
        let mut calibrated = 0;
        for name in profile_names() {
            let before = profile(name).unwrap();
            let text = profile_text(name).unwrap();
            let Some(software) = before.software.as_ref().map(|it| it.software()) else {
                let error = calibrated_text(name, text, 2.0, "x").unwrap_err();
                assert!(error.to_string().contains("no [software]"), "{error}");
                continue;
            };
            let once = calibrated_text(name, text, 2.0, "first \"here\"").unwrap();
            let twice = calibrated_text(name, &once, 1.5, "second\nline").unwrap();
            let after = Profile::parse(name, &twice).unwrap();
            assert_eq!(after.source(SOURCE).unwrap().document, "second line");
            let now = after.software.as_ref().unwrap().software();
            assert_eq!(now.before.get(), 3 * software.before.get(), "{name}");
            assert_eq!(now.wake.get(), 3 * software.wake.get(), "{name}");
            assert_eq!(now.apply.map(Nanos::get), software.apply.map(|it| 3 * it.get()), "{name}");
            assert_eq!((now.yields, now.turn), (software.yields, software.turn), "{name}");
            assert_eq!((after.log, after.streams), (before.log, before.streams), "{name}");
            calibrated += 1;
        }
        assert!(calibrated > 5, "{calibrated}");
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        calibrated_text("mine", "schema = 1", 1.0, "x").unwrap_err();
    }
}
