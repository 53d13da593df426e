//! Words that several rules need.

use coppice_api::counted;
use coppice_api::job::JobView;
use coppice_api::show::show_ranges;

/// Longest name of a program that is shown whole, characters.
const NAME_CHARACTERS_MAX: usize = 48;

/// A share in millionths, in percent: `58 %`.
pub(crate) fn percent(ppm: u64) -> String {
    match ppm {
        1..10_000 => "less than 1 %".to_owned(),
        _ => format!("{} %", ppm.saturating_add(5_000) / 10_000),
    }
}

/// How often something is in another, such as `3.2 times`.
pub(crate) fn times(whole: u128, part: u128) -> String {
    let tenths = whole.saturating_mul(10) / part.max(1);
    format!("{}.{} times", tenths / 10, tenths % 10)
}

/// A rank and where it runs.
pub(crate) fn rank(rank: u32, node: Option<u32>) -> String {
    node.map_or_else(|| format!("rank {rank}"), |node| format!("rank {rank} on node {node}"))
}

/// With a capital letter in front.
pub(crate) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// The program of a job, as the user gave it, not too long.
pub(crate) fn program(job: &JobView) -> String {
    let name = job.name.to_string();
    let length = name.chars().count();
    if length <= NAME_CHARACTERS_MAX {
        return name;
    }
    format!("…{}", name.chars().skip(length - NAME_CHARACTERS_MAX).collect::<String>())
}

/// So many ranks, as the subject of a sentence: `its only rank`, `its 4 ranks`.
pub(crate) fn its_ranks(count: u32) -> String {
    if count == 1 { "its only rank".to_owned() } else { format!("its {count} ranks") }
}

/// So many others: `3 other ranks`.
pub(crate) fn others(count: usize, what: &str) -> String {
    counted(count, &format!("other {what}"))
}

/// Numbers behind a word that has a plural: `node 3`, `nodes 0-2,4`.
pub(crate) fn numbered(what: &str, numbers: &[u32]) -> String {
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("{what}{plural} {}", show_ranges(numbers))
}

#[cfg(test)]
mod tests {
    use super::{capital, numbered, others, percent, rank, times};

    #[test]
    fn shares_are_whole_percents() {
        assert_eq!([0, 1, 9_999, 10_000, 575_000, 1_000_000].map(percent).join(", "), {
            "0 %, less than 1 %, less than 1 %, 1 %, 58 %, 100 %"
        });
        assert_eq!(percent(u64::MAX), "1844674407370955 %");
    }

    #[test]
    fn things_are_named() {
        assert_eq!(times(80, 25), "3.2 times");
        assert_eq!(times(u128::MAX, 0), times(u128::MAX, 1));
        assert_eq!((rank(3, Some(1)), rank(3, None)), ("rank 3 on node 1".into(), "rank 3".into()));
        assert_eq!((capital("rank"), capital(""), capital("ü")), ("Rank".into(), String::new(), "Ü".into()));
        assert_eq!((numbered("node", &[3]), numbered("node", &[2, 1, 0])), ("node 3".into(), "nodes 0-2".into()));
        assert_eq!((others(1, "rank"), others(3, "rank")), ("1 other rank".into(), "3 other ranks".into()));
    }
}
