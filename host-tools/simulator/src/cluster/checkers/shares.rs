//! Files that the ranks of a job share are what POSIX says of them, call by call: what a call has written every call
//! reads that begins later, what one call has read no later one reads older, and nobody reads what nobody has written.
//! Calls that overlap may be in either order. So are appends, of which each is there once, lengths, and the names that
//! a file is given.
//!
//! What a rank has written and its node could not hand on may be gone, if that was said: to the rank, by a call that
//! failed, or by its end. So what is older than it must be counts only once its writer came to his end, all calls of
//! his node having succeeded.

use std::collections::{BTreeMap, BTreeSet};

use coppice_protocol::ids::{JobId, NodeId};

use crate::checkers::Violation;
use crate::cluster::shared_files::SharedFiles;
use crate::cluster::sharing::{Deed, NAMES, SharedFile, Sharing, length_of, word};

/// What a call found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Found {
    Nothing,
    Words(Vec<u64>),
    Length(u64),
    /// Whether there is something of that name.
    Name(bool),
}

/// Who does something: a rank of a job, on this node if that is known.
pub(in crate::cluster) type Sharer = (JobId, u32, Option<NodeId>);

/// What a rank does, in the order in which ranks do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum ShareNote {
    /// It is about to make this call.
    Begins(Deed),
    /// The call has succeeded.
    Ends(Deed, Found),
    /// The call has failed, with this.
    Fails(Deed, i64),
    /// It has made all its calls.
    Over,
}

/// What a call that reads must find at least.
#[derive(Debug, Default)]
struct Least {
    words: Vec<u64>,
    log: Vec<u64>,
    appended: BTreeSet<u64>,
    length: u64,
    renamed: u64,
}

#[derive(Debug, Default)]
struct Job {
    sharing: Sharing,
    /// Numbers of what each rank has begun to write.
    begun: BTreeMap<u32, BTreeSet<u64>>,
    /// What each word of a rank's record was at least, at the end of some call.
    words: BTreeMap<u32, Vec<u64>>,
    /// Entries of the log that are there, and those that somebody has read, in order.
    appended: BTreeSet<u64>,
    log: Vec<u64>,
    /// The number of the length.
    length: u64,
    /// How often the named file was renamed at least, and at most.
    renamed: u64,
    renaming: u64,
    /// What is being read.
    reads: BTreeMap<u32, Least>,
    nodes: BTreeMap<u32, NodeId>,
    /// Ranks that came to their end, and nodes where a call failed.
    over: BTreeSet<u32>,
    failed: BTreeSet<NodeId>,
    /// What is wrong if it comes to its end whose it is.
    wrong: Vec<(Whose, String)>,
}

/// Who has written what is not there.
#[derive(Clone, Copy, Debug)]
enum Whose {
    Rank(u32),
    /// Somebody.
    Anyone,
}

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Shares {
    jobs: BTreeMap<JobId, Job>,
    /// Reads that found what another rank has written.
    pub read: u64,
    found: Vec<Violation>,
}

impl Shares {
    /// Somebody who shares files so does something.
    pub(in crate::cluster) fn note(&mut self, (job, rank, node): Sharer, sharing: Sharing, note: ShareNote) {
        let of = self.jobs.entry(job).or_default();
        of.sharing = sharing;
        if let Some(node) = node {
            of.nodes.insert(rank, node);
        }
        let result = match note {
            ShareNote::Begins(deed) => {
                of.begins(rank, deed);
                Ok(false)
            }
            ShareNote::Ends(deed, found) => of.ends(rank, deed, found),
            ShareNote::Fails(..) => {
                of.failed.extend(node);
                Ok(false)
            }
            ShareNote::Over => {
                of.over.insert(rank);
                Ok(false)
            }
        };
        let proven = of.take_proven();
        self.read += u64::from(result == Ok(true));
        for what in result.err().into_iter().chain(proven) {
            self.found.push(Violation::new(format!("job {job}: {what}")));
        }
    }

    /// A rank's end is told that came by itself: all that it has written is on the host.
    pub(in crate::cluster) fn ended(&mut self, job: JobId, rank: u32, files: &SharedFiles) {
        let Some(of) = self.jobs.get(&job).filter(|of| of.is_well(rank)) else { return };
        let what =
            of.what_is_lost(rank, |file| files.bytes(job, file)).or_else(|| of.name_is_lost(rank, files.name(job)));
        self.found.extend(what.map(|what| Violation::new(format!("rank {rank} of job {job} has ended, and {what}"))));
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes)).collect()
}

