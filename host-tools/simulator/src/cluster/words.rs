//! What the ranks of scripts say to PMI, and what they must be told: each puts keys of its own, enters a barrier, gets
//! what others have put, and so on for some rounds. One of them may go away in the middle.

use std::fmt;

/// What a script has to say.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Talk {
    /// Barriers that its ranks go through. None: it says nothing.
    pub rounds: u64,
    /// No other job's is the same.
    pub mark: u64,
    /// Keys that each rank puts before each barrier, at least one.
    pub keys: u64,
    /// Bytes of a value, at least.
    pub value_bytes: u64,
    /// Longest pause before a barrier, ns.
    pub pause_ns: u64,
    /// The rank that goes away, counted from 1. None: 0.
    pub deserter: u64,
    /// Where it does: in the round in which it does, and so many things after the beginning of that.
    pub deserts_in: u64,
    pub deserts_after: u64,
    /// How: see [`Desertion`].
    pub deserts_how: u64,
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, mark, keys, value_bytes, pause_ns, .. } = self;
        if *rounds == 0 {
            return f.write_str("none");
        }
        write!(f, "mark {mark}, {rounds} rounds of {keys} keys of {value_bytes} bytes, each {pause_ns} ns")?;
        match self.deserter.checked_sub(1).and_then(|rank| self.desertion(u32::try_from(rank).ok()?)) {
            Some((how, at)) => write!(f, ", rank {} goes: {how:?} at {at}", self.deserter - 1),
            None => Ok(()),
        }
    }
}

/// Numbers that say all of it.
pub(super) const TALK_NUMBERS: usize = 9;

/// How a rank goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Desertion {
    /// It ends.
    End,
    /// It ends the job.
    Abort,
    /// It does what no processor does.
    Crash,
    /// It is done with PMI, and goes on.
    Finalize,
    /// It ends in the middle of a line.
    Mutter,
    /// It ends in a barrier.
    EndInBarrier,
    /// It closes its descriptor, and goes on.
    Close,
    /// It has never said anything, and goes on.
    Silence,
}

impl Desertion {
    pub(super) const ALL: [Self; 8] = [
        Self::End,
        Self::Abort,
        Self::Crash,
        Self::Finalize,
        Self::Mutter,
        Self::EndInBarrier,
        Self::Close,
        Self::Silence,
    ];
}

/// What a rank does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Something else, for so long, ns.
    Pause(u64),
    /// It says this.
    Say(Vec<u8>, Answer),
    /// It closes its descriptor.
    Close,
    /// It ends.
    End,
    /// It does what no processor does.
    Crash,
}

/// What a rank must be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// This.
    Is(Vec<u8>),
    /// The name of the job's key-value space.
    Name,
    /// That it was put, or that another rank had put it.
    PutOrNot,
    /// What one of the ranks has put in that round.
    Shared(u64),
    /// That it may leave that round's barrier.
    Out(u64),
    /// That it is done.
    Done,
    /// It waits for its end.
    Never,
    /// It does not wait. It has entered that round's barrier, if any.
    Unheard(Option<u64>),
}

impl Answer {
    /// The barrier that a rank is in when it has said what this is the answer to.
    pub(super) fn enters(&self) -> Option<u64> {
        match self {
            Self::Out(round) => Some(*round),
            Self::Unheard(round) => *round,
            _ => None,
        }
    }
}

/// A rank, and the name that it was told.
#[derive(Clone, Debug)]
pub(super) struct Speaker {
    pub rank: u32,
    pub size: u32,
    pub name: String,
}

/// What all ranks say first.
const FIRST: u64 = 3;
/// What ranks do in a round beside putting their keys.
const IN_ROUND: u64 = 9;

impl Talk {
    pub(super) fn numbers(&self) -> [u64; TALK_NUMBERS] {
        let Self { rounds, mark, keys, value_bytes, pause_ns, deserter, deserts_in, deserts_after, deserts_how } =
            *self;
        [rounds, mark, keys, value_bytes, pause_ns, deserter, deserts_in, deserts_after, deserts_how]
    }

    pub(super) fn of(numbers: [u64; TALK_NUMBERS]) -> Self {
        let [rounds, mark, keys, value_bytes, pause_ns, deserter, deserts_in, deserts_after, deserts_how] = numbers;
        Self { rounds, mark, keys, value_bytes, pause_ns, deserter, deserts_in, deserts_after, deserts_how }
    }

    /// Things that a rank does in a round.
    pub(super) fn in_round(&self) -> u64 {
        self.keys + IN_ROUND
    }

