//! Who gets the core next.
//!
//! Tasks of the kernel are short; they come first, in the order in which they were woken. Programs run for as long as
//! one lets them, so their tasks take turns. A turn is [`TURN_NS`] of the core, in one go or in pieces: what waited for
//! something and has time left of its turn goes before those that just compute. Who has used its turn up goes behind
//! all others, and gets a new one when it comes to the front. So a program waits at most for one turn of each other
//! one, however busy these are, and one that waits for messages is not held up by those that compute.
//!
//! The end of a turn is an alarm, which is set only if somebody else wants the core.
//!
//! A task of the kernel that others can keep busy at will (the network's) owes programs some time now and then
//! ([`super::programs_first`]): it goes on when they have had it, or when none of them wants the core.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::Waker;

use super::task::Task;
use crate::limits::TURN_NS;

/// Tasks that were woken and not yet polled, each at most once, and the one that has its turn.
pub(super) struct Ready {
    kernel: VecDeque<Arc<Task>>,
    /// Woken, with time left of their turns.
    woken: VecDeque<Arc<Task>>,
    /// Interrupted in their turns, the last one first.
    interrupted: VecDeque<Arc<Task>>,
    /// With no time left.
    spent: VecDeque<Arc<Task>>,
    turn: Option<Turn>,
    debt: Option<Debt>,
    /// How many there were.
    debts: u64,
}

/// What a task of the kernel owes programs.
struct Debt {
    number: u64,
    left_ns: u64,
    /// The task.
    debtor: Waker,
}

/// What is polled because it is its turn.
struct Turn {
    task: Arc<Task>,
    /// It is ready again.
    again: bool,
    /// It wants no more of its turn.
    given_up: bool,
}

/// What is to be done next.
pub(super) enum Next {
    /// Poll this task of the kernel.
    Kernel(Arc<Task>),
    /// Poll this task of a program, which has `left_ns` left of its turn, and say [`Ready::end_turn`]. If others wait,
    /// the alarm is to be set for when it has had the core for `alarm_ns`.
    Turn { task: Arc<Task>, left_ns: u64, alarm_ns: Option<u64> },
    /// No program wants what this task owes them: wake it.
    Debtor(Waker),
}

impl Ready {
    pub(super) const fn new() -> Self {
        Self {
            kernel: VecDeque::new(),
            woken: VecDeque::new(),
            interrupted: VecDeque::new(),
            spent: VecDeque::new(),
            turn: None,
            debt: None,
            debts: 0,
        }
    }

    /// Makes room for so many tasks, so that waking them does not allocate.
    pub(super) fn reserve(&mut self, tasks: usize) {
        for queue in [&mut self.kernel, &mut self.woken, &mut self.interrupted, &mut self.spent] {
            queue.reserve(tasks.saturating_sub(queue.len()));
        }
    }

    /// A task was woken. Returns whether it is for somebody else to make room for it: false for the one that is polled.
    pub(super) fn push(&mut self, task: Arc<Task>) -> bool {
        match (task.turn_left_ns(), &mut self.turn) {
            (None, _) => self.kernel.push_back(task),
            (Some(_), Some(turn)) if Arc::ptr_eq(&turn.task, &task) => {
                turn.again = true;
                return false;
            }
            (Some(0), _) => self.spent.push_back(task),
            (Some(_), _) => self.woken.push_back(task),
        }
        true
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Next> {
        if let Some(task) = self.kernel.pop_front() {
            return Some(Next::Kernel(task));
        }
        let task = self.woken.pop_front().or_else(|| self.interrupted.pop_front());
        let (task, left_ns) = match task {
            Some(task) => (Arc::clone(&task), task.turn_left_ns().unwrap_or(TURN_NS)),
            None => match self.spent.pop_front() {
                Some(task) => (task, TURN_NS),
                None => return self.debt.take().map(|debt| Next::Debtor(debt.debtor)),
            },
        };
        self.turn = Some(Turn { task: Arc::clone(&task), again: false, given_up: false });
        let others_wait = !(self.woken.is_empty() && self.interrupted.is_empty() && self.spent.is_empty());
        let alarm_ns = match &self.debt {
            None => others_wait.then_some(left_ns),
            Some(debt) => Some(if others_wait { debt.left_ns.min(left_ns) } else { debt.left_ns }),
        };
        Some(Next::Turn { task, left_ns, alarm_ns })
    }

    /// A task of the kernel owes programs so much of the core. Gives the number of the debt and, if there was another
    /// one, whose it was, to be woken.
    pub(super) fn owe(&mut self, left_ns: u64, debtor: &Waker) -> (u64, Option<Waker>) {
        self.debts += 1;
        let debt = Debt { number: self.debts, left_ns, debtor: debtor.clone() };
        (self.debts, self.debt.replace(debt).map(|debt| debt.debtor))
    }

    /// Whether that debt is still there.
    pub(super) fn owes(&self, number: u64) -> bool {
        self.debt.as_ref().is_some_and(|debt| debt.number == number)
    }

    /// Programs had the core for so long. Gives the task that owed them no more than that.
    #[inline]
    pub(super) fn pay(&mut self, used_ns: u64) -> Option<Waker> {
        let debt = self.debt.as_mut()?;
        debt.left_ns = debt.left_ns.saturating_sub(used_ns);
        if debt.left_ns > 0 {
            return None;
        }
        self.debt.take().map(|debt| debt.debtor)
    }

    /// The task that is polled wants no more of its turn.
    pub(super) fn give_up_turn(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.given_up = true;
        }
    }

    /// The task that had its turn was polled for so long and has so much left of it. It is returned if it is not ready
    /// again: where it is dropped, anything may happen that wakes others.
    #[inline]
    pub(super) fn end_turn(&mut self, used_ns: u64, left_ns: u64) -> Option<Arc<Task>> {
        let Turn { task, again, given_up } = self.turn.take()?;
        let left_ns = if given_up { 0 } else { left_ns };
        task.end_turn(used_ns, left_ns);
        match (again, left_ns) {
            (false, _) => return Some(task),
            (true, 0) => self.spent.push_back(task),
            (true, _) => self.interrupted.push_front(task),
        }
        None
    }
}
