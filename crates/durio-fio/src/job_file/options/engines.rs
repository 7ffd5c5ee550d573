//! Options of single engines that durio does not honour; those of engines that it does not have are
//! here so that their names are known: a job with such an engine is refused for its engine already.

use super::{refused, rows};

const NO_PRIORITIES: &str = "durio gives single accesses no priority; remove it";
const NO_PASSTHROUGH: &str =
    "it belongs to NVMe passthrough (io_uring_cmd), which durio does not do";
const NO_FLAGS: &str = "durio does not set this flag on its accesses; remove it";
const NO_ENGINE: &str = "it belongs to an engine that durio does not have";

rows! {
    refused("durio waits for completions and does not poll"),
    ["io_uring", "io_uring_cmd", "libblkio", "pvsync2", "sg", "xnvme"] => {
        "hipri": Flag, unless "0", "completions are polled for";
    }
    refused("durio polls for all accesses of a job or for none"), ["pvsync2"] => {
        "hipri_percentage": Integer, unless "100", "percent of accesses that are polled for";
    }
    refused("durio submits reads and writes without vectors; only nonvectored=1 is honoured"),
    ["io_uring", "io_uring_cmd"] => {
        "nonvectored": Integer, unless "1", "reads and writes without vectors";
    }
    refused("durio submits reads and writes without vectors"), ["libaio"] => {
        "libaio_vectored": Bool, unless "0", "reads and writes with vectors";
    }
    refused("durio reaps libaio's completions with io_getevents"), ["libaio"] => {
        "userspace_reap": Flag, unless "0", "completions are reaped without a system call";
    }
    refused(NO_FLAGS), ["io_uring", "io_uring_cmd"] => {
        "force_async": Integer, unless "0", "every Nth access is passed to a kernel thread";
    }
    refused(NO_FLAGS), ["io_uring", "io_uring_cmd", "pvsync2"] => {
        "uncached": Integer, unless "0", "buffered accesses leave nothing in the page cache";
    }
    refused(NO_FLAGS), ["io_uring", "io_uring_cmd", "libaio", "pvsync2"] => {
        "nowait": Bool, unless "0", "accesses that would block fail (RWF_NOWAIT)";
    }
    refused(NO_PRIORITIES), ["io_uring", "io_uring_cmd", "libaio"] => {
        "cmdprio_percentage": Integers, unless "0", "percent of accesses with a priority";
        "cmdprio_class": Integers, unless "0", "the class of that priority";
        "cmdprio_hint": Integers, unless "0", "the hint of that priority";
        "cmdprio": Integers, unless "0", "the level of that priority";
        "cmdprio_bssplit": Text, "priorities of block sizes";
    }
    refused("durio sets FUA through sync=dsync; use that"), ["io_uring", "io_uring_cmd", "sg"] => {
        "writefua": Bool, unless "0", "writes force unit access";
    }
    refused(NO_PASSTHROUGH), ["io_uring", "io_uring_cmd", "sg"] => {
        "readfua": Bool, unless "0", "reads force unit access";
    }
    refused(NO_PASSTHROUGH), ["io_uring", "io_uring_cmd"] => {
        "write_mode": Text, unless "write", "the NVMe command of writes";
        "verify_mode": Text, unless "read", "the NVMe command that checks";
        "read_mode": Text, unless "read", "the NVMe command of reads";
        "cmd_type": Text, unless "nvme", "type of passthrough command";
        "cdb_len": Text, unless "0", "bytes of a SCSI command";
        "verify_bytchk": Text, unless "0", "what a SCSI verify compares";
        "deac": Bool, unless "0", "written zeros are deallocated";
    }
    refused(NO_PASSTHROUGH), ["io_uring", "io_uring_cmd", "xnvme"] => {
        "md_per_io_size": Integer, unless "0", "bytes of metadata of an access";
        "pi_act": Bool, unless "0" | "1", "who makes protection information";
        "pi_chk": Text, "what of protection information is checked";
        "apptag": Integer, "the application tag";
        "apptag_mask": Integer, "the bits of the application tag that count";
    }
    refused(NO_ENGINE), ["cpuio"] => {
        "cpuload": Integer, "percent of CPU time to burn";
        "cpumode": Text, "how CPU time is burnt";
        "cpuchunks": Integer, "length of a burst in microseconds";
        "exit_on_io_done": Bool, "the job ends with those that do I/O";
    }
    refused(NO_ENGINE), ["dfs", "rados", "rbd"] => {
        "pool": Text, "the pool";
    }
    refused(NO_ENGINE), ["dfs"] => {
        "cont": Text, "the container";
        "object_class": Text, "the class of objects";
        "svcl": Text, "the servers of the pool";
    }
    refused(NO_ENGINE), ["dfs", "libhdfs"] => {
        "chunk_size" | "chunck_size": Size, "bytes of a chunk";
    }
    refused(NO_ENGINE), ["rados", "rbd"] => {
        "clustername": Text, "the cluster";
        "clientname": Text, "the client";
        "busy_poll": Bool, "completions are polled for";
    }
    refused(NO_ENGINE), ["rados"] => {
        "conf": Text, "the configuration of the cluster";
        "touch_objects": Bool, "objects are made at the start";
    }
    refused(NO_ENGINE), ["rbd"] => {
        "rbdname": Text, "the image";
        "rbd_encryption_format": Text, "how the image is encrypted";
        "rbd_encryption_passphrase": Text, "the file with its passphrase";
    }
    refused(NO_ENGINE), ["libhdfs"] => {
        "namenode": Text, "the server of names";
        "hdfsdirectory": Text, "the directory of chunks";
        "single_instance": Bool, "jobs share a connection";
        "hdfs_use_direct": Bool, "reads go past the server";
    }
    refused(NO_ENGINE), ["net", "netsplice", "rdma", "libhdfs"] => {
        "hostname": Text, "the other side";
        "port": Integer, "its port";
    }
    refused(NO_ENGINE), ["net", "netsplice"] => {
        "protocol" | "proto": Text, "tcp, udp, unix or vsock";
        "nodelay": Bool, "TCP_NODELAY";
        "listen": Flag, "the job waits for a connection";
        "pingpong": Flag, "each message is answered";
        "interface": Text, "the interface of multicasts";
        "ttl": Integer, "time to live of multicasts";
        "window_size": Integer, "bytes of the socket's buffers";
        "mss": Integer, "the largest segment of TCP";
    }
    refused(NO_ENGINE), ["rdma"] => {
        "bindname": Text, "the address on this side";
        "verb": Text, "the RDMA operation";
    }
    refused(NO_ENGINE), ["nbd"] => {
        "uri": Text, "the NBD server";
    }
    refused(NO_ENGINE), ["nfs"] => {
        "nfs_url": Text, "the NFS server";
    }
    refused(NO_ENGINE), ["libiscsi"] => {
        "initiator": Text, "the name of the initiator";
    }
    refused(NO_ENGINE), ["http"] => {
        "https": Text, "whether TLS is used";
        "http_host": Text, "the server";
        "http_user": Text, "the user";
        "http_pass": Text, "the password";
        "http_s3_key": Text, "S3: the secret key";
        "http_s3_keyid": Text, "S3: the name of the key";
        "http_s3_security_token": Text, "S3: the session's token";
        "http_s3_region": Text, "S3: the region";
        "http_s3_sse_customer_key": Text, "S3: the key of the server's encryption";
        "http_s3_sse_customer_algorithm": Text, "S3: the algorithm of that encryption";
        "http_s3_storage_class": Text, "S3: the class of storage";
        "http_swift_auth_token": Text, "Swift: the token";
        "http_mode": Text, "webdav, swift or s3";
        "http_verbose": Integer, "how much is printed";
        "http_object_mode": Text, "whether accesses are objects or parts of one";
    }
    refused(NO_ENGINE), ["gfapi", "gfapi_async"] => {
        "volume": Text, "the volume";
        "brick": Text, "the server";
        "single-instance": Bool, "jobs share a connection";
    }
    refused(NO_ENGINE), ["libblkio"] => {
        "libblkio_driver": Text, "the driver";
        "libblkio_path": Text, "its path property";
        "libblkio_pre_connect_props": Text, "properties before it connects";
        "libblkio_num_entries": Integer, "entries of a queue";
        "libblkio_queue_size": Integer, "size of a queue";
        "libblkio_pre_start_props": Text, "properties before it starts";
        "libblkio_vectored": Flag, "reads and writes with vectors";
        "libblkio_write_zeroes_on_trim": Flag, "trims write zeros";
        "libblkio_wait_mode": Text, "how completions are waited for";
        "libblkio_force_enable_completion_eventfd": Flag, "completions are signalled in any case";
    }
    refused(NO_ENGINE), ["xnvme"] => {
        "xnvme_be": Text, "the backend";
        "xnvme_mem": Text, "the backend of memory";
        "xnvme_async": Text, "the backend of asynchronous commands";
        "xnvme_sync": Text, "the backend of synchronous commands";
        "xnvme_admin": Text, "the backend of admin commands";
        "xnvme_dev_nsid": Integer, "the namespace";
        "xnvme_dev_subnqn": Text, "the subsystem";
        "xnvme_iovec": Flag, "reads and writes with vectors";
    }
    refused(NO_ENGINE), ["e4defrag"] => {
        "donorname": Text, "the file that gives its blocks";
        "inplace": Integer, "when blocks are allocated and freed";
    }
    refused(NO_ENGINE), ["exec"] => {
        "program": Text, "the program";
        "arguments": Text, "its arguments";
        "grace_time": Integer, "seconds until it is killed";
        "std_redirect": Bool, "its output goes to files";
    }
    refused(NO_ENGINE), ["filestat", "dirstat"] => {
        "stat_type": Text, "which call looks files up";
    }
    refused(NO_ENGINE), ["libcufile", "libhipfile"] => {
        "gpu_dev_ids": Text, "the GPUs";
    }
    refused(NO_ENGINE), ["libcufile"] => {
        "cuda_io": Text, "whether data goes directly to GPU memory";
    }
    refused(NO_ENGINE), ["libhipfile"] => {
        "rocm_io": Text, "whether data goes directly to GPU memory";
    }
    refused(NO_ENGINE), ["mmap"] => {
        "thp": Integer, "huge pages for mapped files";
    }
    refused(NO_ENGINE), ["mtd"] => {
        "skip_bad": Bool, "skip bad blocks";
    }
    refused(NO_ENGINE), ["sg"] => {
        "sg_write_mode": Text, "the SCSI command of writes";
        "stream_id": Integer, "the stream of writes";
    }
    refused(NO_ENGINE), ["windowsaio"] => {
        "no_completion_thread": Flag, "the job itself reaps completions";
    }
}