    /// How a rank goes away, and as the how manyeth of its acts.
    pub(super) fn desertion(&self, rank: u32) -> Option<(Desertion, u64)> {
        if self.deserter != u64::from(rank) + 1 {
            return None;
        }
        let how = Desertion::ALL.get(usize::try_from(self.deserts_how).ok()?).copied()?;
        let begin = FIRST + self.deserts_in * self.in_round();
        let at = match how {
            Desertion::Silence => 0,
            // The others may have been told that it came, and with what.
            Desertion::EndInBarrier => begin + self.barrier_at(),
            _ => begin + self.deserts_after,
        };
        Some((how, at))
    }

    /// Whether a job of so many ranks cannot end well once its deserter has gone.
    pub(super) fn must_fail(&self, ranks: u32) -> bool {
        let how = self.deserter.checked_sub(1).and_then(|rank| self.desertion(u32::try_from(rank).ok()?));
        let barriers = self.deserts_in + u64::from(self.deserts_after > self.barrier_at());
        match how {
            None => false,
            Some((Desertion::Finalize, _)) => ranks > 1 && barriers < self.rounds,
            Some((Desertion::Silence, _)) => ranks > 1,
            Some(_) => true,
        }
    }

    /// Whether a job ends as soon as its deserter has gone, whatever its other ranks do.
    pub(super) fn ends_the_job(&self) -> bool {
        let how = usize::try_from(self.deserts_how).ok().and_then(|how| Desertion::ALL.get(how));
        let goes_on = [Desertion::Finalize, Desertion::Close, Desertion::Silence];
        self.deserter > 0 && how.is_some_and(|how| !goes_on.contains(how))
    }

    /// Where in a round the barrier is.
    fn barrier_at(&self) -> u64 {
        self.keys + 3
    }

