//! What single ranks have done, in the database of profiles: totals of the epochs in which it was a rank's turn, of
//! which what it did between them is made when somebody asks.

use std::collections::BTreeMap;

use coppice_api::overlay::{CALLED, EpochView, OTHERS, SENT_TO, SpanView};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::overlay::Metric;
use rusqlite::{Transaction, params};

use super::database::{ProfileError, Profiles, clamped, read};

/// By the metrics' names; what is not in it is 0.
type Values = BTreeMap<String, u64>;

impl Profiles {
    /// What a rank did from one epoch in which it was its turn to the next, in order; of all of these at most so many,
    /// the newest.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn of_rank(&self, job: JobId, rank: Rank, limit: usize) -> Result<Vec<SpanView>, ProfileError> {
        let mut statement = self.0.prepare(
            "SELECT generation, end_ns, so_far,
                    (SELECT min(end_ns - period_ns) FROM epochs WHERE job = ?1 AND generation = totals.generation)
                        AS begun_ns
             FROM totals JOIN epochs USING (job, generation, epoch) WHERE job = ?1 AND rank = ?2
             ORDER BY generation, epoch",
        )?;
        let mut rows = statement.query(params![clamped(job.0), rank.0])?;
        let mut spans: Vec<SpanView> = Vec::new();
        let mut before = Before::default();
        while let Some(row) = rows.next()? {
            let (generation, end_ns) = (row.get("generation")?, read(row, "end_ns")?);
            let so_far: String = row.get("so_far")?;
            let so_far: Values = serde_json::from_str(&so_far).map_err(|_| ProfileError::Damaged("totals"))?;
            // Each start of an overlay counts from its own beginning.
            let last = spans.last().filter(|last| last.generation == generation).map(|last| last.end_ns);
            if last.is_none() {
                before = Before::default();
            }
            let begin_ns = last.map_or_else(|| read(row, "begun_ns"), Ok)?;
            let values = before.since(so_far);
            spans.push(SpanView { generation, begin_ns, end_ns, values });
        }
        spans.drain(..spans.len().saturating_sub(limit));
        Ok(spans)
    }
}

/// What was told of a rank before.
#[derive(Default)]
struct Before {
    /// Last.
    last: Values,
    /// Last of each: of a node that is among the others for a while it is known what was sent there before.
    of_each: Values,
}

impl Before {
    /// What came since then, if this is told now; what is a gauge is as it is.
    fn since(&mut self, now: Values) -> Values {
        let is_gauge =
            |name: &str| Metric::ALL.into_iter().any(|metric| metric.name() == name && metric.unit().is_now());
        let since = |(name, now): (&String, &u64)| {
            let before = if is_gauge(name) { 0 } else { self.of_each.get(name).copied().unwrap_or_default() };
            (name.clone(), now.saturating_sub(before))
        };
        let mut came: Values = now.iter().map(since).collect();
        for prefix in [SENT_TO, CALLED] {
            self.balance(prefix, &now, &mut came);
        }
        came.retain(|_, value| *value > 0);
        self.of_each.extend(now.iter().map(|(name, value)| (name.clone(), *value)));
        self.last = now;
        came
    }

    /// What is among the others at one time may be told apart at another. All together it is exact: what came of those
    /// that were not told apart last is no more than what is left by those that were, and what came of others is the
    /// rest.
    fn balance(&self, prefix: &str, now: &Values, came: &mut Values) {
        let others = format!("{prefix}{OTHERS}");
        came.remove(&others);
        let sum = |values: &Values| {
            let some = values.iter().filter(|(name, _)| name.starts_with(prefix));
            some.fold(0_u64, |sum, (_, value)| sum.saturating_add(*value))
        };
        let mut left = sum(now).saturating_sub(sum(&self.last));
        for is_new in [false, true] {
            let of = |name: &str| name.starts_with(prefix) && self.last.contains_key(name) != is_new;
            for (_, value) in came.iter_mut().filter(|(name, _)| of(name)) {
                *value = (*value).min(left);
                left -= *value;
            }
        }
        came.insert(others, left);
    }
}

