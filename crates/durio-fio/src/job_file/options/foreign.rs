//! Options of engines that durio does not have.
//!
//! A job with such an engine is refused for its engine already; the rows are here so that these
//! names are known ones.

use super::{Kind, OptionRow, refused};

const WHY: &str = "it belongs to an engine that durio does not have";

const CPU: &[&str] = &["cpuio"];
const OBJECTS: &[&str] = &["dfs", "rados", "rbd", "libhdfs"];
const NETWORK: &[&str] = &["net", "netsplice", "rdma", "libhdfs", "nbd", "nfs", "libiscsi"];
const HTTP: &[&str] = &["http"];
const GLUSTER: &[&str] = &["gfapi", "gfapi_async"];
const LIBBLKIO: &[&str] = &["libblkio"];
const XNVME: &[&str] = &["xnvme"];
const OTHERS: &[&str] =
    &["e4defrag", "exec", "filestat", "libcufile", "libhipfile", "mmap", "mtd", "sg", "windowsaio"];

/// Options of these engines.
pub(super) const ROWS: &[OptionRow] = &[
    refused("cpuload", Kind::Integer, &[], WHY).of(CPU),
    refused("cpumode", Kind::Text, &[], WHY).of(CPU),
    refused("cpuchunks", Kind::Integer, &[], WHY).of(CPU),
    refused("exit_on_io_done", Kind::Bool, &[], WHY).of(CPU),
    refused("pool", Kind::Text, &[], WHY).of(OBJECTS),
    refused("cont", Kind::Text, &[], WHY).of(OBJECTS),
    refused("chunk_size", Kind::Size, &[], WHY).of(OBJECTS).or("chunck_size"),
    refused("object_class", Kind::Text, &[], WHY).of(OBJECTS),
    refused("svcl", Kind::Text, &[], WHY).of(OBJECTS),
    refused("clustername", Kind::Text, &[], WHY).of(OBJECTS),
    refused("clientname", Kind::Text, &[], WHY).of(OBJECTS),
    refused("conf", Kind::Text, &[], WHY).of(OBJECTS),
    refused("busy_poll", Kind::Bool, &[], WHY).of(OBJECTS),
    refused("touch_objects", Kind::Bool, &[], WHY).of(OBJECTS),
    refused("rbdname", Kind::Text, &[], WHY).of(OBJECTS),
    refused("rbd_encryption_format", Kind::Text, &[], WHY).of(OBJECTS),
    refused("rbd_encryption_passphrase", Kind::Text, &[], WHY).of(OBJECTS),
    refused("namenode", Kind::Text, &[], WHY).of(OBJECTS),
    refused("hdfsdirectory", Kind::Text, &[], WHY).of(OBJECTS),
    refused("single_instance", Kind::Bool, &[], WHY).of(OBJECTS),
    refused("single-instance", Kind::Bool, &[], WHY).of(GLUSTER),
    refused("hdfs_use_direct", Kind::Bool, &[], WHY).of(OBJECTS),
    refused("hostname", Kind::Text, &[], WHY).of(NETWORK),
    refused("bindname", Kind::Text, &[], WHY).of(NETWORK),
    refused("port", Kind::Integer, &[], WHY).of(NETWORK),
    refused("protocol", Kind::Text, &[], WHY).of(NETWORK).or("proto"),
    refused("nodelay", Kind::Bool, &[], WHY).of(NETWORK),
    refused("listen", Kind::Flag, &[], WHY).of(NETWORK),
    refused("pingpong", Kind::Flag, &[], WHY).of(NETWORK),
    refused("interface", Kind::Text, &[], WHY).of(NETWORK),
    refused("ttl", Kind::Integer, &[], WHY).of(NETWORK),
    refused("window_size", Kind::Integer, &[], WHY).of(NETWORK),
    refused("mss", Kind::Integer, &[], WHY).of(NETWORK),
    refused("verb", Kind::Text, &[], WHY).of(NETWORK),
    refused("uri", Kind::Text, &[], WHY).of(NETWORK),
    refused("nfs_url", Kind::Text, &[], WHY).of(NETWORK),
    refused("initiator", Kind::Text, &[], WHY).of(NETWORK),
    refused("https", Kind::Text, &[], WHY).of(HTTP),
    refused("http_host", Kind::Text, &[], WHY).of(HTTP),
    refused("http_user", Kind::Text, &[], WHY).of(HTTP),
    refused("http_pass", Kind::Text, &[], WHY).of(HTTP),
    refused("http_s3_key", Kind::Text, &[], WHY).of(HTTP),
    refused("http_s3_keyid", Kind::Text, &[], WHY).of(HTTP),
    refused("http_s3_security_token", Kind::Text, &[], WHY).of(HTTP),
    refused("http_s3_region", Kind::Text, &[], WHY).of(HTTP),
    refused("http_s3_sse_customer_key", Kind::Text, &[], WHY).of(HTTP),
    refused("http_s3_sse_customer_algorithm", Kind::Text, &[], WHY).of(HTTP),
    refused("http_s3_storage_class", Kind::Text, &[], WHY).of(HTTP),
    refused("http_swift_auth_token", Kind::Text, &[], WHY).of(HTTP),
    refused("http_mode", Kind::Text, &[], WHY).of(HTTP),
    refused("http_verbose", Kind::Integer, &[], WHY).of(HTTP),
    refused("http_object_mode", Kind::Text, &[], WHY).of(HTTP),
    refused("volume", Kind::Text, &[], WHY).of(GLUSTER),
    refused("brick", Kind::Text, &[], WHY).of(GLUSTER),
    refused("libblkio_driver", Kind::Text, &[], WHY).of(LIBBLKIO),
    refused("libblkio_path", Kind::Text, &[], WHY).of(LIBBLKIO),
    refused("libblkio_pre_connect_props", Kind::Text, &[], WHY).of(LIBBLKIO),
    refused("libblkio_num_entries", Kind::Integer, &[], WHY).of(LIBBLKIO),
    refused("libblkio_queue_size", Kind::Integer, &[], WHY).of(LIBBLKIO),
    refused("libblkio_pre_start_props", Kind::Text, &[], WHY).of(LIBBLKIO),
    refused("libblkio_vectored", Kind::Flag, &[], WHY).of(LIBBLKIO),
    refused("libblkio_write_zeroes_on_trim", Kind::Flag, &[], WHY).of(LIBBLKIO),
    refused("libblkio_wait_mode", Kind::Text, &[], WHY).of(LIBBLKIO),
    refused("libblkio_force_enable_completion_eventfd", Kind::Flag, &[], WHY).of(LIBBLKIO),
    refused("xnvme_be", Kind::Text, &[], WHY).of(XNVME),
    refused("xnvme_mem", Kind::Text, &[], WHY).of(XNVME),
    refused("xnvme_async", Kind::Text, &[], WHY).of(XNVME),
    refused("xnvme_sync", Kind::Text, &[], WHY).of(XNVME),
    refused("xnvme_admin", Kind::Text, &[], WHY).of(XNVME),
    refused("xnvme_dev_nsid", Kind::Integer, &[], WHY).of(XNVME),
    refused("xnvme_dev_subnqn", Kind::Text, &[], WHY).of(XNVME),
    refused("xnvme_iovec", Kind::Flag, &[], WHY).of(XNVME),
    refused("donorname", Kind::Text, &[], WHY).of(OTHERS),
    refused("inplace", Kind::Integer, &[], WHY).of(OTHERS),
    refused("program", Kind::Text, &[], WHY).of(OTHERS),
    refused("arguments", Kind::Text, &[], WHY).of(OTHERS),
    refused("grace_time", Kind::Integer, &[], WHY).of(OTHERS),
    refused("std_redirect", Kind::Bool, &[], WHY).of(OTHERS),
    refused("stat_type", Kind::Text, &[], WHY).of(OTHERS),
    refused("gpu_dev_ids", Kind::Text, &[], WHY).of(OTHERS),
    refused("cuda_io", Kind::Text, &[], WHY).of(OTHERS),
    refused("rocm_io", Kind::Text, &[], WHY).of(OTHERS),
    refused("thp", Kind::Integer, &[], WHY).of(OTHERS),
    refused("skip_bad", Kind::Bool, &[], WHY).of(OTHERS),
    refused("sg_write_mode", Kind::Text, &[], WHY).of(OTHERS),
    refused("stream_id", Kind::Integer, &[], WHY).of(OTHERS),
    refused("no_completion_thread", Kind::Flag, &[], WHY).of(OTHERS),
];
