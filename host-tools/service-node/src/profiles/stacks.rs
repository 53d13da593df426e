//! What ranks were at when they were sampled, in the database of profiles.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use coppice_protocol::ids::JobId;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::database::{ProfileError, Profiles, clamped, read};
use crate::limits::{PROFILE_FRAMES_MAX, PROFILE_INNERMOST_MAX, PROFILE_STACKS_MAX, PROFILE_STACKS_TOLD_MAX};

impl Profiles {
    /// What the ranks of a job were at in all starts of its overlay together, those that were seen most often first.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn stacks_of(&self, job: JobId) -> Result<Vec<(Vec<u64>, u64)>, ProfileError> {
        let mut all = BTreeMap::<Vec<u64>, u64>::new();
        let mut statement = self.0.prepare("SELECT stack, count FROM stacks WHERE job = ?1")?;
        let mut rows = statement.query([clamped(job.0)])?;
        while let Some(row) = rows.next()? {
            let stack = unpacked(row.get_ref("stack")?.as_blob().unwrap_or_default())?;
            let count = all.entry(stack).or_default();
            *count = count.saturating_add(read(row, "count")?);
        }
        // What was not kept apart stays last, whatever comes to it.
        let mut rest = all.remove([].as_slice()).unwrap_or_default();
        let mut stacks: Vec<_> = all.into_iter().collect();
        stacks.sort_by_key(|(_, count)| Reverse(*count));
        for (_, count) in stacks.drain(stacks.len().min(PROFILE_STACKS_TOLD_MAX)..) {
            rest = rest.saturating_add(count);
        }
        stacks.extend((rest > 0).then_some((Vec::new(), rest)));
        Ok(stacks)
    }

    /// How often a second the ranks of a job were sampled, if that was always the same.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn sample_hz(&self, job: JobId) -> Result<Option<u32>, ProfileError> {
        let mut statement = self.0.prepare("SELECT DISTINCT hz FROM samplings WHERE job = ?1 LIMIT 2")?;
        let rates = statement.query_map([clamped(job.0)], |row| row.get(0))?.collect::<Result<Vec<u32>, _>>()?;
        Ok(if let [hz] = rates[..] { Some(hz) } else { None })
    }
}

/// Records how often ranks are sampled.
pub(super) fn set_rate(
    transaction: &Transaction<'_>,
    job: JobId,
    generation: u32,
    hz: u32,
) -> Result<(), ProfileError> {
    transaction.prepare_cached("INSERT OR REPLACE INTO samplings VALUES (?1, ?2, ?3)")?.execute(params![
        clamped(job.0),
        generation,
        hz
    ])?;
    Ok(())
}

/// Adds what ranks were at.
pub(super) fn add(
    transaction: &Transaction<'_>,
    job: JobId,
    generation: u32,
    stacks: &[(Vec<u64>, u64)],
) -> Result<(), ProfileError> {
    let key = params![clamped(job.0), generation];
    let mut rows: u64 = transaction
        .prepare_cached("SELECT count(*) FROM stacks WHERE job = ?1 AND generation = ?2")?
        .query_row(key, |row| row.get::<_, i64>(0))?
        .max(0) as u64;
    for (stack, count) in stacks.iter().filter(|(_, count)| *count > 0) {
        let whole = stack.get(..PROFILE_FRAMES_MAX).unwrap_or(stack);
        let innermost = stack.get(..1).unwrap_or_default();
        let choices = [(whole, PROFILE_STACKS_MAX), (innermost, PROFILE_STACKS_MAX + PROFILE_INNERMOST_MAX)];
        let mut chosen = Vec::new();
        let mut is_new = false;
        for (choice, rows_max) in choices {
            let packed = packed(choice);
            let is_there = transaction
                .prepare_cached("SELECT 1 FROM stacks WHERE job = ?1 AND generation = ?2 AND stack = ?3")?
                .query_row(params![clamped(job.0), generation, packed], |_| Ok(()))
                .optional()?
                .is_some();
            if is_there || rows < rows_max {
                (chosen, is_new) = (packed, !is_there);
                break;
            }
        }
        rows += u64::from(is_new);
        // A sum that SQLite has no number for would be an error.
        transaction
            .prepare_cached(
                "INSERT INTO stacks VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET count =
                     CASE WHEN count > ?5 - excluded.count THEN ?5 ELSE count + excluded.count END",
            )?
            .execute(params![clamped(job.0), generation, chosen, clamped(*count), i64::MAX])?;
    }
    Ok(())
}

