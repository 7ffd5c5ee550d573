//! What each layer of a stack leaves of what lies below it.
//!
//! In: the same workload's rate and latency on each layer. Out: shares and costs. Not here: which
//! layers there are, and RAID, whose share has a theory of its own
//! ([`raid_efficiency`](crate::raid_efficiency)).

use serde::{Deserialize, Serialize};

use crate::Declined;

/// A layer, as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Its name, for the reader.
    pub name: String,
    /// Position of the layer that it lies on, from zero, before its own; `None` for raw storage.
    pub below: Option<usize>,
    /// Operations per second.
    pub rate_per_second: f64,
    /// Mean latency, if measured.
    pub latency_ns_mean: Option<f64>,
}

/// What a layer costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerCost {
    /// Its name.
    pub name: String,
    /// Its rate as a share of that of the raw storage at the bottom; 1 for that itself.
    pub share_of_raw: f64,
    /// Its rate as a share of that of the layer just below it; 1 for raw storage.
    pub share_of_below: f64,
    /// How many times slower than raw: 1 ÷ `share_of_raw`.
    pub slowdown: f64,
    /// Mean latency added to that of the layer just below; below zero if it is faster.
    pub latency_ns_added: Option<f64>,
    /// Mean latency added to that of the raw storage.
    pub latency_ns_added_to_raw: Option<f64>,
}

/// Most layers that are taken.
pub const LAYERS_MAX: usize = 1_000;

/// Shares and costs of each layer, in the order given.
///
/// # Errors
///
/// [`Declined`] without a layer, with too many, with a rate or latency that is no figure, or with a
/// layer that lies on none of those before it.
pub fn layer_costs(layers: &[Layer]) -> Result<Vec<LayerCost>, Declined> {
    Declined::unless_enough("layers", layers.len(), 1)?;
    Declined::if_too_many("layers", layers.len(), LAYERS_MAX)?;
    Declined::unless_positive("rate", layers.iter().map(|layer| layer.rate_per_second))?;
    Declined::unless_positive("latency", layers.iter().filter_map(|layer| layer.latency_ns_mean))?;
    layers.iter().enumerate().map(|(index, layer)| cost(layers, index, layer)).collect()
}

fn cost(layers: &[Layer], index: usize, layer: &Layer) -> Result<LayerCost, Declined> {
    let raw = raw_below(layers, index, layer)?;
    let below = layer.below.and_then(|below| layers.get(below)).unwrap_or(layer);
    let added = |other: &Layer| Some(layer.latency_ns_mean? - other.latency_ns_mean?);
    Ok(LayerCost {
        name: layer.name.clone(),
        share_of_raw: layer.rate_per_second / raw.rate_per_second,
        share_of_below: layer.rate_per_second / below.rate_per_second,
        slowdown: raw.rate_per_second / layer.rate_per_second,
        latency_ns_added: added(below),
        latency_ns_added_to_raw: added(raw),
    })
}

/// The raw storage at the bottom: each layer lies on one before it, so that this ends.
fn raw_below<'a>(
    layers: &'a [Layer],
    index: usize,
    layer: &'a Layer,
) -> Result<&'a Layer, Declined> {
    let (mut at, mut found) = (index, layer);
    while let Some(below) = found.below {
        let under = layers.get(below).filter(|_| below < at);
        found = under.ok_or_else(|| Declined::NoSuchLayout {
            why: format!("layer '{}' lies on none of the layers given before it", found.name),
        })?;
        at = below;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(name: &str, below: Option<usize>, rate: f64, latency_us: f64) -> Layer {
        Layer {
            name: name.into(),
            below,
            rate_per_second: rate,
            latency_ns_mean: Some(latency_us * 1e3),
        }
    }

    /// "Random Write Performance Test Across Filesystems and RAID Configurations", 6 September
    /// 2025: 4 KiB random writes on memory block devices, 16 jobs, in fio's figures.
    fn on_memory() -> Vec<Layer> {
        vec![
            layer("raw", None, 3_461_000.0, 4.24),
            layer("ext4", Some(0), 95_000.0, 167.96),
            layer("xfs", Some(0), 59_400.0, 268.93),
            layer("btrfs", Some(0), 39_300.0, 406.82),
            layer("zfs", Some(0), 87_400.0, 182.52),
            layer("md RAID5", Some(0), 66_100.0, 241.46),
            layer("ext4 on RAID5", Some(5), 49_400.0, 323.22),
            layer("xfs on RAID5", Some(5), 27_300.0, 585.19),
            layer("btrfs on RAID5", Some(5), 24_800.0, 644.73),
            layer("raidz1", Some(0), 106_000.0, 150.98),
        ]
    }

    #[test]
    fn shares_of_raw_memory_are_those_published_to_two_digits() {
        let published = [100.0, 2.7, 1.7, 1.1, 2.5, 1.9, 1.4, 0.79, 0.72, 3.1];
        for (found, published) in layer_costs(&on_memory()).unwrap().iter().zip(published) {
            let percent = found.share_of_raw * 100.0;
            let rounded = if percent < 1.0 { 0.005 } else { 0.05 };
            assert!((percent - published).abs() <= rounded, "{}: {percent} %", found.name);
        }
    }

    #[test]
    fn a_layer_is_compared_with_the_one_it_lies_on() {
        let costs = layer_costs(&on_memory()).unwrap();
        // ext4 on RAID5: 49.4 of 66.1 thousand, 81.76 µs more than RAID5 alone.
        assert!((costs[6].share_of_below - 0.747).abs() < 0.001);
        assert!((costs[6].latency_ns_added.unwrap() - 81_760.0).abs() < 1.0);
        assert!((costs[6].latency_ns_added_to_raw.unwrap() - 318_980.0).abs() < 1.0);
        // The publication says 36.44 times, of figures with more digits.
        assert!((costs[1].slowdown - 36.44).abs() < 0.02, "{}", costs[1].slowdown);
    }

    #[test]
    fn filesystems_on_flash_cost_8_12_and_20_per_cent() {
        // "Fast by Design", filesystem overhead, 4 KiB random writes.
        let layers = [
            layer("raw", None, 310_000.0, 103.0),
            layer("xfs", Some(0), 285_000.0, 112.0),
            layer("ext4", Some(0), 272_000.0, 118.0),
            layer("ext4 with journal", Some(0), 248_000.0, 129.0),
        ];
        let lost = layer_costs(&layers).unwrap();
        for (found, published) in lost.iter().zip([0.0, 8.1, 12.3, 20.0]) {
            let percent = (1.0 - found.share_of_raw) * 100.0;
            assert!((percent - published).abs() < 0.05, "{}: {percent}", found.name);
        }
    }

    #[test]
    fn a_layer_on_itself_on_a_later_one_or_on_nothing_is_declined() {
        for below in [0, 1, 7] {
            let layers = [layer("a", Some(below), 1.0, 1.0), layer("b", None, 1.0, 1.0)];
            assert!(matches!(layer_costs(&layers), Err(Declined::NoSuchLayout { .. })), "{below}");
        }
        assert!(matches!(layer_costs(&[]), Err(Declined::TooFew { .. })));
        let silent = [layer("raw", None, 0.0, 1.0)];
        assert!(matches!(layer_costs(&silent), Err(Declined::NotAFigure { .. })));
    }
}
