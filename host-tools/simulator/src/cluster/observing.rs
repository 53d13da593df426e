//! What processes did and heard since somebody looked is for the checkers, and counted.

use coppice_protocol::pmix::Status;

use super::checkers::{Note, PmixNote};
use super::pmix::{Ask, Fence, Reply, Told};
use super::world::World;

/// Under what something that a rank does or hears with PMIx is counted.
fn name(note: PmixNote) -> Option<&'static str> {
    Some(match note {
        PmixNote::Greeted => "PMIx conversations",
        PmixNote::Loses => "ranks that went away in the middle of PMIx",
        PmixNote::GivesUp => "ranks that were not told of all PMIx events",
        PmixNote::Told(Told::Event(..)) => "PMIx events told",
        PmixNote::Told(Told::End(..)) => "ends of ranks told by PMIx",
        PmixNote::Hears(Ask::Fence(fence), Reply::Status(status)) => match (fence, Status(status)) {
            (Fence::Whole(_), Status::SUCCESS) => "PMIx fences of all left",
            (_, Status::SUCCESS) => "PMIx fences of some left",
            (Fence::Whole(_), _) => "PMIx fences of all without a rank",
            _ => "PMIx fences of some without a rank",
        },
        PmixNote::Hears(Ask::Get(..), Reply::Card(_)) => "PMIx cards got",
        PmixNote::Hears(Ask::Get(..), Reply::Status(status)) => match Status(status) {
            Status::TIMEOUT => "PMIx cards that did not come in time",
            Status::UNREACHABLE => "PMIx cards of nodes that are silent",
            _ => "PMIx cards that nobody has put",
        },
        PmixNote::Hears(Ask::LookUp(..), Reply::Found) => "PMIx names found",
        PmixNote::Hears(Ask::Finalize, _) => "PMIx conversations that were finalized",
        _ => return None,
    })
}

impl World {
    /// What processes did is for the checkers.
    pub(super) fn look_at_processes(&mut self) {
        let mut seen = self.observed.lock();
        for (mark, rank, note) in seen.pmi.drain(..) {
            match note {
                Note::Done => self.trace.count("PMI conversations", 1),
                Note::Leaves(_) => {
                    self.trials.barriers += 1;
                    self.trace.count("PMI barriers left by ranks", 1);
                }
                Note::Deserts => self.trace.count("ranks that went away in the middle of PMI", 1),
                _ => {}
            }
            self.checkers.pmi.note(mark, rank, note, self.now_ns);
        }
        for (mark, rank, node, note) in seen.pmix.drain(..) {
            if let Some(name) = name(note) {
                self.trace.count(name, 1);
            }
            let troubles = &self.checkers.troubles;
            self.checkers.pmix.note((mark, rank, node), note, troubles, self.now_ns);
        }
        for (who, sharing, note) in seen.shared.drain(..) {
            self.checkers.shares.note(who, sharing, note);
        }
        let read = std::mem::take(&mut self.checkers.shares.read);
        self.trace.count("reads of what another rank has written", read);
        for (job, rank) in seen.gone.drain(..) {
            self.checkers.pmix.gone(job, rank.0, self.now_ns);
            self.checkers.pmi.gone(job, rank.0, self.now_ns);
        }
    }
}
