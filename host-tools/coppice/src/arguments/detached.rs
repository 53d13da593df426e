//! The command lines for jobs that somebody else, or nobody, runs.

use clap::{Args, ValueEnum};
use coppice_api::output::OutputStream;

#[derive(Debug, Args)]
#[command(after_help = "\
What ranks wrote to their standard output is printed on standard output, what they wrote to standard error on standard \
error, in the order in which it came. It is there if the job was run with --detach or --keep-output, also after the \
cluster was down, until the logs of later jobs need the room. Where a log is cut, a line on standard error says so.\n\n\
Without -f it ends with what is there by now.\n\n\
Exit status: 0, whatever the job's is; 125 if there is no such job, its output is not kept, or not any more.\n\n\
Examples:\n  \
    coppice logs 3                       what job 3 has written\n  \
    coppice logs -f --label 3            the same and what it goes on to write, with ranks\n  \
    coppice logs --rank 0 --stream stdout 3 >result")]
pub(crate) struct Logs {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// Go on until the job ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Of this rank only
    #[arg(long, value_name = "RANK")]
    pub(crate) rank: Option<u32>,
    /// Of this stream only
    #[arg(long, value_enum)]
    pub(crate) stream: Option<Stream>,
    /// Start each line with the rank it comes from
    #[arg(long)]
    pub(crate) label: bool,
}

/// One of a rank's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stream {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
}

impl From<Stream> for OutputStream {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Stdout => Self::Stdout,
            Stream::Stderr => Self::Stderr,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Shows what the job writes from now on, until it ends; `coppice logs` has what it wrote before. As with `run`, the job \
waits for a reader that is slow, so that nothing is missed. The job gets no input from here.\n\n\
Ctrl-C leaves, and the job goes on; `coppice kill` ends it.\n\n\
Exit status: the job's, as `run` has it; 130 after Ctrl-C; 125 if there is no such job, or it has ended already \
(`wait` has its exit status).")]
pub(crate) struct Attach {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// Start each line of output with the rank it comes from
    #[arg(long)]
    pub(crate) label: bool,
    /// Do not say on standard error that it is attached
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Ends when all of the jobs have, at once if they have already. Ctrl-C leaves; the jobs go on.\n\n\
Exit status: that of the first job, in the order they are named, whose exit status is not 0, as `run` has it; 0 if all \
are; 125 if there is no such job.\n\nExamples:\n  \
    coppice wait 3 && coppice logs 3\n  \
    coppice wait $(coppice run --detach ./solve)")]
pub(crate) struct Wait {
    /// The jobs' numbers
    #[arg(value_name = "JOB", required = true, num_args = 1..)]
    pub(crate) jobs: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Stream;
    use crate::arguments::{Arguments, Command};

    #[test]
    fn jobs_are_named_by_their_numbers() {
        let command = |line: &str| {
            let words = ["coppice"].into_iter().chain(line.split(' '));
            Arguments::try_parse_from(words).map(|arguments| arguments.command)
        };
        assert!(matches!(command("wait 1 2 3"), Ok(Command::Wait(wait)) if wait.jobs == [1, 2, 3]));
        assert!(matches!(command("attach --label 4"), Ok(Command::Attach(attach)) if attach.job == 4 && attach.label));
        let Ok(Command::Logs(logs)) = command("logs -f 5 --rank 2 --stream stderr") else { panic!("valid") };
        assert_eq!((logs.job, logs.follow, logs.rank, logs.stream), (5, true, Some(2), Some(Stream::Stderr)));
        for bad in ["wait", "wait x", "attach", "attach 1 2", "logs", "logs --rank x 1", "logs --stream out 1"] {
            assert!(command(bad).is_err(), "{bad}");
        }
    }
}
