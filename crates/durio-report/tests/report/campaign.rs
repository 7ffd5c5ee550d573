//! What a reader finds of a campaign.

use durio_report::{Format, Options};

use crate::{campaign_sample, written, written_with};

#[test]
fn text_shows_sections_with_phases_knee_and_limits_and_no_block_per_step() {
    let text = written(Format::Text, &campaign_sample::campaign());
    std::fs::write("/tmp/g-campaign.txt", &text).unwrap();
    std::fs::write("/tmp/g-campaign.html", written(Format::Html, &campaign_sample::campaign()))
        .unwrap();
}
