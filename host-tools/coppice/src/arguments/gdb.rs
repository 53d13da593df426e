//! The command line of `gdb`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The rank stands still from then on, and goes on as gdb says. When gdb lets go of it, or ends, it goes on by itself; so \
it does some seconds after this was killed. There may be four watchpoints and hardware breakpoints (`hbreak`), which \
are the processor's; other breakpoints are not in the program any more when it stands or is let go of.\n\n\
On a terminal this starts gdb. Otherwise it speaks gdb's remote protocol on its standard input and output, for gdb to \
start it.\n\nExamples:\n  \
    coppice gdb 3 0\n  \
    coppice gdb 3 0 --program ./solve\n  \
    coppice gdb 3 0 --print\n  \
    gdb ./solve -ex 'target remote | coppice gdb 3 0'")]
pub(crate) struct Gdb {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// The rank
    #[arg(value_name = "RANK")]
    pub(crate) rank: u32,
    /// The program's file with symbols, for the gdb that this starts, instead of the one that was run
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Start nothing: if the rank can be debugged, print the command that does it on a terminal of this host
    #[arg(long)]
    pub(crate) print: bool,
}
