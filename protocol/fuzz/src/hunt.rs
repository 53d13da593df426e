//! Looking for an input under which a target panics.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::mutate::change;
use crate::random::Random;
use crate::targets::Target;

/// Entries of a corpus at most; beyond, a new one takes the place of an old one.
const ENTRIES_MAX: usize = 4096;
/// One input must be answered in this time of the processor's: a parser that takes longer can be held up.
const INPUT_TIME_MAX: Duration = Duration::from_secs(2);

/// An input under which something does not hold.
#[derive(Clone, Debug)]
pub struct Found {
    /// The target's name.
    pub target: &'static str,
    /// The input.
    pub input: Vec<u8>,
    /// What went wrong.
    pub what: String,
}

/// A hunt on one target.
pub struct Hunt {
    target: &'static Target,
    random: Random,
    entries: Vec<Vec<u8>>,
    /// What the target made of inputs so far.
    made: BTreeSet<u64>,
    inputs: u64,
}

impl Hunt {
    /// Tries the target's corpus as it is.
    ///
    /// # Errors
    /// The input under which something does not hold.
    pub fn new(target: &'static Target, seed: u64) -> Result<Self, Found> {
        let mut hunt =
            Self { target, random: Random::new(seed), entries: Vec::new(), made: BTreeSet::new(), inputs: 0 };
        for input in target.corpus() {
            hunt.look(input)?;
        }
        Ok(hunt)
    }

    /// Inputs tried so far.
    #[must_use]
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// Different things that the target made of them.
    #[must_use]
    pub fn made(&self) -> usize {
        self.made.len()
    }

    /// Tries so many changed inputs.
    ///
    /// # Errors
    /// The first under which something does not hold.
    pub fn go_on(&mut self, inputs: u64) -> Result<(), Found> {
        for _ in 0..inputs {
            let mut input = self.any_entry();
            let other = self.any_entry();
            change(&mut input, &other, &mut self.random);
            self.look(input)?;
        }
        Ok(())
    }

    fn any_entry(&mut self) -> Vec<u8> {
        let at = self.random.below(self.entries.len());
        self.entries.get(at).cloned().unwrap_or_default()
    }

    /// Tries one input, and keeps it if the target made something new of it.
    fn look(&mut self, input: Vec<u8>) -> Result<(), Found> {
        self.inputs += 1;
        if self.made.insert(self.target.check(&input)?) {
            if self.entries.len() < ENTRIES_MAX {
                self.entries.push(input);
            } else {
                let at = self.random.below(ENTRIES_MAX);
                self.entries[at] = input;
            }
        }
        Ok(())
    }
}

impl Target {
    /// Runs the target on one input. Gives a number for what it made of it.
    ///
    /// # Errors
    /// If it panics, or takes too long.
    pub fn check(&self, input: &[u8]) -> Result<u64, Found> {
        let start = processor_time();
        let made = catch_unwind(AssertUnwindSafe(|| (self.run)(input)));
        let found = |what: String| Found { target: self.name, input: input.to_vec(), what };
        let made = made.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            found(text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned())
        })?;
        match processor_time().saturating_sub(start) {
            taken if taken > INPUT_TIME_MAX => Err(found(format!("took {:.1} s", taken.as_secs_f64()))),
            _ => Ok(made),
        }
    }
}

/// What this thread has computed so far: the time of day also counts what others of the machine did meanwhile.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