/// Records what is told of single ranks in an epoch.
pub(super) fn add(transaction: &Transaction<'_>, job: JobId, view: &EpochView) -> Result<(), ProfileError> {
    let mut statement = transaction.prepare_cached("INSERT OR REPLACE INTO totals VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for total in &view.totals {
        let so_far = serde_json::to_string(&total.values).map_err(|_| ProfileError::Damaged("totals"))?;
        statement.execute(params![clamped(job.0), view.generation, total.rank, clamped(view.epoch), so_far])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::time::{Duration, UNIX_EPOCH};

    use coppice_api::overlay::{EpochView, SpanView, TotalView};
    use coppice_protocol::ids::{JobId, Rank};
    use proptest::collection::vec;
    use proptest::{prop_assert_eq, proptest};

    use super::{Before, CALLED, OTHERS, Values};

    use super::super::database::tests::{epoch, opened};
    use super::super::{ProfileOrder, Profiles};
    use crate::limits::PROFILE_EPOCHS_MAX;

    fn told(number: u64, generation: u32, ranks: &[(u32, u64)]) -> ProfileOrder {
        let total = |(rank, calls): &(u32, u64)| TotalView {
            rank: *rank,
            values: [("calls".into(), *calls), ("pages-resident".into(), 40 + number)].into(),
        };
        let totals = ranks.iter().map(total).collect();
        ProfileOrder::Epoch(JobId(1), Box::new(EpochView { generation, totals, ..epoch(number) }))
    }

    fn calls(profiles: &Profiles, rank: u32) -> Vec<(u32, u64, u64, Option<u64>)> {
        let of = |span: &SpanView| {
            let seconds = |ns: u64| ns / 1_000_000_000;
            (span.generation, seconds(span.begin_ns), seconds(span.end_ns), span.values.get("calls").copied())
        };
        profiles.of_rank(JobId(1), Rank(rank), usize::MAX).expect("readable").iter().map(of).collect()
    }

    #[test]
    fn what_a_rank_did_is_what_came_between_its_turns() {
        let (_directory, mut profiles) = opened();
        let orders = [
            told(5, 1, &[(0, 10), (2, 7)]),
            told(6, 1, &[(1, 3)]),
            told(7, 1, &[(0, 12), (2, 7)]),
            told(9, 2, &[(0, 5)]),
            told(10, 2, &[(0, 6)]),
        ];
        profiles.add(&orders).expect("room");
        // Again, with one that came late.
        profiles.add(&[told(6, 1, &[(1, 3), (4, 9)])]).expect("room");
        assert_eq!(
            calls(&profiles, 0),
            [(1, 5, 6, Some(10)), (1, 6, 8, Some(2)), (2, 9, 10, Some(5)), (2, 10, 11, Some(1))]
        );
        assert_eq!(calls(&profiles, 2), [(1, 5, 6, Some(7)), (1, 6, 8, None)], "nothing is left out");
        assert_eq!(calls(&profiles, 4), [(1, 5, 7, Some(9))]);
        assert_eq!(calls(&profiles, 3), []);
        let last = profiles.of_rank(JobId(1), Rank(2), 1).expect("readable");
        assert_eq!(last.iter().map(|span| span.values["pages-resident"]).collect::<Vec<_>>(), [47], "as it is then");
        profiles.forget_before(UNIX_EPOCH + Duration::from_secs(10)).expect("possible");
        assert_eq!(calls(&profiles, 0), [(2, 9, 10, Some(5)), (2, 10, 11, Some(1))]);
        let rows: i64 = profiles.0.query_row("SELECT count(*) FROM totals", [], |row| row.get(0)).expect("a count");
        assert_eq!(rows, 2, "nothing is left of others");
    }

    #[test]
    fn where_bytes_were_sent_is_known_though_it_is_not_told_for_a_while() {
        let (_directory, mut profiles) = opened();
        let order = |number: u64, sent: &[(&str, u64)]| {
            let values = sent.iter().map(|(node, bytes)| (format!("sent-to:{node}"), *bytes)).collect();
            let totals = vec![TotalView { rank: 0, values }];
            ProfileOrder::Epoch(JobId(1), Box::new(EpochView { totals, ..epoch(number) }))
        };
        let sent = [order(5, &[("1", 70), ("others", 5)]), order(6, &[("2", 80), ("others", 75)])];
        profiles.add(&sent).expect("room");
        profiles.add(&[order(7, &[("1", 90), ("2", 80), ("others", 5)])]).expect("room");
        // Of 60 that went to a new one, others that are told no longer had had 5, and 2 were sent.
        profiles.add(&[order(8, &[("1", 92), ("2", 80), ("3", 60)])]).expect("room");
        let spans = profiles.of_rank(JobId(1), Rank(0), usize::MAX).expect("readable");
        let of = |span: &SpanView| span.values.iter().map(|(name, bytes)| (name.clone(), *bytes)).collect::<Vec<_>>();
        let named =
            |some: &[(&str, u64)]| some.iter().map(|(name, bytes)| (format!("sent-to:{name}"), *bytes)).collect();
        let wanted: [Vec<_>; 4] = [
            named(&[("1", 70), ("others", 5)]),
            named(&[("2", 80)]),
            named(&[("1", 20)]),
            named(&[("1", 2), ("3", 55)]),
        ];
        assert_eq!(spans.iter().map(of).collect::<Vec<_>>(), wanted);
    }

    proptest! {
        /// Whatever is told apart when: what came in all spans together is what there was in the end.
        #[test]
        fn what_came_adds_up(sent in vec(vec((0_u64..20, 0_u64..100), 0..12), 1..10)) {
            let (mut before, mut all, mut came) = (Before::default(), [0_u64; 20], 0);
            for some in sent {
                some.into_iter().for_each(|(of, amount)| all[of as usize] += amount);
                let mut most: Vec<(usize, u64)> = all.iter().copied().enumerate().filter(|(_, sum)| *sum > 0).collect();
                most.sort_by_key(|(of, sum)| (Reverse(*sum), *of));
                let others = most.split_off(most.len().min(8)).iter().map(|(_, sum)| sum).sum();
                let mut now: Values = most.iter().map(|(of, sum)| (format!("{CALLED}{of}"), *sum)).collect();
                now.insert(format!("{CALLED}{OTHERS}"), others);
                came += before.since(now).values().sum::<u64>();
                prop_assert_eq!(came, all.iter().sum::<u64>());
            }
        }
    }

    #[test]
    fn what_is_thinned_out_is_in_what_comes_behind_it() {
        let (_directory, mut profiles) = opened();
        let last = PROFILE_EPOCHS_MAX as u64 + 100;
        for first in (0..=last).step_by(100) {
            let orders: Vec<_> =
                (first..(first + 100).min(last + 1)).map(|number| told(number, 1, &[(0, 3 * (number + 1))])).collect();
            profiles.add(&orders).expect("room");
        }
        let calls = calls(&profiles, 0);
        assert!(calls.len() as i64 <= PROFILE_EPOCHS_MAX);
        assert_eq!(calls.iter().filter_map(|(.., calls)| *calls).sum::<u64>(), 3 * (last + 1));
        assert!(calls.windows(2).all(|pair| pair[0].2 == pair[1].1), "they are one behind the other");
    }
}
