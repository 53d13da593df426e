//! The page tables that a node keeps of programs that ran on it, the last one first.
//!
//! When one of them is asked for, the others stay, so that programs that take turns all find theirs; or they go, if the
//! cluster's policy is to keep one.
//!
//! They take memory that nobody else wants just then: whoever finds no free frame has the program that ran longest ago
//! given back, then the next ([`Retention::give_back`]). Files that are kept ([`crate::staging`]) go in turn with them.
//! So retention never makes a program fail.
//!
//! Lock order: an address space may be locked while this is used, never the other way round.

use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use coppice_hal::paging::PageTable;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::limits::RETAINED_PROGRAMS_MAX;
use coppice_protocol::program::ProgramImage;
use coppice_protocol::retain::{RetainedProgram, RetentionPolicy, WalkCounts};

use super::cut::RetainedTable;
use super::reaper::Reaper;
use super::spare::Spare;
use crate::quota::GivesBack;
use crate::sync::{LockLevel, Mutex};

/// Others that keep something on a node at a time: files that are kept, and what jobs know of files; a job that begins
/// as another ends has its own.
const SPARES_MAX: usize = 4;

/// What a node retains.
pub struct Retention {
    policy: RetentionPolicy,
    tables: Mutex<VecDeque<Kept>>,
    /// What else is kept.
    spare: Mutex<[Option<Weak<dyn Spare>>; SPARES_MAX]>,
    /// Counts uses, of tables and of what else is kept.
    uses: AtomicU64,
    /// Takes apart what is given back.
    reaper: Reaper,
}

impl GivesBack for Retention {
    fn give_back(&self) -> bool {
        self.give_back()
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self::new(RetentionPolicy::default())
    }
}

/// A table and what its last walk did, until somebody was told.
struct Kept {
    table: RetainedTable,
    walk: WalkCounts,
    /// When it was used last, as [`Retention::next_use`] counts.
    used: u64,
}

impl Retention {
    /// Nothing yet.
    #[must_use]
    pub fn new(policy: RetentionPolicy) -> Self {
        Self {
            policy,
            tables: Mutex::new(LockLevel::Retention, VecDeque::new()),
            spare: Mutex::new(LockLevel::Fact, [const { None }; SPARES_MAX]),
            uses: AtomicU64::new(0),
            reaper: Reaper::default(),
        }
    }

    /// Whether one program's is all that is to be kept.
    pub(crate) fn keeps_one(&self) -> bool {
        self.policy == RetentionPolicy::One
    }

    /// Something else is kept as long as nobody wants its memory: it is given back in turn with the tables.
    pub(crate) fn add_spare(&self, spare: Weak<dyn Spare>) {
        let mut known = self.spare.lock();
        let is_free = |place: &Option<Weak<dyn Spare>>| place.as_ref().is_none_or(|known| known.strong_count() == 0);
        if let Some(place) = known.iter_mut().find(|place| is_free(place)) {
            *place = Some(spare);
        }
    }

    /// Those that there are. Asked for when there is no memory, so it takes none.
    fn spares(&self) -> [Option<Arc<dyn Spare>>; SPARES_MAX] {
        let known = self.spare.lock();
        core::array::from_fn(|at| known.get(at).and_then(Option::as_ref).and_then(Weak::upgrade))
    }

    /// Has pages of somebody's taken apart that are no program's.
    pub(crate) fn take_apart(&self, table: PageTable) {
        self.reaper.take_apart(table, None);
    }

    /// Now, for what is kept and used now: more each time.
    pub(crate) fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps the table of a program of which a process just ended. If another process of it left one, they become one.
    /// At [`RETAINED_PROGRAMS_MAX`] the program that ran longest ago goes. Returns how many frames were zeroed because
    /// both tables had their page.
    pub fn keep(&self, mut table: RetainedTable, mut walk: WalkCounts) -> u64 {
        let (mut zeroed, used) = (0, self.next_use());
        let oldest = loop {
            let earlier = {
                let mut tables = self.tables.lock();
                let at = tables.iter().position(|kept| kept.table.program() == table.program());
                let Some(earlier) = at.and_then(|at| tables.remove(at)) else {
                    tables.push_front(Kept { table, walk, used });
                    break if tables.len() > RETAINED_PROGRAMS_MAX { tables.pop_back() } else { None };
                };
                earlier
            };
            // Not under the lock: it takes as long as the table is large.
            let merged = table.absorb(earlier.table);
            zeroed += merged;
            walk.dropped += earlier.walk.dropped;
            walk.zeroed += earlier.walk.zeroed + merged;
            walk.walk_ns += earlier.walk.walk_ns;
        };
        if let Some(oldest) = oldest {
            oldest.table.take_apart(&self.reaper);
        }
        zeroed
    }

