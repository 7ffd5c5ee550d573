//! A calibration as a document: the database without a disk next to its model.
//!
//! Shows [`CalibrationFindings`]: a headline, a row for each number of clients, doubts.

use durio_analyse::calibration::{CalibrationFindings, CalibrationPoint, median};
use durio_base::counted;

use crate::Report;
use crate::document::{Cell, Document, Section, Table, Tone};
use crate::figures::{percent, rate_bare};

/// Processors that others may take before a round without a remark.
const OTHERS_TOLD: f64 = 0.1;

/// From this deviation on, the document says that predictions miss the wanted accuracy.
const OFF_TOLD: f64 = 0.15;

impl Report for CalibrationFindings {
    fn document(&self) -> Document {
        let mut document = Document::new("durio profile calibrate", &self.database);
        let mut section = Section::default();
        let (least, most) = self.factor_range;
        let text = format!(
            "here the database's software takes {:.2} times as long as the profile says ({least:.2} to {most:.2})",
            self.factor
        );
        section.say(Tone::Strong, text);
        let titles = ["clients", "database/s", "rounds", "profile/s", "calibrated/s", "last round"];
        let table = Table::new(titles).with_words(&["rounds"]);
        section.table(table.with(self.points.iter().map(row)));
        section.note(
            "transactions without a disk, medians of the rounds: of the database as the command loaded it, of its \
             model with the profile's times and with calibrated ones. Last round: calibrated ÷ database. In \
             brackets: the middle half of what each round and number of clients says",
        );
        doubts(self).iter().for_each(|it| section.toned(Tone::Warning, "doubt", it));
        document.push(section);
        document
    }
}

fn row(point: &CalibrationPoint) -> Vec<Cell> {
    let least = point.real.iter().copied().fold(f64::INFINITY, f64::min);
    let most = point.real.iter().copied().fold(0.0, f64::max);
    vec![
        Cell::text(point.clients.to_string()),
        Cell::Rate(median(&point.real)),
        Cell::text(format!("{} to {}", rate_bare(least), rate_bare(most))),
        Cell::Rate(median(&point.once)),
        Cell::Rate(point.calibrated),
        Cell::Number(point.ratio()),
    ]
}

fn doubts(findings: &CalibrationFindings) -> Vec<String> {
    let mut doubts = Vec::new();
    if findings.scatters() {
        doubts.push(
            "rounds and numbers of clients disagree: calibrate again on a quieter machine".into(),
        );
    }
    for point in &findings.points {
        let off = (point.ratio() - 1.0).abs();
        if off > OFF_TOLD {
            doubts.push(format!(
                "with {} the model is {} off: expect predictions to be as far off",
                counted(point.clients.into(), "client"),
                percent(off)
            ));
        }
    }
    if findings.others > OTHERS_TOLD {
        let others = findings.others;
        doubts.push(format!("others took up to {others:.1} of a processor between the rounds"));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Options, write};

    #[test]
    fn a_calibration_says_the_factor_how_near_it_came_and_what_to_doubt() {
        let point = |clients, real: f64, calibrated| CalibrationPoint {
            clients,
            real: vec![real * 0.9, real * 1.1, real],
            once: vec![real / 2.0],
            twice: vec![real / 4.0],
            calibrated,
        };
        let findings = CalibrationFindings {
            schema: durio_analyse::calibration::CALIBRATION_SCHEMA,
            database: "redis".to_owned(),
            command: "load".to_owned(),
            factor: 0.5,
            factor_range: (0.4, 0.6),
            points: vec![point(1, 1000.0, 1020.0), point(32, 8000.0, 10_000.0)],
            others: 0.3,
        };
        let mut bytes = Vec::new();
        write(Format::Text, &findings, &Options::default(), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        for said in [
            "takes 0.50 times as long as the profile says (0.40 to 0.60)",
            "900 to 1.1 k",
            "calibrate again",
            "with 32 clients the model is 25",
            "up to 0.3 of a processor",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        assert!(!text.contains("with 1 client the model"), "{text}");
    }
}
