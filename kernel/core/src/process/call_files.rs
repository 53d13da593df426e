//! The open files that a call under way is about. Another thread may close their numbers meanwhile, or have them stand
//! for others; the call goes on with what it began with, also when it is made again because it was held.

use alloc::sync::Arc;

use crate::files::OpenFile;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{LockLevel, Mutex};

/// No call that waits as long as it likes is about more.
pub(crate) const CALL_FILES_MAX: usize = 2;

/// By the numbers that they had when the call began.
type Files = [Option<(i32, Arc<OpenFile>)>; CALL_FILES_MAX];

/// See this module.
pub(crate) struct CallFiles {
    /// Whether there are any.
    is_used: AtomicBool,
    files: Mutex<Files>,
}

impl CallFiles {
    /// None.
    pub(super) const fn none() -> Self {
        Self { is_used: AtomicBool::new(false), files: Mutex::new(LockLevel::Fact, [const { None }; CALL_FILES_MAX]) }
    }

    /// What a number stands for in this call, if it is known.
    pub(super) fn find(&self, number: i32) -> Option<Arc<OpenFile>> {
        if !self.is_used.load(Ordering::Relaxed) {
            return None;
        }
        let files = self.files.lock();
        files.iter().flatten().find(|(known, _)| *known == number).map(|(_, file)| Arc::clone(file))
    }

    /// Has a number stand for that until the call is done, or until there are more of them.
    pub(super) fn keep(&self, number: i32, file: &Arc<OpenFile>) {
        if let Some(free) = self.files.lock().iter_mut().find(|kept| kept.is_none()) {
            *free = Some((number, Arc::clone(file)));
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// The call is done.
    pub(super) fn let_go(&self) {
        if self.is_used.load(Ordering::Relaxed) {
            drop(self.take());
        }
    }

    /// Gives them away.
    pub(super) fn take(&self) -> Files {
        self.is_used.store(false, Ordering::Relaxed);
        core::mem::replace(&mut *self.files.lock(), [const { None }; CALL_FILES_MAX])
    }

    /// Looks at each.
    pub(super) fn each(&self, mut look: impl FnMut(&Arc<OpenFile>)) {
        self.files.lock().iter().flatten().for_each(|(_, file)| look(file));
    }
}
