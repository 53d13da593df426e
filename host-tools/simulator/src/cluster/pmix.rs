//! What the ranks of scripts do with PMIx: each connects with its node as a client of OpenPMIx does, puts keys and
//! commits them, publishes, notifies, goes through fences of all and of parts that overlap, gets what others have put,
//! and so on for some rounds. One of them may go away in the middle, and the job may go on without it.
//!
//! | module | what |
//! | --- | --- |
//! | `call` | calls as bytes |
//! | `answer` | bytes as answers, and what is told unasked |
//! | `cards` | what each rank has put after each of its commits |
//! | `plan` | which call comes when |

mod answer;
mod call;
mod cards;
mod plan;
#[cfg(test)]
mod tests;

use std::fmt;

use coppice_protocol::pmix::Dialect;

pub(super) use self::answer::{Source, Told, read_answer, read_told};
pub(super) use self::call::{bytes_of, greeting, message};
pub(super) use self::plan::SPOKEN;

/// What a script's ranks do.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// Rounds. None: they do nothing.
    pub rounds: u64,
    /// No other job's is the same.
    pub mark: u64,
    /// Keys that each rank puts anew in each round, and keys that it puts in that round alone; at least one.
    pub keys: u64,
    /// Bytes of a value, at least.
    pub value_bytes: u64,
    /// Longest pause before a round, ns.
    pub pause_ns: u64,
    /// Ranks of a node.
    pub per_node: u64,
    /// They write as clients of version 3 do, and not as later ones.
    pub is_wide: bool,
    /// The rank that notifies the others, counted from 1. None: 0.
    pub notifier: u64,
    /// The rank that goes away, counted from 1. None: 0.
    pub loser: u64,
    /// As the how manyeth of its acts it does.
    pub loses_at: u64,
    /// How: see [`Loss`].
    pub loses_how: u64,
    /// The job goes on without it.
    pub outlives: bool,
}

/// Numbers that say all of it.
pub(super) const COURSE_NUMBERS: usize = 12;

/// How a rank goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// It ends.
    End,
    /// It does what no processor does.
    Crash,
    /// It ends in the middle of a message.
    Mutter,
    /// It ends in the next fence.
    InFence,
    /// It ends while it waits for what another rank puts.
    InGet,
    /// It ends the job.
    Abort,
    /// It is done with PMIx, and goes on.
    Finalize,
    /// It closes its connection, and goes on.
    Close,
}

impl Loss {
    /// Those after which a job may go on come first.
    pub(super) const ALL: [Self; 8] =
        [Self::End, Self::Crash, Self::Mutter, Self::InFence, Self::InGet, Self::Abort, Self::Finalize, Self::Close];
    /// How many of them are such.
    pub(super) const OUTLIVED: usize = 5;

    /// Its process ends then, and not by a wish that the job end.
    pub(super) fn is_an_end(self) -> bool {
        !matches!(self, Self::Abort | Self::Finalize | Self::Close)
    }
}

/// A fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fence {
    /// Of the ranks up to the middle one, in a round.
    Low(u64),
    /// Of those from the middle one on.
    High(u64),
    /// Of all: the last one comes behind all rounds.
    Whole(u64),
}

/// What is wanted of what a rank has put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// The key with this number of those that are put anew.
    Again(u64),
    /// The one of those that are put in this round alone.
    Once(u64, u64),
    /// What has one value for ranks of the same node, and another for others.
    Scoped,
    /// What nobody puts, for a second.
    Never,
    /// The same, for ever.
    NeverEver,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Who speaks.
    Greet,
    /// What is known of the job?
    Init,
    /// To be told of events.
    Register,
    /// Something that takes no time.
    Query,
    /// What is put in a round.
    Commit(u64),
    /// A value is to be found by others, in a round.
    Publish(u64),
    /// Others are told the event with this number.
    Notify(u64),
    /// To wait for others.
    Fence(Fence),
    /// What a rank has put.
    Get(u32, Want),
    /// What a rank has published in a round.
    LookUp(u32, u64),
    /// It is done.
    Finalize,
    /// The job is to end.
    Abort,
}

/// What a rank is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A status, and nothing more.
    Status(i32),
    /// All that a rank had put when it had committed so many rounds.
    Card(u64),
    /// What a rank has published.
    Found,
}

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Something else, for so long, ns.
    Pause(u64),
    /// Nothing.
    Skip,
    /// It makes a socket.
    Socket,
    /// It connects that with its node's server.
    Connect,
    /// It makes a call, and waits for the answer.
    Ask(Ask),
    /// It makes a call, or begins to, and ends.
    AskAndEnd(Ask, bool),
    /// It is to have heard of all events by now.
    Tally,
    /// It closes its connection.
    Close,
    /// It ends.
    End,
    /// It does what no processor does.
    Crash,
}

