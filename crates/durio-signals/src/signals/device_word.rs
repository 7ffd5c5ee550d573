//! Rule about what a device said of its cache when it was asked, against what the kernel takes it
//! for. Where they agree there is nothing to tell that the kernel's view does not tell already.

use durio_observe::{Host, Layer, WriteCache};

use super::{Reading, Signal, SignalWord, is_end, layer_name, reading, signal, sysfs};

/// What the device said, as far as it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnWord {
    /// It has a volatile cache, and that is on.
    Volatile,
    /// It has a volatile cache; whether that is on was not told.
    PerhapsVolatile,
    /// It has none, or it is off.
    NotVolatile,
}

/// A contradiction between the kernel's view of a cache and the device's own word.
pub(super) fn contradicted(layer: &Layer, _: &Host) -> Option<Signal> {
    let block = layer.block.as_ref().filter(|_| is_end(layer))?;
    let view = block.write_cache?;
    let own = own_word(layer)?;
    // The driver's word says the same and has a signal already.
    let is_told = block.device_write_cache.as_deref() == Some("write back");
    let (id, word, implies, advice) = match (view, own) {
        (WriteCache::WriteThrough, OwnWord::Volatile) if !is_told => (
            "device-word-volatile",
            SignalWord::UnsafeConfig,
            "the device says that its volatile write cache is on; the kernel takes it for write \
             through and sends no flush: acknowledged commits can be lost at a power cut",
            "echo 'write back' into queue/write_cache of the device, or switch its cache off",
        ),
        (WriteCache::WriteThrough, OwnWord::PerhapsVolatile) if !is_told => (
            "device-word-volatile",
            SignalWord::Suspect,
            "the device says that it has a volatile write cache, and not whether that is on; the \
             kernel takes it for write through and sends no flush",
            "find out whether the cache is on (nvme get-feature -f 6); if it is, echo 'write back' \
             into queue/write_cache of the device",
        ),
        (WriteCache::WriteBack, OwnWord::NotVolatile) => (
            "device-word-not-volatile",
            SignalWord::Declared,
            "the kernel takes the cache for volatile and sends flushes; the device says that it has \
             no volatile write cache, or that it is off, so that a flush has nothing to do if the \
             claim is true",
            "",
        ),
        _ => return None,
    };
    signal((id, word), layer_name(layer), readings(layer, view), implies, advice)
}

/// NVMe tells presence and switch, SCSI the switch alone.
fn own_word(layer: &Layer) -> Option<OwnWord> {
    let present = layer.fact("device_volatile_write_cache");
    let enabled = layer.fact("device_write_cache_enabled");
    match (present, enabled) {
        (Some("absent"), _) | (_, Some("no")) => Some(OwnWord::NotVolatile),
        (_, Some("yes")) => Some(OwnWord::Volatile),
        (Some("present"), _) => Some(OwnWord::PerhapsVolatile),
        _ => None,
    }
}

fn readings(layer: &Layer, view: WriteCache) -> Vec<Reading> {
    let view = match view {
        WriteCache::WriteBack => "write back",
        WriteCache::WriteThrough => "write through",
    };
    let mut read = vec![reading("kernel's view", sysfs(layer, "queue/write_cache"), view)];
    let present = layer.fact("device_volatile_write_cache");
    let place = match present {
        Some(_) => format!("Get Features 06h of /dev/{}", layer.name),
        None => format!("caching mode page 08h, WCE, of /dev/{}", layer.name),
    };
    read.extend(present.map(|value| {
        let place = format!("Identify Controller, VWC, of /dev/{}", layer.name);
        reading("device's volatile write cache", place, value)
    }));
    let enabled = layer.fact("device_write_cache_enabled");
    read.extend(enabled.map(|value| reading("device's write cache is on", place, value)));
    read
}

#[cfg(test)]
mod tests {
    use super::super::sample::{assert_signal, disk, with_facts};
    use super::*;

    const PRESENT: (&str, &str) = ("device_volatile_write_cache", "present");
    const ABSENT: (&str, &str) = ("device_volatile_write_cache", "absent");
    const ON: (&str, &str) = ("device_write_cache_enabled", "yes");
    const OFF: (&str, &str) = ("device_write_cache_enabled", "no");
    const UNTOLD: (&str, &str) = ("device_write_cache_enabled", "cannot tell");

    fn found(view: WriteCache, driver: Option<&str>, facts: &[(&str, &str)]) -> Option<Signal> {
        let mut layer = with_facts(disk("nvme0n1"), facts);
        let block = layer.block.as_mut().unwrap();
        block.write_cache = Some(view);
        block.device_write_cache = driver.map(str::to_owned);
        contradicted(&layer, &Host::default())
    }

    #[test]
    fn a_cache_that_is_on_and_gets_no_flush_is_an_unsafe_configuration() {
        for facts in [&[PRESENT, ON][..], &[ON]] {
            let one = found(WriteCache::WriteThrough, Some("write through"), facts);
            let one = assert_signal(one, "device-word-volatile", SignalWord::UnsafeConfig);
            assert_eq!(one.read.len(), 1 + facts.len());
        }
        let perhaps = found(WriteCache::WriteThrough, None, &[PRESENT, UNTOLD]);
        assert_signal(perhaps, "device-word-volatile", SignalWord::Suspect);
    }

    #[test]
    fn flushes_to_a_device_without_a_volatile_cache_are_told() {
        for facts in [&[ABSENT][..], &[PRESENT, OFF], &[OFF]] {
            let one = found(WriteCache::WriteBack, None, facts);
            assert_signal(one, "device-word-not-volatile", SignalWord::Declared);
        }
    }

    #[test]
    fn words_that_agree_or_are_missing_tell_nothing() {
        assert_eq!(found(WriteCache::WriteBack, None, &[PRESENT, ON]), None);
        assert_eq!(found(WriteCache::WriteBack, None, &[PRESENT, UNTOLD]), None);
        assert_eq!(found(WriteCache::WriteThrough, None, &[ABSENT]), None);
        assert_eq!(found(WriteCache::WriteThrough, None, &[OFF]), None);
        assert_eq!(found(WriteCache::WriteThrough, None, &[UNTOLD]), None);
        assert_eq!(found(WriteCache::WriteThrough, None, &[]), None);
    }

    #[test]
    fn what_the_drivers_word_tells_already_is_not_told_twice() {
        assert_eq!(found(WriteCache::WriteThrough, Some("write back"), &[ON]), None);
    }
}
