//! One who submits job after job, and knows what each should come to.

use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coppice_tests::Ran;
use coppice_tests::cluster::finish_child;
use coppice_tests::random::Random;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Storm;
use super::history::{History, Told};

/// Exit status of `coppice run` if Coppice could not do it.
const COPPICE: i32 = 125;
/// The program's exit status if it could not write a line.
const NOT_WRITTEN: i32 = 97;
/// Exit status of a job whose time was up.
const KILLED: i32 = 128 + Signal::KILL.as_raw();
/// Before somebody tries again who was refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// How a job is to end.
#[derive(Clone, Copy, Debug)]
enum Plan {
    /// By itself.
    Whole,
    /// By `--timeout`.
    Timeout,
    /// Its client gets a signal after a while.
    Signal(Signal, Duration),
}

/// One job.
#[derive(Debug)]
struct Job {
    tag: String,
    plan: Plan,
    ranks: u64,
    lines: u64,
    status: i32,
    arguments: Vec<String>,
}

impl Job {
    fn of(storm: &Storm, tag: String, random: &mut Random) -> Self {
        let mut plan = match random.below(10) {
            0 => Plan::Timeout,
            1 => Plan::Signal(Signal::INT, random.time_below(1000)),
            2 => Plan::Signal(Signal::TERM, random.time_below(1000)),
            3 => Plan::Signal(Signal::KILL, random.time_below(1000)),
            _ => Plan::Whole,
        };
        let ranks = random.one_of(&[1, 1, 1, 2, 2, 3]);
        let lines = if matches!(plan, Plan::Timeout) { 1_000_000 } else { random.one_of(&[1, 10, 100, 1000]) };
        let pause = random.one_of(&[0, 100, 1000, 5000]);
        let status = random.one_of(&[0, 0, 1, 7, 42]);
        let mut arguments = vec!["run".to_owned(), "--quiet".into(), "--label".into(), "-n".into(), ranks.to_string()];
        if ranks > 1 {
            arguments.extend(["--ranks-per-node".to_owned(), random.one_of(&[1, 2, 2]).to_string()]);
        }
        if random.below(8) == 0
            && let Some(root) = &storm.fragile_root
        {
            // Nobody else ends what waits for a root that never answers.
            if matches!(plan, Plan::Whole | Plan::Timeout) {
                plan = Plan::Signal(random.one_of(&[Signal::TERM, Signal::KILL]), random.time_below(3000));
            }
            arguments.extend(["--root".to_owned(), root.clone()]);
        }
        if matches!(plan, Plan::Timeout) {
            arguments.extend(["--timeout".to_owned(), random.one_of(&["0.1", "0.5", "1"]).to_owned()]);
        }
        arguments.push(storm.program.clone());
        arguments.extend([tag.clone(), lines.to_string(), pause.to_string(), status.to_string()]);
        Self { tag, plan, ranks, lines, status, arguments }
    }

    /// Has it done.
    fn run(&self, storm: &Storm) -> Ran {
        let mut command = storm.cluster.command(&self.arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        if let Plan::Signal(signal, after) = self.plan {
            // Nobody else is meant who gets its number.
            let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("a child");
            let signaller = std::thread::spawn(move || {
                std::thread::sleep(after);
                // It may have ended.
                let _ = pidfd_send_signal(process, signal);
            });
            let ran = finish_child(child, &self.arguments.join(" "));
            signaller.join().expect("no panic");
            return ran;
        }
        finish_child(child, &self.arguments.join(" "))
    }

    /// Whether what came out is the beginning of what every rank writes, and all of it if it was to be.
    fn check_output(&self, ran: &Ran, whole: bool) -> Result<(), String> {
        let text = ran.text();
        let mut expected = vec![0; self.ranks as usize];
        let last_is_cut = !text.is_empty() && !text.ends_with('\n');
        let count = text.lines().count();
        for (at, line) in text.lines().enumerate() {
            let wrong = || format!("a line that is not the next: “{line}”, of {expected:?}");
            if at + 1 == count && last_is_cut && !whole {
                break;
            }
            let words: Vec<&str> = line.split(' ').collect();
            let [label, tag, rank, number] = words[..] else { return Err(wrong()) };
            let rank = rank.parse::<usize>().ok().filter(|rank| label == format!("{rank}:")).ok_or_else(wrong)?;
            let is_next = tag == self.tag && expected.get(rank).is_some_and(|next| number == next.to_string());
            if !is_next {
                return Err(wrong());
            }
            expected[rank] += 1;
        }
        if whole && expected.iter().any(|lines| *lines != self.lines) {
            return Err(format!("lines of ranks: {expected:?} instead of {}", self.lines));
        }
        Ok(())
    }

    /// What its client has been told, if that is in order.
    fn judge(&self, ran: &Ran) -> Result<Told, String> {
        let said = |what: &str| ran.stderr.contains(what);
        if said("panicked") {
            return Err("a panic".into());
        }
        let reason = ran.stderr.lines().find_map(|line| line.strip_prefix("coppice: job ")?.split_once(": "));
        let reason = reason.map(|(_, reason)| reason.to_owned());
        let mut told = Told { has_run: !ran.stdout.is_empty(), status: None, reason: None };
        let of_signal = |signal: Signal| ran.status == 128 + signal.as_raw();
        match self.plan {
            // It may have been the client that the signal ended, or the job.
            Plan::Signal(signal, _) if of_signal(signal) && !said("is sent SIGINT") => {
                self.check_output(ran, false)?;
                return Ok(told);
            }
            Plan::Signal(Signal::INT, _) if of_signal(Signal::INT) => {}
            Plan::Timeout if ran.status == KILLED && reason.as_ref().is_some_and(|reason| reason.contains("time")) => {}
            Plan::Whole | Plan::Signal(..) if ran.status == self.status => {
                self.check_output(ran, true)?;
                told.has_run = true;
            }
            _ if ran.status == NOT_WRITTEN => {}
            _ if ran.status == COPPICE => {
                // Coppice itself could not: it says why.
                if !ran.stderr.lines().any(|line| line.starts_with("coppice: ")) {
                    return Err("no reason".into());
                }
                self.check_output(ran, false)?;
                told.status = reason.is_some().then_some(COPPICE);
                told.reason = reason;
                return Ok(told);
            }
            _ => return Err("this status is not one of its".into()),
        }
        self.check_output(ran, false)?;
        told.status = Some(ran.status);
        told.reason = reason.filter(|_| ran.status != 128 + Signal::INT.as_raw());
        Ok(told)
    }
}

/// Submits jobs until all is over.
pub(super) fn client(storm: &Storm, history: &History, number: u64, mut random: Random) {
    for job in 0.. {
        if storm.is_over() {
            return;
        }
        let job = Job::of(storm, format!("c{number}j{job}"), &mut random);
        let ran = job.run(storm);
        storm.jobs.fetch_add(1, Ordering::Relaxed);
        match job.judge(&ran) {
            Ok(told) => {
                if ran.status == COPPICE {
                    std::thread::sleep(REFUSED_PAUSE);
                }
                history.told(job.tag, told, ran.status == COPPICE);
            }
            Err(what) => {
                let end: String = ran.text().lines().rev().take(5).map(|line| format!("{line}; ")).collect();
                let (status, stderr) = (ran.status, &ran.stderr);
                storm.fail(format!("{what}: {job:?} ended with {status}, the last lines {end}and {stderr}"));
            }
        }
    }
}
