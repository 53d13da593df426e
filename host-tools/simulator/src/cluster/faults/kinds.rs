//! The kinds of faults, and whom each gives reason to be given up.

use coppice_protocol::ids::{NodeId, PsetId};

use crate::cluster::checkers::Who;
use crate::cluster::queue::SECOND_NS;

/// How long somebody is stopped or cut off at least who may be given up for it, ns. A connection that is silent is not
/// cut so soon.
const MISSED_NS_MIN: u64 = SECOND_NS;

/// All kinds, with the names under which they are counted.
pub(super) const KINDS: [(Kind, &str); 28] = [
    (Kind::KillMachine, "fault: machine killed"),
    (Kind::StopMachine, "fault: machine stopped"),
    (Kind::CutNode, "fault: node cut off"),
    (Kind::CutOneWay, "fault: node cut off one way"),
    (Kind::CutNodes, "fault: nodes cut off from each other"),
    (Kind::BootNever, "fault: machine that does not boot"),
    (Kind::CutConnection, "fault: connection cut"),
    (Kind::CutBusy, "fault: busy connection cut"),
    (Kind::LoseFrames, "fault: what nodes say to each other lost"),
    (Kind::KillIoNode, "fault: I/O node killed"),
    (Kind::StopIoNode, "fault: I/O node stopped"),
    (Kind::KillFabric, "fault: fabric killed"),
    (Kind::StopFabric, "fault: fabric stopped"),
    (Kind::StopHost, "fault: service node stopped"),
    (Kind::KillHost, "fault: service node killed"),
    (Kind::KillHostAtStep, "fault: service node killed at a step"),
    (Kind::SlowDisk, "fault: disk that does not answer"),
    (Kind::HungMount, "fault: mount that hangs"),
    (Kind::FullDisk, "fault: full disk"),
    (Kind::FailingDisk, "fault: failing disk"),
    (Kind::LockedDatabase, "fault: locked database"),
    (Kind::CorruptBytes, "fault: bytes changed on their way"),
    (Kind::StallStream, "fault: stream that stalls"),
    (Kind::SlowLink, "fault: slow link"),
    (Kind::LossyLink, "fault: link that loses frames"),
    (Kind::SetClock, "fault: service node's clock set"),
    (Kind::BootSlowly, "fault: machine that boots slowly"),
    (Kind::BootTwice, "fault: machine that begins to boot twice"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    KillMachine,
    StopMachine,
    CutNode,
    CutOneWay,
    CutNodes,
    BootNever,
    CutConnection,
    CutBusy,
    LoseFrames,
    KillIoNode,
    StopIoNode,
    KillFabric,
    StopFabric,
    StopHost,
    KillHost,
    KillHostAtStep,
    SlowDisk,
    HungMount,
    FullDisk,
    FailingDisk,
    LockedDatabase,
    CorruptBytes,
    StallStream,
    SlowLink,
    LossyLink,
    SetClock,
    BootSlowly,
    BootTwice,
}

impl Kind {
    /// Whom a fault at a node, of this pset, that lasts so long gives reason to be given up.
    pub(super) fn touches(self, node: NodeId, pset: PsetId, lasts_ns: u64) -> Option<Who> {
        let is_missed = lasts_ns >= MISSED_NS_MIN;
        match self {
            Self::KillMachine => Some(Who::Machine(node)),
            Self::StopMachine | Self::CutNode | Self::CutOneWay => is_missed.then_some(Who::Machine(node)),
            Self::KillIoNode => Some(Who::IoNode(pset)),
            Self::StopIoNode => is_missed.then_some(Who::IoNode(pset)),
            Self::KillFabric => Some(Who::Fabric),
            Self::StopFabric => is_missed.then_some(Who::Fabric),
            // What these touch is known when it happens.
            Self::BootNever | Self::BootSlowly | Self::CutConnection | Self::CutBusy | Self::CorruptBytes => None,
            // What nodes have to say to each other the service node has no part in.
            Self::CutNodes | Self::LoseFrames => None,
            // Bytes that come late are no reason.
            Self::StallStream | Self::SlowLink | Self::LossyLink => None,
            // Nor is a boot that takes a little longer.
            Self::BootTwice => None,
            // Nobody but the service node itself.
            Self::StopHost | Self::KillHost | Self::KillHostAtStep | Self::SetClock => None,
            Self::SlowDisk | Self::HungMount | Self::FullDisk | Self::FailingDisk | Self::LockedDatabase => None,
        }
    }
}
