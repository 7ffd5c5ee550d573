//! Which files hold the settings: tables alone.
//!
//! In: nothing. Out: rows of name, file and form. Not here: reading.
//! Names of block settings are those of the kernel (Documentation/ABI/stable/sysfs-block).

/// How a file's content becomes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As it stands.
    Text,
    /// The word in brackets.
    Choice,
}

/// One setting.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    pub(super) form: Form,
}

const fn text(name: &'static str, file: &'static str) -> Row {
    Row { name, file, form: Form::Text }
}

const fn choice(name: &'static str, file: &'static str) -> Row {
    Row { name, file, form: Form::Choice }
}

/// Of every block device, relative to its directory in sysfs.
pub(super) const BLOCK: &[Row] = &[
    choice("scheduler", "queue/scheduler"),
    text("schedulers", "queue/scheduler"),
    text("nomerges", "queue/nomerges"),
    text("read_ahead_kb", "queue/read_ahead_kb"),
    text("nr_requests", "queue/nr_requests"),
    text("rq_affinity", "queue/rq_affinity"),
    text("wbt_lat_usec", "queue/wbt_lat_usec"),
    text("rotational", "queue/rotational"),
    text("iostats", "queue/iostats"),
    text("add_random", "queue/add_random"),
    text("io_poll", "queue/io_poll"),
    text("max_sectors_kb", "queue/max_sectors_kb"),
    text("max_hw_sectors_kb", "queue/max_hw_sectors_kb"),
    text("write_cache", "queue/write_cache"),
    text("fua", "queue/fua"),
    text("logical_block_size", "queue/logical_block_size"),
    text("physical_block_size", "queue/physical_block_size"),
    text("minimum_io_size", "queue/minimum_io_size"),
    text("optimal_io_size", "queue/optimal_io_size"),
    text("discard_max_bytes", "queue/discard_max_bytes"),
    text("alignment_offset", "alignment_offset"),
    text("model", "device/model"),
    text("vendor", "device/vendor"),
    choice("device_cache", "cache_type"),
    text("current_link_speed", "device/device/current_link_speed"),
    text("max_link_speed", "device/device/max_link_speed"),
    text("current_link_width", "device/device/current_link_width"),
    text("max_link_width", "device/device/max_link_width"),
];

/// Of an array besides, relative to its directory in sysfs.
pub(super) const MD: &[Row] = &[
    text("level", "md/level"),
    text("raid_disks", "md/raid_disks"),
    text("chunk_size", "md/chunk_size"),
    text("layout", "md/layout"),
    text("degraded", "md/degraded"),
    text("sync_action", "md/sync_action"),
    text("consistency_policy", "md/consistency_policy"),
    text("stripe_cache_size", "md/stripe_cache_size"),
    text("group_thread_cnt", "md/group_thread_cnt"),
    text("bitmap_location", "md/bitmap/location"),
    text("bitmap_chunk_size", "md/bitmap/chunksize"),
];

/// Of the machine, relative to the root.
pub(super) const HOST: &[Row] = &[
    text("governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    text("clocksource", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    text("clocksources", "sys/devices/system/clocksource/clocksource0/available_clocksource"),
    choice("transparent_hugepage", "sys/kernel/mm/transparent_hugepage/enabled"),
    text("swappiness", "proc/sys/vm/swappiness"),
    text("dirty_background_bytes", "proc/sys/vm/dirty_background_bytes"),
    text("dirty_bytes", "proc/sys/vm/dirty_bytes"),
    text("dirty_ratio", "proc/sys/vm/dirty_ratio"),
    text("dirty_background_ratio", "proc/sys/vm/dirty_background_ratio"),
    text("zone_reclaim_mode", "proc/sys/vm/zone_reclaim_mode"),
    text("aio_nr", "proc/sys/fs/aio-nr"),
    text("aio_max_nr", "proc/sys/fs/aio-max-nr"),
    text("nvme_poll_queues", "sys/module/nvme/parameters/poll_queues"),
    text("nvme_ps_max_latency_us", "sys/module/nvme_core/parameters/default_ps_max_latency_us"),
    text("zfs_nocacheflush", "sys/module/zfs/parameters/zfs_nocacheflush"),
    text("zil_nocacheflush", "sys/module/zfs/parameters/zil_nocacheflush"),
];