/// What so many words of a rank say, those that are not there too; of other words what nobody writes.
fn numbers(rank: u32, words: &[u64], count: u64) -> Vec<u64> {
    let number = |found: u64| if found == 0 { 0 } else { found ^ word(rank, 0) };
    words.iter().copied().chain(std::iter::repeat(0)).take(count as usize).map(number).collect()
}

/// Entries of a log, and whether something is missing between them: a node writes side by side what its ranks have
/// appended, so it is until all is written, and for good if the node died meanwhile.
///
/// # Errors
/// It has something else.
fn entries(words: &[u64]) -> Result<(Vec<u64>, bool), String> {
    let (mut entries, mut has_holes) = (Vec::new(), false);
    for pair in words.chunks(2) {
        match pair {
            [0, 0] => has_holes = true,
            [entry, not] if *entry == !*not && !entries.contains(entry) => entries.push(*entry),
            _ => return Err(format!("a log goes on behind {entries:x?} with {pair:x?}")),
        }
    }
    Ok((entries, has_holes))
}

impl Job {
    fn begins(&mut self, rank: u32, deed: Deed) {
        match deed {
            Deed::Write(number) | Deed::Append(number) | Deed::Cut(number) => {
                self.begun.entry(rank).or_default().insert(number);
            }
            Deed::Read(of) => {
                let words = self.words.get(&of).cloned().unwrap_or_default();
                self.reads.insert(rank, Least { words, ..Least::default() });
            }
            Deed::ReadLog => {
                let (log, appended) = (self.log.clone(), self.appended.clone());
                self.reads.insert(rank, Least { log, appended, ..Least::default() });
            }
            Deed::Rename(number) => self.renaming = self.renaming.max(number),
            Deed::LookAtName(_) => {
                self.reads.insert(rank, Least { renamed: self.renamed, ..Least::default() });
            }
            Deed::LookAtLength => {
                self.reads.insert(rank, Least { length: self.length, ..Least::default() });
            }
            _ => {}
        }
    }

    /// Whether it found what another rank has written.
    fn ends(&mut self, rank: u32, deed: Deed, found: Found) -> Result<bool, String> {
        match (deed, found) {
            (Deed::Write(number), _) => drop(self.words.insert(rank, vec![number; self.sharing.words as usize])),
            (Deed::Append(number), _) => drop(self.appended.insert(word(rank, number))),
            (Deed::Cut(number), _) => self.length = number,
            (Deed::Rename(number), _) => self.renamed = self.renamed.max(number),
            (Deed::LookAtName(name), Found::Name(is_there)) => return self.has_seen_name(rank, name, is_there),
            (Deed::Read(of), Found::Words(words)) => return self.has_read(rank, of, &words),
            (Deed::ReadLog, Found::Words(words)) => return self.has_read_log(rank, &words),
            (Deed::LookAtLength, Found::Length(length)) => return self.has_seen_length(rank, length),
            _ => {}
        }
        Ok(false)
    }

    fn has_begun(&self, rank: u32, number: u64) -> bool {
        self.begun.get(&rank).is_some_and(|begun| begun.contains(&number))
    }

    fn has_read(&mut self, rank: u32, of: u32, words: &[u64]) -> Result<bool, String> {
        let least = self.reads.remove(&rank).unwrap_or_default().words;
        let numbers = numbers(of, words, self.sharing.words);
        if let Some(number) = numbers.iter().find(|number| **number != 0 && !self.has_begun(of, **number)) {
            return Err(format!("rank {rank} has read {number:#x} as rank {of}'s, which has not written that"));
        }
        if let Some((is, was)) = numbers.iter().zip(&least).find(|(is, was)| is < was) {
            self.wrong
                .push((Whose::Rank(of), format!("rank {rank} has read {is} of rank {of}, where {was} was before")));
        }
        let known = self.words.entry(of).or_insert_with(|| vec![0; numbers.len()]);
        known.iter_mut().zip(&numbers).for_each(|(known, number)| *known = (*known).max(*number));
        Ok(of != rank && numbers.iter().any(|number| *number > 0))
    }

