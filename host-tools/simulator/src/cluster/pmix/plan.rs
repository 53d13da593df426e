//! Which call comes when: what a rank does after so many other things.

use super::{Act, Ask, Course, Fence, Loss, Speaker, Want};
use crate::cluster::queue::MILLISECOND_NS;

/// What all ranks do first.
const FIRST: u64 = 7;
/// As the how manyeth of its acts a rank that goes away does so at the earliest: it has said who it is.
pub(in crate::cluster) const SPOKEN: u64 = 4;
/// What they do in a round.
const IN_ROUND: u64 = 15;
/// Events of which others are told in a round.
const EVENTS_IN_ROUND: u64 = 2;
/// Looks whether all events have come, and the pause between two of them.
const LOOKS: u64 = 80;
const LOOK_PAUSE_NS: u64 = 500 * MILLISECOND_NS;

impl Course {
    /// As the how manyeth of its acts a rank is through with all rounds.
    pub(in crate::cluster) fn last_round_ends(&self) -> u64 {
        FIRST + self.rounds * IN_ROUND
    }

    /// Behind the looks whether all events have come.
    fn looks_end(&self) -> u64 {
        self.last_round_ends() + 2 * LOOKS
    }

    /// Where a rank goes on that has heard of all events, if it looks whether it has. One that goes away before that is
    /// over does not.
    pub(in crate::cluster) fn skips_to(&self, rank: u32, index: u64) -> Option<u64> {
        let looks = self.last_round_ends()..self.looks_end();
        let goes_away = self.loss(rank).is_some_and(|(_, at)| at < looks.end);
        (looks.contains(&index) && !goes_away).then_some(looks.end)
    }

    /// What a rank does after so many other things; `None`: it is done with PMIx.
    pub(in crate::cluster) fn act(&self, speaker: &Speaker<'_>, index: u64) -> Option<Act> {
        if let Some((how, at)) = self.loss(speaker.rank)
            && index >= at
        {
            return self.go_away(speaker, how, index);
        }
        let Some(behind) = index.checked_sub(FIRST) else {
            return Some(match index {
                0 => Act::Pause(self.pause(speaker.rank, 0)),
                1 => Act::Socket,
                2 => Act::Connect,
                3 => Act::Ask(Ask::Greet),
                4 => Act::Ask(Ask::Init),
                5 => Act::Ask(Ask::Register),
                // What another job has left there, if anything.
                _ => Act::Ask(Ask::LookUp(0, 0)),
            });
        };
        if behind < self.rounds * IN_ROUND {
            return Some(self.act_in_round(speaker, behind / IN_ROUND, behind % IN_ROUND));
        }
        if index < self.looks_end() {
            let is_pause = (index - self.last_round_ends()).is_multiple_of(2);
            return Some(if is_pause { Act::Pause(LOOK_PAUSE_NS) } else { Act::Ask(Ask::Query) });
        }
        match index - self.looks_end() {
            0 => Some(Act::Tally),
            1 => Some(Act::Ask(Ask::Fence(Fence::Whole(self.rounds)))),
            2 => Some(Act::Ask(Ask::Finalize)),
            3 => Some(Act::Close),
            _ => None,
        }
    }

    fn act_in_round(&self, speaker: &Speaker<'_>, round: u64, at: u64) -> Act {
        let Speaker { rank, size, .. } = *speaker;
        let is_notifier = self.notifier == u64::from(rank) + 1;
        let fence =
            |fence| if self.members(fence, size).contains(&rank) { Act::Ask(Ask::Fence(fence)) } else { Act::Skip };
        let get = |of, want| Act::Ask(Ask::Get(of, want));
        match at {
            0 => Act::Pause(self.pause(rank, round)),
            // What may not be there yet. Only some wait, and for others.
            1 if rank % 2 == 1 => get(rank - 1, Want::Once(round, 0)),
            2 => Act::Ask(Ask::Commit(round)),
            3 if self.publisher(size, round) == rank => Act::Ask(Ask::Publish(round)),
            4 | 5 if is_notifier => Act::Ask(Ask::Notify(round * EVENTS_IN_ROUND + at - 4)),
            6 => fence(Fence::Low(round)),
            7 => fence(Fence::High(round)),
            8 => {
                let part = if rank <= size / 2 { Fence::Low(round) } else { Fence::High(round) };
                let members = self.members(part, size);
                let count = u64::from(members.end() - members.start()) + 1;
                let other = (u64::from(rank - members.start()) + 1 + round) % count;
                get(members.start() + other as u32, Want::Again(0))
            }
            9 => fence(Fence::Whole(round)),
            10 => get((rank + size - 1) % size, Want::Again(u64::from(rank) % self.keys)),
            11 => get((rank + 1) % size, Want::Once(round, self.keys - 1)),
            12 => get((rank + size / 2) % size, Want::Scoped),
            13 => Act::Ask(Ask::LookUp(self.publisher(size, round), round)),
            14 if round == 0 && rank % 4 == 1 => get((rank + 1) % size, Want::Never),
            _ => Act::Skip,
        }
    }