    /// Takes the table of a program out, to run it.
    pub fn take(&self, program: ProgramId) -> Option<RetainedTable> {
        let mut tables = self.tables.lock();
        let at = tables.iter().position(|kept| kept.table.program() == program)?;
        tables.remove(at).map(|kept| kept.table)
    }

    /// The layout of a program whose table is here.
    pub fn layout(&self, program: ProgramId) -> Option<ProgramImage> {
        let tables = self.tables.lock();
        tables.iter().find(|kept| kept.table.program() == program).map(|kept| kept.table.layout().clone())
    }

    /// Keeps one program's table, which is the last to be given back now, and discards all others, whole, if one is all
    /// that is to be kept. Gives what was done to the table since it was last
    /// asked about, and what was done now; `None`, and nothing changes, if there is no such table.
    pub fn retain(&self, program: ProgramId) -> Option<WalkCounts> {
        let (mut counts, others) = {
            let mut tables = self.tables.lock();
            let at = tables.iter().position(|kept| kept.table.program() == program)?;
            let mut kept = tables.remove(at)?;
            let held = kept.table.held();
            let counts = WalkCounts { kept: held.pages, ..core::mem::take(&mut kept.walk) };
            kept.used = self.next_use();
            let others = match self.policy {
                RetentionPolicy::Many => VecDeque::new(),
                RetentionPolicy::One => core::mem::take(&mut *tables),
            };
            tables.push_front(kept);
            (counts, others)
        };
        for other in others {
            counts.discarded += 1;
            counts.zeroed += other.table.discard();
        }
        Some(counts)
    }

    /// Gives back one program's table, or all. Returns what that was.
    pub fn discard(&self, program: Option<ProgramId>) -> Vec<RetainedProgram> {
        let stays = |kept: &Kept| program.is_some_and(|program| kept.table.program() != program);
        let gone: VecDeque<Kept> = {
            let mut tables = self.tables.lock();
            let (stay, gone) = core::mem::take(&mut *tables).into_iter().partition(stays);
            *tables = stay;
            gone
        };
        let give_back = |kept: Kept| {
            let held = kept.table.held();
            kept.table.take_apart(&self.reaper);
            held
        };
        gone.into_iter().map(give_back).collect()
    }

    /// Frees some memory, but not for long: of what is being taken apart anyway, or else of the table, or what else is
    /// kept, that was used longest ago, which then is. Returns whether there was any.
    pub fn give_back(&self) -> bool {
        if self.reaper.step() {
            return true;
        }
        let spares = self.spares();
        let oldest =
            spares.iter().flatten().filter_map(|spare| Some((spare.oldest()?, spare))).min_by_key(|(used, _)| *used);
        let (spare_used, spare) = oldest.map_or((u64::MAX, None), |(used, spare)| (used, Some(spare)));
        let oldest = self.tables.lock().pop_back_if(|kept| kept.used < spare_used);
        let was_any = match oldest {
            Some(oldest) => {
                oldest.table.take_apart(&self.reaper);
                true
            }
            None => spare.is_some_and(|spare| spare.give_back()),
        };
        self.reaper.step();
        was_any
    }

    /// What takes apart that nobody needs any more.
    pub fn reaper(&self) -> &Reaper {
        &self.reaper
    }

    /// What is here, the program that ran last first, files that are kept behind programs.
    pub fn held(&self) -> Vec<RetainedProgram> {
        let mut held: Vec<RetainedProgram> = self.tables.lock().iter().map(|kept| kept.table.held()).collect();
        held.extend(self.spares().iter().flatten().flat_map(|spare| spare.held()));
        held
    }

    /// What of the kernel's memory is charged for what jobs have left, bytes.
    pub fn charged(&self) -> usize {
        self.spares().iter().flatten().map(|spare| spare.charged()).sum()
    }

    /// Memory that takes, bytes.
    pub fn bytes(&self) -> u64 {
        let tables: u64 = self.tables.lock().iter().map(|kept| kept.table.held().bytes).sum();
        tables + self.spares().iter().flatten().map(|spare| spare.bytes()).sum::<u64>()
    }
}
