//! Checks stripes on the media, with separate arithmetic.
//!
//! Takes disks, the trusted members and the model. Must not share the engine's sums.

use super::campaign::CutCampaign;
use super::drives::Drive;
use super::life::Life;
use super::media::{TrustedMembers, read_stamp};
use super::model::ArrayModel;
use crate::geometry::{BytePlace, Geometry, SECTOR, Stripe};
use crate::simulated;

const SECTOR_BYTES: usize = SECTOR as usize;

type SectorBytes = [u8; SECTOR_BYTES];

/// The product by definition: polynomials, then the remainder modulo x^8 + x^4 + x^3 + x^2 + 1.
fn product(one: u8, other: u8) -> u8 {
    let mut long = (0..8).filter(|bit| other & (1 << bit) != 0);
    let mut long = long.by_ref().fold(0_u16, |sum, bit| sum ^ (u16::from(one) << bit));
    for bit in (8..15).rev() {
        if long & (1 << bit) != 0 {
            long ^= 0x11d << (bit - 8);
        }
    }
    long as u8
}

fn quotient(one: u8, other: u8) -> u8 {
    (0..=u8::MAX).find(|&it| product(it, other) == one).unwrap_or(0)
}

/// How often a column counts in a parity.
fn factor(parity: u8, column: u8) -> u8 {
    (0..column).fold(1, |power, _| if parity == 0 { 1 } else { product(power, 2) })
}

/// A parity of these columns, by Horner's rule: from the last on, doubled before the next is added.
fn parity_of(data: &[Option<SectorBytes>], parity: u8) -> SectorBytes {
    let mut sum = [0_u8; SECTOR_BYTES];
    for bytes in data.iter().rev() {
        if parity == 1 {
            sum.iter_mut().for_each(|it| *it = (*it << 1) ^ ((*it >> 7) * 0x1d));
        }
        if let Some(bytes) = bytes {
            sum.iter_mut().zip(bytes).for_each(|(to, from)| *to ^= from);
        }
    }
    sum
}

/// Restores the missing data, if the parities suffice.
fn restore(data: &mut [Option<SectorBytes>], parities: &[Option<SectorBytes>]) {
    let lost: Vec<u8> =
        (0..data.len() as u8).filter(|&it| data[usize::from(it)].is_none()).collect();
    let rest = |parity: u8| {
        let of = parity_of(data, parity);
        parities[usize::from(parity)]
            .map(|it| -> SectorBytes { std::array::from_fn(|at| it[at] ^ of[at]) })
    };
    let rests: Vec<(u8, SectorBytes)> =
        (0..parities.len() as u8).filter_map(|it| Some((it, rest(it)?))).collect();
    match (&lost[..], &rests[..]) {
        ([one], [(parity, rest), ..]) => {
            let by = factor(*parity, *one);
            data[usize::from(*one)] = Some(rest.map(|it| quotient(it, by)));
        }
        ([one, other], [(_, p), (_, q)]) => {
            let (f, g) = (factor(1, *one), factor(1, *other));
            let a: SectorBytes =
                std::array::from_fn(|at| quotient(q[at] ^ product(g, p[at]), f ^ g));
            data[usize::from(*one)] = Some(a);
            data[usize::from(*other)] = Some(std::array::from_fn(|at| p[at] ^ a[at]));
        }
        _ => {}
    }
}

