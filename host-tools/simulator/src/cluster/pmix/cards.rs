//! What each rank has put after each of its commits: no two values are the same, and each says whose it is.

use std::collections::BTreeMap;

use super::{Course, Want};

/// A key with one value for ranks of the same node, and another for others.
const SCOPED: &str = "scoped";

/// Keys and values of one commit: of all ranks, and what is for the same node and for others.
pub(super) struct Puts {
    pub(super) everywhere: Vec<(String, String)>,
    pub(super) near: (String, String),
    pub(super) far: (String, String),
}

impl Course {
    fn value(&self, rank: u32, key: &str, round: u64) -> String {
        let mut value = format!("{}.{rank}.{key}.{round}.", self.mark);
        let bytes = usize::try_from(self.value_bytes).unwrap_or(0).max(value.len());
        value.extend(std::iter::repeat_n('x', bytes - value.len()));
        value
    }

    /// What a rank puts in a round.
    pub(super) fn puts(&self, rank: u32, round: u64) -> Puts {
        let again = (0..self.keys).map(|number| key(Want::Again(number)));
        let once = (0..self.keys).map(|number| key(Want::Once(round, number)));
        let everywhere = again.chain(once).map(|key| {
            let value = self.value(rank, &key, round);
            (key, value)
        });
        let scoped = |scope: &str| (SCOPED.to_owned(), self.value(rank, scope, round));
        Puts { everywhere: everywhere.collect(), near: scoped("near"), far: scoped("far") }
    }

    /// All that a rank has put when it has committed so many rounds, as ranks of its node see it, or others.
    pub(super) fn card(&self, rank: u32, commits: u64, is_near: bool) -> BTreeMap<String, String> {
        let mut card = BTreeMap::new();
        for round in 0..commits.min(self.rounds) {
            let Puts { everywhere, near, far } = self.puts(rank, round);
            card.extend(everywhere);
            card.extend([if is_near { near } else { far }]);
        }
        card
    }

    /// How many rounds a rank had committed when this was all that it had put. `None`: it never is.
    pub(super) fn commits_of(&self, rank: u32, card: &BTreeMap<String, String>, is_near: bool) -> Option<u64> {
        (0..=self.rounds).find(|commits| self.card(rank, *commits, is_near) == *card)
    }

    /// What a rank publishes in a round, and under which name, which other jobs use as well.
    pub(super) fn published(&self, rank: u32, round: u64) -> (String, String) {
        (format!("name{rank}-{round}"), format!("{}.{rank}.{round}.published", self.mark))
    }
}

/// How what is wanted is called.
pub(super) fn key(want: Want) -> String {
    match want {
        Want::Again(number) => format!("again{number}"),
        Want::Once(round, number) => format!("once{round}-{number}"),
        Want::Scoped => SCOPED.to_owned(),
        Want::Never | Want::NeverEver => "never".to_owned(),
    }
}
