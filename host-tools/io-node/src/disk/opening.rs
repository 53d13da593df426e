//! Opening the roots, programs and staged files of jobs, any of which may lie on a mount that does not answer: each
//! job on a thread of its own, which then starts those that work on the job's files ([`crate::wall`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use coppice_protocol::ids::NodeId;
use coppice_protocol::keep::KeepFile;
use coppice_protocol::pset::StartJob;

use super::OpenedKeep;
use super::place::{JobPlace, OwedKeep, OwedOpen};
use super::program::Program;
use crate::descriptors::JobDescriptors;
use crate::distribution::{self, Permit, StagedFile};
use crate::files::{Porter, Root};

/// A job to be opened.
#[derive(Debug)]
pub(super) struct Order {
    pub spec: StartJob,
    pub descriptors: JobDescriptors,
    /// Its staged files are sent from here.
    pub staging: Option<Permit>,
    pub place: JobPlace,
    pub owed: OwedOpen,
}

/// What a job has when it has been opened.
#[derive(Debug)]
pub(crate) struct Opened {
    /// What was to be opened.
    pub spec: StartJob,
    /// Its root.
    pub root: Root,
    /// Its program.
    pub program: Program,
    /// Its staged files, if they are sent from here.
    pub staged: Option<(Vec<StagedFile>, Permit)>,
    /// The files that it may have open.
    pub descriptors: JobDescriptors,
    /// The threads of its nodes.
    pub porters: BTreeMap<NodeId, Porter>,
    /// Its place.
    pub place: JobPlace,
}

/// A file to be opened that is to be sent, to be kept.
#[derive(Debug)]
pub(super) struct KeepOrder {
    pub order: KeepFile,
    pub permit: Permit,
    pub descriptors: JobDescriptors,
    pub owed: OwedKeep,
}

/// Something to be opened.
#[derive(Debug)]
enum ToOpen {
    Job(Order),
    Keep(KeepOrder),
}

/// A thread that starts the jobs' threads. They could open nothing if the event loop started them.
#[derive(Debug)]
pub(crate) struct Opener {
    orders: Sender<ToOpen>,
}

impl Opener {
    /// Starts it.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        // As many wait in it as the machine has jobs and files that are being opened.
        let (sender, orders) = channel();
        Builder::new().name("opener".to_owned()).spawn(move || orders.into_iter().for_each(start_thread))?;
        Ok(Self { orders: sender })
    }

    /// Has a job opened. An order that nobody takes is dropped, which is heard.
    pub(super) fn open(&self, order: Order) {
        drop(self.orders.send(ToOpen::Job(order)));
    }

    /// The same for a file that is to be sent.
    pub(super) fn open_keep(&self, order: KeepOrder) {
        drop(self.orders.send(ToOpen::Keep(order)));
    }
}

/// Starts a job's or file's thread. Without one, the order's end is heard.
fn start_thread(order: ToOpen) {
    let started = match order {
        ToOpen::Job(order) => Builder::new().name(format!("job {}", order.spec.job)).spawn(move || work_for_job(order)),
        ToOpen::Keep(order) => {
            let name = format!("keep {}", order.order.transfer.request);
            Builder::new().name(name).spawn(move || open_kept(order))
        }
    };
    if let Err(error) = started {
        tracing::warn!(%error, "cannot start a thread that opens files");
    }
}

/// Opens a file that is to be sent.
fn open_kept(KeepOrder { order, permit, descriptors, owed }: KeepOrder) {
    let file = distribution::open_kept(&order, permit.pset());
    owed.pay(file.map(|file| Box::new(OpenedKeep { order, file, permit, descriptors })));
}

/// A job's first thread: opens its root, program and staged files, and then starts the threads of its nodes, in
/// the root alone.
fn work_for_job(Order { spec, descriptors, staging, place, owed }: Order) {
    let (root, program) = match open(&spec) {
        Ok(opened) => opened,
        Err(reason) => return owed.pay(Err(reason)),
    };
    let staged = match staging.map(|permit| Ok((distribution::open(&spec, permit.pset())?, permit))).transpose() {
        Ok(staged) => staged,
        Err(reason) => return owed.pay(Err(reason)),
    };
    let (root, duty) = root.guard(Some(place.clone()));
    let nodes: BTreeSet<NodeId> = spec.members.iter().map(|member| member.node).collect();
    let thread = |node: NodeId| {
        let name = format!("job {} node {node}", spec.job);
        Some((node, root.porter()?.another(name, Some(place.clone()))))
    };
    let porters = nodes.into_iter().filter_map(thread).collect();
    owed.pay(Ok(Box::new(Opened { spec, root, program, staged, descriptors, porters, place })));
    duty.serve();
}

/// Opens a job's root and program.
fn open(spec: &StartJob) -> Result<(Root, Program), String> {
    let StartJob { root, program_file: file, .. } = spec;
    let opened =
        Root::open(OsStr::from_bytes(root)).map_err(|error| format!("cannot use {root} as root directory: {error}"))?;
    let program = Program::open(file, spec.program, spec.program_bytes)
        .map_err(|error| format!("cannot read program {file}: {error}"))?;
    Ok((opened, program))
}
