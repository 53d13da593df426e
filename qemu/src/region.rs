//! A file of the host that a machine sees as memory behind its own, and writes as a disk through an engine that needs
//! none of its processors. It outlives the machine.
//!
//! The memory is the file's pages in the host's page cache, mapped. The disk reads and writes the same pages, so what
//! the engine has written is in the memory at once. Nothing is taken of the host before it is written.

use std::path::PathBuf;

use crate::arguments::{Arguments, Value};

/// Where a machine's region is, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The file.
    pub path: PathBuf,
    /// Its length, bytes; a multiple of 1 MiB of at least one and at most [`REGION_BYTES_MAX`].
    pub bytes: u64,
}

/// Bytes of the longest region: what any processor addresses beside the rest of the machine.
pub const REGION_BYTES_MAX: u64 = 64 << 30;

const MIB: u64 = 1 << 20;

impl Region {
    /// Whether a machine can have a region of this length.
    pub(crate) const fn fits(&self) -> bool {
        self.bytes > 0 && self.bytes <= REGION_BYTES_MAX && self.bytes.is_multiple_of(MIB)
    }

    /// The devices. The machine has to have a slot of memory to spare, and room for addresses.
    pub(crate) fn arguments(&self, arguments: &mut Arguments) {
        let memory = Value::text("memory-backend-file,id=region,mem-path=").path(&self.path);
        arguments.option("-object", memory.and(&format!(",size={},share=on,prealloc=off", self.bytes)));
        arguments.option("-device", "virtio-pmem-pci,memdev=region");
        arguments.option("-object", "iothread,id=engine");
        // Whoever pulls from the file has it open too: locks would keep one of them out.
        let disk = Value::text("driver=file,node-name=engine-file,filename=").path(&self.path);
        arguments.option(
            "-blockdev",
            disk.and(",locking=off,aio=threads,discard=unmap,cache.direct=off,cache.no-flush=off"),
        );
        // A host that is full is told to the machine, which would stand still otherwise.
        arguments.option(
            "-device",
            "virtio-blk-pci,drive=engine-file,iothread=engine,num-queues=1,queue-size=256,seg-max-adjust=on,\
             disable-legacy=on,discard=off,write-zeroes=on,werror=report,rerror=report",
        );
    }
}
