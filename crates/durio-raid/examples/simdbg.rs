//! x
#![allow(clippy::all)]
use durio_raid::Fault;
use durio_raid::sim::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let seed: u64 = a[1].parse().unwrap();
    let cuts: u64 = a[2].parse().unwrap();
    if a.get(3).map(|s| s == "faults").unwrap_or(false) {
        for f in Fault::ALL {
            let t = std::time::Instant::now();
            let s = Scenario { seed, fault: Some(f), only_four: false };
            let (ta, v) = simulate(s, cuts);
            println!(
                "{:45} {:?} {:?} {:?}",
                f.name(),
                v.as_ref().map(|v| v.cut + 1),
                v.as_ref().map(|v| &v.what),
                (ta.cuts, t.elapsed())
            );
        }
        return;
    }
    let four = a.get(3).map(|s| s == "four").unwrap_or(false);
    let s = Scenario { seed, fault: None, only_four: four };
    let t = std::time::Instant::now();
    let (ta, v) = simulate(s, cuts);
    let e = t.elapsed().as_secs_f64();
    if let Some(v) = &v {
        let n: u64 = a.get(4).map(|x| x.parse().unwrap()).unwrap_or(1);
        for k in (v.cut + 1).saturating_sub(n)..=v.cut {
            if k / CUTS_PER_CAMPAIGN == v.cut / CUTS_PER_CAMPAIGN {
                println!("=== life {k}");
                let (tr, _) = replay(s, k);
                println!("{}", tr.join("\n"));
            }
        }
    }
    println!("{:?}\n{:?}\n{} cuts/s", ta, v, ta.cuts as f64 / e);
}
