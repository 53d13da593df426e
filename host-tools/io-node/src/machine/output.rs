//! Output of a job: what may be under way to the user, and who waits for room.
//!
//! The user takes output as fast as he likes, and a job may have [`OUTPUT_WINDOW_BYTES`] under way to him. A rank that
//! wants to print more than there is room for stands in line; nobody passes it, so it gets its turn however little
//! others print. When there is room for what it wanted, the room is kept for it and it is told. It prints, or says that
//! it does not want to, or ends: then the room is others' again. Nothing else waits here, so a rank in line holds
//! nothing but its place.

use std::collections::{BTreeMap, VecDeque};

use coppice_protocol::ids::Rank;
use coppice_protocol::limits::OUTPUT_WINDOW_BYTES;
use rustix::io::Errno;

use crate::files::Result;

/// See this module. It has at most as many entries as the job has ranks here.
#[derive(Debug)]
pub(super) struct Output {
    /// Bytes that may be sent and are not kept for anybody.
    room: usize,
    /// Bytes that were sent and the user has not taken.
    under_way: usize,
    /// Those who wait, with what they want, bytes.
    line: VecDeque<(Rank, usize)>,
    /// Those who were told that they have room, and how much, bytes.
    kept: BTreeMap<Rank, usize>,
    /// Those who are to be told.
    told: Vec<Rank>,
}

impl Default for Output {
    fn default() -> Self {
        let (line, kept) = (VecDeque::new(), BTreeMap::new());
        Self { room: OUTPUT_WINDOW_BYTES, under_way: 0, line, kept, told: Vec::new() }
    }
}

impl Output {
    /// A rank wants to print so many bytes. True: they are to be sent to the user now. False: it stands in line.
    ///
    /// # Errors
    /// `EIO` if there is never so much room.
    pub(super) fn print(&mut self, rank: Rank, bytes: usize) -> Result<bool> {
        if bytes > OUTPUT_WINDOW_BYTES {
            return Err(Errno::IO);
        }
        let kept = self.kept.remove(&rank);
        self.room += kept.unwrap_or(0);
        let is_in_turn = self.line.is_empty() || kept.is_some_and(|kept| bytes <= kept);
        let may_print = is_in_turn && bytes <= self.room;
        if may_print {
            self.room -= bytes;
            self.under_way += bytes;
        } else {
            match self.line.iter_mut().find(|(other, _)| *other == rank) {
                Some((_, wanted)) => *wanted = bytes.max(*wanted),
                // Who had room and wants more has waited already.
                None if kept.is_some() => self.line.push_front((rank, bytes)),
                None => self.line.push_back((rank, bytes)),
            }
        }
        self.let_in();
        Ok(may_print)
    }

    /// The user took so many bytes.
    pub(super) fn taken(&mut self, bytes: usize) {
        // Never more than was sent, whatever the other side counts.
        let bytes = bytes.min(self.under_way);
        self.under_way -= bytes;
        self.room += bytes;
        self.let_in();
    }

    /// A rank does not want to print any more.
    pub(super) fn leave(&mut self, rank: Rank) {
        self.room += self.kept.remove(&rank).unwrap_or(0);
        self.line.retain(|(other, _)| *other != rank);
        self.told.retain(|other| *other != rank);
        self.let_in();
    }

    /// Keeps room for those who stand first in line.
    fn let_in(&mut self) {
        while let Some((rank, bytes)) = self.line.front().copied().filter(|(_, bytes)| *bytes <= self.room) {
            self.line.pop_front();
            self.room -= bytes;
            self.kept.insert(rank, bytes);
            self.told.push(rank);
        }
    }

    /// Those who have room since this was last asked, and are to be told.
    pub(super) fn take_told(&mut self) -> Vec<Rank> {
        std::mem::take(&mut self.told)
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::Rank;
    use coppice_protocol::limits::OUTPUT_WINDOW_BYTES;
    use proptest::collection::vec;
    use proptest::prelude::{ProptestConfig, Strategy, prop_oneof};
    use proptest::proptest;

    use super::Output;

    const ALL: usize = OUTPUT_WINDOW_BYTES;

    #[test]
    fn ranks_have_room_in_the_order_they_came() {
        let mut output = Output::default();
        assert_eq!(output.print(Rank(0), ALL), Ok(true));
        assert_eq!(output.print(Rank(1), 100), Ok(false));
        assert_eq!(output.print(Rank(2), 1), Ok(false));
        output.taken(50);
        assert_eq!(output.take_told(), [], "the second would have room, but the first was there before");
        assert_eq!(output.print(Rank(3), 1), Ok(false));
        output.taken(51);
        assert_eq!(output.take_told(), [Rank(1), Rank(2)]);
        assert_eq!(output.print(Rank(2), 1), Ok(true));
        assert_eq!(output.print(Rank(1), 30), Ok(true), "it wanted more, which others have now");
        assert_eq!(output.take_told(), [Rank(3)]);
        assert_eq!(output.print(Rank(0), ALL + 1), Err(rustix::io::Errno::IO));
    }

    #[test]
    fn who_goes_away_keeps_nobody() {
        let mut output = Output::default();
        assert_eq!(output.print(Rank(0), ALL), Ok(true));
        for rank in 1..4 {
            assert_eq!(output.print(Rank(rank), ALL), Ok(false));
        }
        output.leave(Rank(1));
        output.taken(usize::MAX);
        assert_eq!(output.take_told(), [Rank(2)]);
        output.leave(Rank(2));
        assert_eq!(output.take_told(), [Rank(3)]);
        assert_eq!(output.print(Rank(3), ALL), Ok(true));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Print(u32, usize),
        Taken(usize),
        Leave(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..4_u32, 0..=ALL).prop_map(|(rank, bytes)| Step::Print(rank, bytes)),
            2 => (0..=ALL).prop_map(Step::Taken),
            1 => (0..4_u32).prop_map(Step::Leave),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        /// Never more is sent than the window allows, no room is lost, and while the user takes what comes nobody
        /// waits for ever.
        #[test]
        fn room_is_never_lost(steps in vec(step(), 0..60)) {
            let mut output = Output::default();
            for step in steps {
                match step {
                    Step::Print(rank, bytes) => drop(output.print(Rank(rank), bytes)),
                    Step::Taken(bytes) => output.taken(bytes),
                    Step::Leave(rank) => output.leave(Rank(rank)),
                }
                let kept: usize = output.kept.values().sum();
                assert_eq!(output.room + output.under_way + kept, ALL);
                assert!(output.line.front().is_none_or(|(_, bytes)| *bytes > output.room));
            }
            let waiting = output.line.len();
            for _ in 0..=waiting {
                output.taken(ALL);
                for rank in output.kept.keys().copied().collect::<Vec<_>>() {
                    output.leave(rank);
                }
            }
            assert!(output.line.is_empty() && output.kept.is_empty());
            output.taken(ALL);
            assert_eq!(output.room, ALL);
        }
    }
}
