//! Where files are staged: what a node has for them, and what they are staged for.

use alloc::sync::Arc;

use coppice_hal::frames::FramePool;
use coppice_protocol::ids::JobNode;
use coppice_protocol::world::World;

use super::Staging;
use crate::files::shared::SharedFiles;
use crate::memory::Retention;
use crate::quota::Quota;

/// What a node has for files that come.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    /// Where frames come from.
    pub(crate) frames: &'static FramePool,
    /// What else takes frames that nobody needs.
    pub(crate) retention: &'a Arc<Retention>,
    /// Memory for what is known of transfers.
    pub(crate) quota: &'a Arc<Quota>,
    /// The transfers that it takes part in.
    pub(crate) staging: &'a Staging,
}

/// The job that has files staged, as far as it is on the node.
#[derive(Clone, Copy)]
pub(crate) struct Tenant<'a> {
    /// Where its ranks are.
    pub(crate) world: &'a World,
    /// Which of its nodes this is.
    pub(crate) node: JobNode,
    /// Where its ranks find the files.
    pub(crate) shared: &'a SharedFiles,
}