/// Compares data with the model, including that of absent members where parities must be right; and
/// the parities.
pub(super) fn check(
    geometry: &Geometry,
    data_at: u64,
    drives: &[Drive],
    trusted: &TrustedMembers,
    all_equal: bool,
    model: &mut ArrayModel,
) -> Result<(), String> {
    let device_of = |role: u8| {
        let found = trusted.sets[0].iter().find(|(at, _)| *at == usize::from(role));
        found.map(|(_, device)| *device)
    };
    for sector in 0..geometry.member_bytes / SECTOR {
        let offset = sector * SECTOR;
        let stripe = geometry.stripe(offset);
        let read = |role: u8| {
            device_of(role).map(|device| sector_of(&drives[device], (data_at + offset) / SECTOR))
        };
        let mut data: Vec<Option<SectorBytes>> =
            (0..stripe.columns()).map(|it| read(stripe.member(it))).collect();
        let parities: Vec<Option<SectorBytes>> =
            (0..geometry.level.parities()).map(|it| read(stripe.parity(it))).collect();
        let region = (offset / geometry.region) as usize;
        let must_be_right = (all_equal || !trusted.dirty[region]) && !trusted.unsynced[region];
        let is_here: Vec<bool> = data.iter().map(Option::is_some).collect();
        // All zeros are common, and right.
        let is_blank = data.iter().chain(&parities).flatten().all(|it| *it == [0; SECTOR_BYTES]);
        if must_be_right && !is_blank && is_here.contains(&false) {
            restore(&mut data, &parities);
        }
        let mut values = Vec::new();
        for (column, bytes) in (0_u8..).zip(&data) {
            let at = (geometry.locate_back(BytePlace { set: 0, offset, column }) / SECTOR) as usize;
            let bytes = match bytes {
                Some(bytes) => bytes,
                None if is_blank => &[0; SECTOR_BYTES],
                None => continue,
            };
            let value =
                read_stamp(bytes, at).filter(|&it| model.may_hold(at, it)).ok_or_else(|| {
                    let (held, is_here) = (model.describe(at), is_here[usize::from(column)]);
                    format!(
                        "sector {at}: a member holds what it must not, itself: {is_here}; {held}"
                    )
                })?;
            values.push((at, value));
        }
        let is_right = is_blank || are_right(stripe, &data, &parities);
        if must_be_right && !is_right {
            return Err(format!("sector {sector} of the members: a parity is wrong"));
        }
        if is_right && (all_equal || trusted.is_whole[0]) {
            values.into_iter().for_each(|(at, value)| model.settle(at, value));
        }
    }
    Ok(())
}

/// Whether the present parities match the data.
fn are_right(
    stripe: Stripe,
    data: &[Option<SectorBytes>],
    parities: &[Option<SectorBytes>],
) -> bool {
    let is_known = data.len() == usize::from(stripe.columns()) && data.iter().all(Option::is_some);
    let is_right = |(parity, it): (u8, &Option<SectorBytes>)| {
        it.is_none_or(|it| it == parity_of(data, parity))
    };
    is_known && (0..).zip(parities).all(is_right)
}

fn sector_of(drive: &Drive, sector: u64) -> SectorBytes {
    let mut data = [0; SECTOR_BYTES];
    drive.disk.durable().read(sector, &mut data);
    data
}

impl CutCampaign {
    /// Leaves older contents in a sector of each parity.
    pub(super) fn spoil_parities(&mut self) {
        let chunk = u64::from(self.geometry.chunk);
        for offset in (0..self.geometry.member_bytes).step_by(self.geometry.chunk as usize) {
            let stripe = self.geometry.stripe(offset);
            for parity in 0..self.geometry.level.parities() {
                let at = offset + self.chance.below(chunk / SECTOR) * SECTOR;
                let data = (self.data_at + at, vec![0xa5; SECTOR_BYTES]);
                let drive = &mut self.drives[usize::from(stripe.parity(parity))];
                simulated::write_blocks(&mut drive.disk, vec![data]);
            }
        }
    }
}

impl Life<'_> {
    /// Checks that all parities match the data, in a complete and idle array.
    pub(super) fn check_stripes(&mut self) -> Result<(), String> {
        let geometry = self.campaign.geometry;
        let roles = self.engine.status().roles;
        let devices = roles.iter().enumerate().take(geometry.members.into());
        let set = devices.filter_map(|(at, it)| Some((at, it.device?.into()))).collect();
        let trusted =
            TrustedMembers::read(&geometry, &self.campaign.drives, vec![set], vec![true], &[]);
        let (drives, data_at) = (&self.campaign.drives, self.campaign.data_at);
        check(&geometry, data_at, drives, &trusted, true, &mut self.campaign.model)
    }
}
