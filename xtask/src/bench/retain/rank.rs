//! What one rank of a job cost, from the job's record; and numbers taken more than once.

use anyhow::{Context, Result, bail};

use crate::bench::cluster::{Cluster, field};

/// What rank 0 of a job reported. Times are ns, or instructions where the node's clock counts them.
pub(super) struct Rank {
    /// From the launch message to the end of an empty `main`.
    pub(super) start: u64,
    /// Page faults.
    pub(super) faults: u64,
    /// Pages fetched.
    pub(super) fetched: u64,
    /// Pages found at the launch.
    pub(super) found: u64,
    /// Pages that the walk at its end kept.
    pub(super) kept: u64,
    /// Entries it dropped.
    pub(super) dropped: u64,
    /// Frames it zeroed.
    pub(super) zeroed: u64,
    /// Time it took.
    pub(super) walk: u64,
}

impl Rank {
    /// Runs a program on one node that retains it, and has it load nothing.
    ///
    /// # Errors
    /// If that fails, or if the node found nothing of it.
    pub(super) fn retained(cluster: &Cluster, command: &[&str]) -> Result<Self> {
        let rank = Self::of(cluster, &[], command)?;
        if rank.found == 0 {
            bail!("the node had retained nothing of `{}`", command.join(" "));
        }
        Ok(rank)
    }

    /// Runs a program on one node, and has it load everything.
    ///
    /// # Errors
    /// If that fails.
    pub(super) fn loaded(cluster: &Cluster, command: &[&str]) -> Result<Self> {
        Self::of(cluster, &["--no-retain"], command)
    }

    fn of(cluster: &Cluster, options: &[&str], command: &[&str]) -> Result<Self> {
        let job = cluster.json_of(&[&["run", "--json"], options, command].concat())?;
        let rank = job["rank_reports"].get(0).context("the job has no rank")?;
        Ok(Self {
            start: field(rank, "launch_ns")? + field(rank, "run_ns")?,
            faults: field(rank, "page_faults")?,
            fetched: field(rank, "pages_fetched")?,
            found: field(rank, "pages_retained")?,
            kept: field(rank, "pages_kept")?,
            dropped: field(rank, "pages_dropped")?,
            zeroed: field(rank, "pages_zeroed")?,
            walk: field(rank, "walk_ns")?,
        })
    }
}

/// One number, measured several times.
pub(super) struct Several(Vec<u64>);

impl Several {
    /// The median; 0 if nothing was measured.
    pub(super) fn median(&self) -> u64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(0)
    }

    /// The median in ms, and between what the measurements lay.
    pub(super) fn show_ms(&self) -> String {
        let (least, most) = (self.0.first().copied().unwrap_or(0), self.0.last().copied().unwrap_or(0));
        let ms = |ns: u64| ns as f64 / 1e6;
        format!("{:.2} ms ({:.2} to {:.2})", ms(self.median()), ms(least), ms(most))
    }
}

impl FromIterator<u64> for Several {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        let mut numbers: Vec<u64> = numbers.into_iter().collect();
        numbers.sort_unstable();
        Self(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::Several;

    #[test]
    fn several_measurements_are_shown_by_their_median_and_ends() {
        let several: Several = [9_000_000, 1_500_000, 2_000_000].into_iter().collect();
        assert_eq!(several.median(), 2_000_000);
        assert_eq!(several.show_ms(), "2.00 ms (1.50 to 9.00)");
        assert_eq!(Several::from_iter([]).median(), 0);
    }
}
