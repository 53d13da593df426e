//! Shipped calls, as far as programs without files need them.

use std::collections::HashMap;
use std::rc::Rc;
use std::{cell::RefCell, ops::Range};

use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::tree;
use coppice_protocol::ship::{Call, Reply, Request};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::wire::Wire;
use crate::physical::PAGE_BYTES;

/// Linux's number for a call that does not exist.
const ENOSYS: u16 = 38;

/// What programs can be told and what they have said.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) programs: HashMap<ProgramId, Program>,
    pub(super) output: Vec<u8>,
    /// Something was written.
    pub(super) written: Rc<Notify>,
    pub(super) pages_sent: u64,
    /// Standard input ends.
    pub(super) input_ended: Rc<Notify>,
    /// The connection is to end.
    pub(super) cut: Rc<Notify>,
}

/// A program's file, and its hash tree.
pub(super) struct Program {
    pub(super) bytes: Vec<u8>,
    pub(super) tree: Vec<tree::TreeNode>,
}

/// What may be wrong with a stored program.
#[derive(Clone, Copy, Debug)]
pub enum Damage {
    /// A byte of the program.
    Byte(usize),
    /// A node of its tree.
    Node(usize),
}

/// Answers calls until the connection ends.
pub(super) async fn serve(wire: Wire, shared: Rc<RefCell<Shared>>) {
    let wire = Rc::new(wire);
    // Dropped with the connection, on which their answers would go.
    let mut waiting = JoinSet::new();
    let cut = Rc::clone(&shared.borrow().cut);
    let mut cut = std::pin::pin!(cut.notified());
    loop {
        let frame = tokio::select! {
            frame = wire.frame() => frame,
            () = &mut cut => None,
        };
        let Some(frame) = frame else { break };
        let Request { call, .. } = frame.message().expect("a request");
        if matches!(call, Call::Input { .. }) {
            let (wire, ended) = (Rc::clone(&wire), Rc::clone(&shared.borrow().input_ended));
            waiting.spawn_local(async move {
                ended.notified().await;
                wire.reply(frame.id, &Reply::Data, &[]).await;
            });
            continue;
        }
        let (reply, bulk) = answer(&mut shared.borrow_mut(), &call, &frame.bulk);
        wire.reply(frame.id, &reply, &bulk).await;
    }
    wire.abort();
}

fn answer(shared: &mut Shared, call: &Call, bulk: &[u8]) -> (Reply, Vec<u8>) {
    match call {
        Call::Pages { program, first, count } => {
            let Program { bytes: file, tree } = &shared.programs[program];
            let pages: Range<usize> = *first as usize..*first as usize + usize::from(*count);
            let part = file.len().min(pages.start * PAGE_BYTES)..file.len().min(pages.end * PAGE_BYTES);
            shared.pages_sent += part.len().div_ceil(PAGE_BYTES) as u64;
            let places = tree::beside(file.len() as u64, u64::from(*first), u64::from(*count));
            let beside = places.into_iter().map(|place| tree[place as usize]).collect();
            (Reply::Pages { beside }, file[part].to_vec())
        }
        Call::Print(_) => {
            shared.output.extend_from_slice(bulk);
            shared.written.notify_one();
            let bytes = u32::try_from(bulk.len()).expect("within the limits");
            (Reply::Written { bytes, end: 0 }, Vec::new())
        }
        _ => (Reply::Failed(ENOSYS), Vec::new()),
    }
}