/// A rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speaker<'a> {
    pub rank: u32,
    pub size: u32,
    /// The job's name.
    pub space: &'a str,
}

impl Course {
    pub(super) fn numbers(&self) -> [u64; COURSE_NUMBERS] {
        let (is_wide, outlives) = (self.is_wide.into(), self.outlives.into());
        let Self { rounds, mark, keys, value_bytes, pause_ns, per_node, notifier, loser, loses_at, loses_how, .. } =
            *self;
        [rounds, mark, keys, value_bytes, pause_ns, per_node, is_wide, notifier, loser, loses_at, loses_how, outlives]
    }

    pub(super) fn of(numbers: [u64; COURSE_NUMBERS]) -> Self {
        let [
            rounds,
            mark,
            keys,
            value_bytes,
            pause_ns,
            per_node,
            is_wide,
            notifier,
            loser,
            loses_at,
            loses_how,
            outlives,
        ] = numbers;
        let (is_wide, outlives) = (is_wide > 0, outlives > 0);
        Self {
            rounds,
            mark,
            keys,
            value_bytes,
            pause_ns,
            per_node,
            is_wide,
            notifier,
            loser,
            loses_at,
            loses_how,
            outlives,
        }
    }

    /// How its ranks write.
    pub(super) fn dialect(&self) -> Dialect {
        if self.is_wide { Dialect::Wide } else { Dialect::Short }
    }

    /// How a rank goes away, and as the how manyeth of its acts.
    pub(super) fn loss(&self, rank: u32) -> Option<(Loss, u64)> {
        if self.loser != u64::from(rank) + 1 {
            return None;
        }
        let how = Loss::ALL.get(usize::try_from(self.loses_how).ok()?).copied()?;
        Some((how, self.loses_at))
    }

    /// The rank that goes away, and how.
    pub(super) fn lost(&self) -> Option<(u32, Loss)> {
        let rank = u32::try_from(self.loser.checked_sub(1)?).ok()?;
        self.loss(rank).map(|(how, _)| (rank, how))
    }

    /// The rank that goes away without its job ending for it.
    pub(super) fn outlived(&self) -> Option<u32> {
        self.lost().filter(|(_, how)| self.outlives && how.is_an_end()).map(|(rank, _)| rank)
    }

    /// Whether a job of so many ranks cannot end well once its loser has gone.
    pub(super) fn must_fail(&self, ranks: u32) -> bool {
        match self.lost() {
            None => false,
            Some((_, Loss::Finalize)) => ranks > 1,
            Some(_) => self.outlived().is_none(),
        }
    }

    /// Whether a job ends as soon as its loser has gone, whatever its other ranks do.
    pub(super) fn ends_the_job(&self) -> bool {
        let goes_on = |how| matches!(how, Loss::Finalize | Loss::Close);
        self.lost().is_some_and(|(_, how)| !goes_on(how)) && self.outlived().is_none()
    }

    /// Whether two ranks are on the same node.
    pub(super) fn are_neighbours(&self, one: u32, other: u32) -> bool {
        let node = |rank: u32| u64::from(rank) / self.per_node.max(1);
        node(one) == node(other)
    }

    /// Bytes that a rank says or hears at once at most, about.
    pub(super) fn message_bytes(&self) -> u64 {
        (self.rounds * self.keys + self.keys + 2) * 2 * (self.value_bytes + 80) + 4096
    }
}

impl fmt::Debug for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, mark, keys, value_bytes, pause_ns, is_wide, notifier, .. } = self;
        if *rounds == 0 {
            return f.write_str("none");
        }
        write!(f, "mark {mark}, {rounds} rounds of {keys} keys of {value_bytes} bytes, each {pause_ns} ns")?;
        write!(f, ", {}", if *is_wide { "v3" } else { "v41" })?;
        if let Some(notifier) = notifier.checked_sub(1) {
            write!(f, ", rank {notifier} notifies")?;
        }
        match self.lost() {
            Some((rank, how)) => {
                let what = if self.outlives { ", and the job goes on" } else { "" };
                write!(f, ", rank {rank} goes: {how:?} at {}{what}", self.loses_at)
            }
            None => Ok(()),
        }
    }
}
