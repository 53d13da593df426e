//! Broadcasts of files that are read.

use coppice_protocol::broadcast::{Broadcast, BroadcastBegun};
use coppice_protocol::lease::FileId;
use proptest::prelude::{Strategy, any};

use super::control::staging;
use super::pset::file_of_job;
use super::{bytes, job};

pub(super) fn broadcast() -> impl Strategy<Value = Broadcast> {
    let parts = (job(), any::<(u8, u64, u64, u64)>(), staging());
    parts.prop_map(|(job, (number, device, inode, version), staging)| {
        let file = FileId { device, inode };
        Broadcast { job, number, file, version, staging }
    })
}

pub(super) fn begun() -> impl Strategy<Value = BroadcastBegun> {
    let parts = (file_of_job(), bytes(), any::<(u64, u32)>());
    parts.prop_map(|(of, path, (bytes, opened))| BroadcastBegun { of, path, bytes, opened })
}