    /// What a rank does after so many other things; `None`: it is done with PMI.
    pub(super) fn act(&self, speaker: &Speaker, index: u64) -> Option<Act> {
        if let Some((how, at)) = self.desertion(speaker.rank)
            && index >= at
        {
            return self.desert(how, index - at);
        }
        let said = |line: &str, answer: &str| Act::Say(line.into(), Answer::Is(answer.into()));
        let Some(behind) = index.checked_sub(FIRST) else {
            return Some(match index {
                0 => said(
                    "cmd=init pmi_version=1 pmi_subversion=1\n",
                    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
                ),
                1 => said("cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
                _ => Act::Say(b"cmd=get_my_kvsname\n".to_vec(), Answer::Name),
            });
        };
        let (round, at) = (behind / self.in_round(), behind % self.in_round());
        if round < self.rounds {
            return Some(self.act_in_round(speaker, round, at));
        }
        (at == 0).then(|| Act::Say(b"cmd=finalize\n".to_vec(), Answer::Done))
    }

    fn act_in_round(&self, speaker: &Speaker, round: u64, at: u64) -> Act {
        let Speaker { rank, size, name } = speaker;
        let (rank, size) = (*rank, *size);
        match at.checked_sub(self.keys + 1) {
            None if at == 0 => Act::Pause(self.pause_ns / 4 * ((u64::from(rank) * 7 + round * 3) % 5)),
            None => {
                let (key, value) = self.put(rank, round, at - 1);
                let line = format!("cmd=put kvsname={name} key={key} value={value}\n");
                Act::Say(line.into(), Answer::Is(b"cmd=put_result rc=0 msg=success\n".to_vec()))
            }
            Some(0) => {
                let value = self.shared(rank, round);
                Act::Say(format!("cmd=put kvsname={name} key=all{round} value={value}\n").into(), Answer::PutOrNot)
            }
            Some(1) => {
                let (key, _) = self.put(rank, round, 0);
                let answer = format!("cmd=put_result rc=-1 msg=duplicate_key_{key}\n");
                Act::Say(format!("cmd=put kvsname={name} key={key} value=again\n").into(), Answer::Is(answer.into()))
            }
            Some(2) => Act::Say(b"cmd=barrier_in\n".to_vec(), Answer::Out(round)),
            Some(3) => self.get(name, (rank + size - 1) % size, round, u64::from(rank) % self.keys),
            Some(4) => self.get(name, (rank + 1) % size, round, 0),
            Some(5) => self.get(name, (rank + size / 2) % size, round, self.keys - 1),
            Some(6) => Act::Say(format!("cmd=get kvsname={name} key=all{round}\n").into(), Answer::Shared(round)),
            // What was put long ago.
            _ => self.get(name, (rank + 1) % size, round / 2, 0),
        }
    }

    fn get(&self, name: &str, of: u32, round: u64, number: u64) -> Act {
        let (key, value) = self.put(of, round, number);
        let answer = format!("cmd=get_result rc=0 msg=success value={value}\n");
        Act::Say(format!("cmd=get kvsname={name} key={key}\n").into(), Answer::Is(answer.into()))
    }

    fn desert(&self, how: Desertion, since: u64) -> Option<Act> {
        let said = |line: &str, answer| Act::Say(line.into(), answer);
        let first = match how {
            Desertion::End => Act::End,
            Desertion::Crash => Act::Crash,
            Desertion::Abort => said("cmd=abort exitcode=7 message=enough of it\n", Answer::Never),
            Desertion::Finalize => said("cmd=finalize\n", Answer::Done),
            Desertion::Mutter => said("cmd=barr", Answer::Unheard(None)),
            Desertion::EndInBarrier => said("cmd=barrier_in\n", Answer::Unheard(Some(self.deserts_in))),
            Desertion::Close => Act::Close,
            Desertion::Silence => return None,
        };
        match how {
            _ if since == 0 => Some(first),
            Desertion::Mutter | Desertion::EndInBarrier if since == 1 => Some(Act::End),
            _ => None,
        }
    }

    /// A rank's key and value of this number in a round.
    fn put(&self, rank: u32, round: u64, number: u64) -> (String, String) {
        let mut value = format!("{}.{rank}.{round}.{number}.", self.mark);
        let bytes = usize::try_from(self.value_bytes).unwrap_or(0).max(value.len());
        value.extend(std::iter::repeat_n('x', bytes - value.len()));
        (format!("k{round}-{rank}-{number}"), value)
    }

    /// What a rank puts at the key that all put in a round.
    pub(super) fn shared(&self, rank: u32, round: u64) -> String {
        format!("{}.{rank}.{round}.all", self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::{Act, Answer, Desertion, Speaker, Talk};

    fn acts(talk: &Talk, rank: u32) -> Vec<Act> {
        let speaker = Speaker { rank, size: 3, name: "k1".into() };
        (0..1000).map_while(|index| talk.act(&speaker, index)).collect()
    }

    const TALK: Talk = Talk {
        rounds: 2,
        mark: 7,
        keys: 2,
        value_bytes: 20,
        pause_ns: 100,
        deserter: 0,
        deserts_in: 0,
        deserts_after: 0,
        deserts_how: 0,
    };

    #[test]
    fn ranks_get_what_others_have_put() {
        let said = |rank| {
            acts(&TALK, rank).into_iter().filter_map(|act| match act {
                Act::Say(line, answer) => Some((String::from_utf8(line).expect("text"), answer)),
                _ => None,
            })
        };
        let all: Vec<_> = (0..3).flat_map(said).collect();
        let mut got = 0;
        for (line, answer) in &all {
            let (Some(key), Answer::Is(answer)) = (line.strip_prefix("cmd=get kvsname=k1 key="), answer) else {
                continue;
            };
            let answer = String::from_utf8_lossy(answer).into_owned();
            let value = answer.strip_prefix("cmd=get_result rc=0 msg=success value=").expect("a value");
            let put = format!("cmd=put kvsname=k1 key={} value={value}", key.trim());
            assert!(all.iter().any(|(line, _)| *line == put), "nobody says {put}");
            got += 1;
        }
        assert_eq!(got, 3 * 2 * 4);
        let barriers = all.iter().filter(|(_, answer)| matches!(answer, Answer::Out(_))).count();
        assert_eq!((barriers, acts(&TALK, 0).len() as u64), (6, 3 + 2 * TALK.in_round() + 1));
    }

    #[test]
    fn a_deserter_says_no_more_than_it_is_to() {
        for (how, desertion) in (0..).zip(Desertion::ALL) {
            let talk = Talk { deserter: 2, deserts_in: 1, deserts_after: 1, deserts_how: how, ..TALK };
            let (others, own) = (acts(&talk, 0), acts(&talk, 1));
            assert_eq!(others, acts(&TALK, 0));
            assert!(own.len() < others.len(), "{desertion:?}");
            assert!(talk.must_fail(3), "{desertion:?}");
            let goes_on_alone = [Desertion::Finalize, Desertion::Silence].contains(&desertion);
            assert_eq!(talk.must_fail(1), !goes_on_alone, "{desertion:?}");
            assert_eq!(Talk::of(talk.numbers()), talk);
        }
    }
}