    fn has_read_log(&mut self, rank: u32, words: &[u64]) -> Result<bool, String> {
        let least = self.reads.remove(&rank).unwrap_or_default();
        let (log, has_holes) = entries(words).map_err(|what| format!("rank {rank}: {what}"))?;
        if has_holes {
            self.wrong.push((Whose::Anyone, format!("rank {rank} has read a log with holes, {log:x?}")));
        }
        let of = |entry: u64| ((entry >> 32) as u32, entry & u64::from(u32::MAX));
        let mut last = BTreeMap::new();
        for (of, number) in log.iter().map(|entry| of(*entry)) {
            let before = last.insert(of, number).unwrap_or(0);
            if before >= number || !self.has_begun(of, number) {
                return Err(format!("rank {rank} has read {number} as appended by rank {of} behind {before}"));
            }
        }
        let differs = log.iter().zip(&least.log).find(|(is, was)| is != was).map(|(_, was)| *was);
        let is_cut = least.log.get(log.len()).copied();
        let lost = least.appended.iter().find(|entry| !log.contains(entry)).copied();
        if let Some(entry) = differs.or(is_cut).or(lost) {
            let (of, number) = of(entry);
            let (was, also) = (&least.log, &least.appended);
            let what = format!("rank {rank} has read {log:x?}, without {number} of rank {of} or with it elsewhere");
            let what = format!("{what}, where {was:x?} was read before and {also:x?} were appended");
            self.wrong.push((Whose::Rank(of), what));
        } else if log.len() > self.log.len() {
            self.log.clone_from(&log);
        }
        Ok(log.iter().any(|entry| of(*entry).0 != rank))
    }

    fn has_seen_length(&mut self, rank: u32, length: u64) -> Result<bool, String> {
        let least = self.reads.remove(&rank).unwrap_or_default().length;
        let begun = self.begun.get(&0).into_iter().flatten().copied();
        let Some(number) = std::iter::once(0).chain(begun).find(|number| length_of(*number) == length) else {
            return Err(format!("rank {rank} finds a file of {length} bytes, which nobody has made so long"));
        };
        if number < least {
            let (is, wanted) = (number, least);
            self.wrong.push((
                Whose::Rank(0),
                format!("rank {rank} finds the length that is {is}, where it was {wanted} before"),
            ));
        }
        self.length = self.length.max(number);
        Ok(rank != 0 && number > 0)
    }

    fn has_seen_name(&mut self, rank: u32, name: u64, is_there: bool) -> Result<bool, String> {
        let least = self.reads.remove(&rank).unwrap_or_default().renamed;
        let Some(number) = (least..=self.renaming).find(|number| (number % NAMES == name) == is_there) else {
            let (what, most) = (if is_there { "something" } else { "nothing" }, self.renaming);
            return Err(format!(
                "rank {rank} finds {what} of name {name}, of a file that got {least} to {most} others"
            ));
        };
        self.renamed = self.renamed.max(number);
        Ok(rank != 0 && number > 0)
    }

    /// What a rank has written that is not on the host.
    fn what_is_lost(&self, rank: u32, bytes: impl Fn(SharedFile) -> Vec<u8>) -> Option<String> {
        let log = entries(&words_of(&bytes(SharedFile::Log)));
        let is_there = |entry: &u64| log.as_ref().is_ok_and(|(log, _)| log.contains(entry));
        let lost = self.appended.iter().find(|entry| **entry >> 32 == u64::from(rank) && !is_there(entry));
        let (at, length) = self.sharing.record(rank);
        let records = bytes(SharedFile::Records);
        let record = records.get(at as usize..).map(|rest| &rest[..rest.len().min(length as usize)]);
        let is = numbers(rank, &words_of(record.unwrap_or_default()), self.sharing.words);
        let is_long = bytes(SharedFile::Length).len() as u64;
        match self.words.get(&rank).filter(|was| **was != is) {
            Some(was) => Some(format!("its record is of {is:?}, where {was:?} was before")),
            None if lost.is_some() => Some(format!("{lost:x?} is not in the log, which is {log:x?}")),
            None if rank == 0 && is_long != length_of(self.length) => {
                Some(format!("a file is {is_long} bytes long, where it was {} before", length_of(self.length)))
            }
            None => None,
        }
    }

    /// Another name than the last one that the first rank gave.
    fn name_is_lost(&self, rank: u32, name: u64) -> Option<String> {
        let is_lost = rank == 0 && name != self.renamed % NAMES;
        is_lost.then(|| format!("a file has name {name}, which got {} others", self.renamed))
    }

    /// It came to its end, and nothing failed on its node.
    fn is_well(&self, rank: u32) -> bool {
        self.over.contains(&rank) && self.nodes.get(&rank).is_some_and(|node| !self.failed.contains(node))
    }

    /// What is wrong whatever else happens.
    fn take_proven(&mut self) -> Vec<String> {
        let wrong = std::mem::take(&mut self.wrong);
        let is_well = |whose: &Whose| match whose {
            Whose::Rank(rank) => self.is_well(*rank),
            Whose::Anyone => self.nodes.keys().all(|rank| self.is_well(*rank)),
        };
        let (proven, open) = wrong.into_iter().partition(|(whose, _)| is_well(whose));
        self.wrong = open;
        proven.into_iter().map(|(_, what): (Whose, String)| what).collect()
    }
}