    /// Not all come at once.
    fn pause(&self, rank: u32, round: u64) -> u64 {
        self.pause_ns / 4 * ((u64::from(rank) * 7 + round * 3) % 5)
    }

    /// Who publishes something in a round.
    pub(in crate::cluster) fn publisher(&self, size: u32, round: u64) -> u32 {
        ((self.mark + round) % u64::from(size.max(1))) as u32
    }

    /// The ranks of a fence.
    pub(in crate::cluster) fn members(&self, fence: Fence, size: u32) -> std::ops::RangeInclusive<u32> {
        let (middle, last) = (size / 2, size.saturating_sub(1));
        match fence {
            Fence::Low(_) => 0..=middle.min(last),
            Fence::High(_) => middle.min(last)..=last,
            Fence::Whole(_) => 0..=last,
        }
    }

    /// Whether a fence brings what its members have put.
    pub(in crate::cluster) fn collects(&self, fence: Fence) -> bool {
        match fence {
            Fence::Low(round) | Fence::High(round) => (self.mark / 3 + round).is_multiple_of(2),
            Fence::Whole(round) => round < self.rounds && !(self.mark + round).is_multiple_of(3),
        }
    }

    /// Events that there are from a rank that notifies, if nothing becomes of it.
    pub(in crate::cluster) fn events(&self) -> u64 {
        if self.notifier > 0 { self.rounds * EVENTS_IN_ROUND } else { 0 }
    }

    /// Whether an event is for a rank: every second is for half of them.
    pub(super) fn is_meant(number: u64, rank: u32) -> bool {
        number.is_multiple_of(2) || (u64::from(rank) + number / 2).is_multiple_of(2)
    }

    /// Whether a rank is told of an event, which it is not if it has said it itself.
    pub(in crate::cluster) fn is_for(&self, number: u64, rank: u32) -> bool {
        self.notifier != u64::from(rank) + 1 && Self::is_meant(number, rank)
    }

    /// Events that a rank must hear of in the end, and how many ranks' ends.
    pub(in crate::cluster) fn awaits(&self, rank: u32) -> (u64, u64) {
        let is_lost = self.loser > 0 && self.loser == self.notifier;
        let events = (0..self.events()).filter(|number| !is_lost && self.is_for(*number, rank)).count() as u64;
        (events, self.outlived().is_some().into())
    }

    /// The fence that a rank that goes away would enter next.
    fn next_fence(&self, speaker: &Speaker<'_>) -> Fence {
        let stays = Self { loser: 0, ..*self };
        let next = (self.loses_at..).map_while(|index| stays.act(speaker, index)).find_map(|act| match act {
            Act::Ask(Ask::Fence(fence)) => Some(fence),
            _ => None,
        });
        next.unwrap_or(Fence::Whole(self.rounds))
    }

    fn go_away(&self, speaker: &Speaker<'_>, how: Loss, index: u64) -> Option<Act> {
        let round = (self.loses_at.saturating_sub(FIRST) / IN_ROUND).min(self.rounds.saturating_sub(1));
        let act = match how {
            Loss::End => Act::End,
            Loss::Crash => Act::Crash,
            Loss::Mutter => Act::AskAndEnd(Ask::Commit(round), false),
            Loss::InFence => Act::AskAndEnd(Ask::Fence(self.next_fence(speaker)), true),
            Loss::InGet => Act::AskAndEnd(Ask::Get(0, Want::NeverEver), true),
            Loss::Abort => Act::Ask(Ask::Abort),
            Loss::Finalize => Act::Ask(Ask::Finalize),
            Loss::Close => Act::Close,
        };
        match (how, index - self.loses_at) {
            (_, 0) => Some(act),
            (Loss::Mutter | Loss::InFence | Loss::InGet, 1) => Some(Act::End),
            _ => None,
        }
    }
}