/// Forgets what jobs were at whose last epoch ended before that.
pub(super) fn forget_before(connection: &Connection, before_ns: i64) -> Result<(), ProfileError> {
    for table in ["stacks", "samplings"] {
        connection.execute(
            &format!("DELETE FROM {table} WHERE job IN (SELECT job FROM epochs GROUP BY job HAVING max(end_ns) < ?1)"),
            [before_ns],
        )?;
    }
    Ok(())
}

fn packed(stack: &[u64]) -> Vec<u8> {
    stack.iter().flat_map(|address| address.to_le_bytes()).collect()
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u64>, ProfileError> {
    let (addresses, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(ProfileError::Damaged("stack"));
    }
    Ok(addresses.iter().map(|address| u64::from_le_bytes(*address)).collect())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use coppice_api::overlay::EpochView;
    use coppice_protocol::ids::JobId;

    use super::super::database::tests::opened;
    use super::super::{ProfileError, ProfileOrder, Profiles};
    use crate::limits::{PROFILE_FRAMES_MAX, PROFILE_INNERMOST_MAX, PROFILE_STACKS_MAX, PROFILE_STACKS_TOLD_MAX};

    fn stacks(job: u64, generation: u32, stacks: Vec<(Vec<u64>, u64)>) -> ProfileOrder {
        ProfileOrder::Stacks { job: JobId(job), generation, stacks }
    }

    fn sampling(job: u64, generation: u32, hz: u32) -> ProfileOrder {
        ProfileOrder::Sampling { job: JobId(job), generation, hz }
    }

    fn rows(profiles: &Profiles) -> u64 {
        profiles.0.query_row("SELECT count(*) FROM stacks", [], |row| row.get::<_, i64>(0)).expect("a count") as u64
    }

    #[test]
    fn counts_are_added_up() {
        let (_directory, mut profiles) = opened();
        let (deep, flat) = (vec![0x40_1136, u64::MAX, 1], vec![0x40_1136]);
        profiles.add(&[stacks(1, 1, vec![(deep.clone(), 3), (flat.clone(), 4), (vec![9], 0)])]).expect("room");
        profiles
            .add(&[stacks(1, 1, vec![(deep.clone(), 5), (vec![], 90)]), stacks(2, 1, vec![(flat.clone(), 1)])])
            .expect("room");
        assert_eq!(
            profiles.stacks_of(JobId(1)).expect("readable"),
            [(deep.clone(), 8), (flat.clone(), 4), (vec![], 90)]
        );
        profiles.add(&[stacks(1, 2, vec![(flat.clone(), 10)])]).expect("room");
        assert_eq!(profiles.stacks_of(JobId(1)).expect("readable")[0], (flat.clone(), 14), "of both starts");
        profiles.add(&[stacks(2, 1, vec![(flat.clone(), u64::MAX), (flat.clone(), u64::MAX)])]).expect("room");
        assert_eq!(profiles.stacks_of(JobId(2)).expect("readable"), [(flat, i64::MAX as u64)]);
        assert_eq!(profiles.stacks_of(JobId(3)).expect("readable"), []);
    }

    #[test]
    fn of_further_stacks_it_is_counted_what_was_innermost() {
        let (_directory, mut profiles) = opened();
        let many = |first: u64, count: u64, innermost: u64| {
            (first..first + count).map(|number| (vec![innermost, number], 1)).collect::<Vec<_>>()
        };
        profiles.add(&[stacks(1, 1, many(0, PROFILE_STACKS_MAX, 5))]).expect("room");
        let further = many(1 << 20, 100, 5);
        profiles.add(&[stacks(1, 1, further), stacks(1, 1, many(0, 3, 5))]).expect("room");
        assert_eq!(rows(&profiles), PROFILE_STACKS_MAX + 1);
        let told = profiles.stacks_of(JobId(1)).expect("readable");
        assert_eq!((told[0].clone(), told[1].clone()), ((vec![5], 100), (vec![5, 0], 2)), "what is there is added to");
        let innermost = (0..2 * PROFILE_INNERMOST_MAX).map(|number| (vec![1 << 30 | number, 7], 1)).collect();
        profiles.add(&[stacks(1, 1, innermost)]).expect("room");
        assert_eq!(rows(&profiles), PROFILE_STACKS_MAX + PROFILE_INNERMOST_MAX + 1, "and one for the rest");
        let told = profiles.stacks_of(JobId(1)).expect("readable");
        assert_eq!(told.last(), Some(&(vec![], PROFILE_INNERMOST_MAX + 1)));
        let samples: u64 = told.iter().map(|(_, count)| count).sum();
        assert_eq!(samples, PROFILE_STACKS_MAX + 103 + 2 * PROFILE_INNERMOST_MAX, "none is lost");
        profiles.add(&[stacks(1, 2, many(0, 1, 6))]).expect("room");
        assert!(profiles.stacks_of(JobId(1)).expect("readable").contains(&(vec![6, 0], 1)), "another start has room");
    }

    #[test]
    fn what_is_told_has_limits() {
        let (_directory, mut profiles) = opened();
        profiles.add(&[stacks(1, 1, vec![((0..1000).collect(), 1)])]).expect("room");
        assert_eq!(profiles.stacks_of(JobId(1)).expect("readable")[0].0.len(), PROFILE_FRAMES_MAX);
        for generation in 0..6 {
            let first = u64::from(generation) << 32;
            let all = (first..first + PROFILE_STACKS_MAX).map(|address| (vec![address], 2)).collect();
            profiles.add(&[stacks(2, generation, all)]).expect("room");
        }
        let told = profiles.stacks_of(JobId(2)).expect("readable");
        assert_eq!(told.len(), PROFILE_STACKS_TOLD_MAX + 1);
        let rest = 2 * (6 * PROFILE_STACKS_MAX - PROFILE_STACKS_TOLD_MAX as u64);
        assert_eq!(told.last(), Some(&(vec![], rest)));
    }

    #[test]
    fn a_rate_is_told_if_it_was_always_the_same() {
        let (_directory, mut profiles) = opened();
        let hz = |profiles: &Profiles| profiles.sample_hz(JobId(1)).expect("readable");
        assert_eq!(hz(&profiles), None);
        profiles.add(&[sampling(1, 1, 100), sampling(1, 2, 100), sampling(2, 1, 50)]).expect("room");
        assert_eq!(hz(&profiles), Some(100));
        profiles.add(&[sampling(1, 3, 99)]).expect("room");
        assert_eq!(hz(&profiles), None);
    }

    #[test]
    fn they_go_with_the_last_epoch_of_their_job() {
        let (_directory, mut profiles) = opened();
        let epoch = |job, second: u64| {
            let view = EpochView {
                generation: 1,
                epoch: second,
                period_ns: 1_000_000_000,
                end_ns: second * 1_000_000_000,
                came_ns: second * 1_000_000_000,
                ranks: 1,
                of: 1,
                missing: String::new(),
                metrics: Vec::new(),
                alike: Vec::new(),
                counters: Vec::new(),
                counters_dropped: 0,
                node_count: 0,
                nodes: Vec::new(),
                totals: Vec::new(),
            };
            ProfileOrder::Epoch(JobId(job), Box::new(view))
        };
        let all = [1, 2, 3].map(|job| [stacks(job, 1, vec![(vec![7], 1)]), sampling(job, 1, 10)]).concat();
        profiles.add(&all).expect("room");
        profiles.add(&[epoch(1, 3), epoch(2, 3), epoch(2, 9)]).expect("room");
        profiles.forget_before(UNIX_EPOCH + Duration::from_secs(5)).expect("possible");
        let left = [1, 2, 3].map(|job| {
            let (stacks, hz) = (profiles.stacks_of(JobId(job)), profiles.sample_hz(JobId(job)));
            (stacks.expect("readable").len(), hz.expect("readable"))
        });
        // The third has no epoch yet.
        assert_eq!(left, [(0, None), (1, Some(10)), (1, Some(10))]);
    }

    #[test]
    fn a_damaged_row_is_said_to_be_one() {
        let (_directory, profiles) = opened();
        profiles.0.execute("INSERT INTO stacks VALUES (1, 1, x'010203', 1)", []).expect("room");
        assert!(matches!(profiles.stacks_of(JobId(1)), Err(ProfileError::Damaged("stack"))));
    }
}
