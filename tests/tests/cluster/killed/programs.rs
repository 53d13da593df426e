//! What is run while things are killed: each says the same whenever it is run.

use std::collections::BTreeSet;

use coppice_tests::guests::{BUSYBOX, Toolchain, program};

use crate::mpi;

/// Something that is run.
pub(super) struct Program {
    /// What it is called here.
    pub(super) name: &'static str,
    /// Its file.
    pub(super) path: String,
    /// What it is told.
    pub(super) arguments: &'static [&'static str],
    /// Ranks and ranks of a node, and the nodes that it runs on in turn.
    pub(super) ranks: &'static [&'static str],
    pub(super) nodes: [&'static str; 2],
    /// Lines of its result begin so.
    pub(super) result: &'static str,
    /// A file that it makes.
    pub(super) file: Option<&'static str>,
}

const ALONE: [&str; 2] = ["0", "3"];
const TWO: [&str; 2] = ["0-1", "2-3"];
const FOUR: [&str; 4] = ["-n", "4", "--ranks-per-node", "2"];

/// Counts in words that busybox computes, and says some of them.
const AWK: &str = "BEGIN { for (i = 1; i < 100000; i++) { a[i % 1000] += i * i % 7919; s += a[i % 13]; \
                   if (i % 2000 == 0) print i, s } }";

/// All of them, those of several ranks and of one in turn.
pub(super) fn programs() -> Vec<Program> {
    let alone = |name, path: String, arguments| Program {
        name,
        path,
        arguments,
        ranks: &[],
        nodes: ALONE,
        result: "",
        file: None,
    };
    let guest = |name, toolchain| alone(name, program(name, toolchain).to_string_lossy().into_owned(), &[]);
    let of_four = |name, arguments| Program {
        path: mpi::guest(name),
        ranks: &FOUR,
        nodes: TWO,
        arguments,
        ..guest("true", Toolchain::Musl)
    };
    let named = |name, program: Program| Program { name, ..program };
    let exchange = guest("exchange", Toolchain::Musl);
    vec![
        named("ring", of_four("ring", &["800"])),
        alone("busybox", BUSYBOX.to_owned(), &["awk", AWK]),
        named("halo", Program { file: Some("heat.ppm"), ..of_four("halo", &["64", "200", "/heat.ppm"]) }),
        guest("threads_sync", Toolchain::Musl),
        Program { ranks: &["-n", "2"], nodes: TWO, arguments: &["8388608"], result: "rank ", ..exchange },
        named("allreduce", of_four("allreduce", &["3"])),
        guest("signals", Toolchain::Glibc),
        named("onesided", of_four("onesided", &[])),
        guest("sockets", Toolchain::Glibc),
        guest("threads_openmp", Toolchain::OpenMp),
        named("io", Program { file: Some("words"), ..of_four("io", &["/words"]) }),
        named("agrees", of_four("agrees", &["4", "30"])),
    ]
}

/// Whether what jobs of one rank said that went on from each other is one text: what each says begins where those
/// before it ended or earlier, unless some of that was lost.
pub(super) fn is_put_together(text: &str, parts: &[String], is_all: bool) -> bool {
    let mut end = 0;
    for part in parts {
        let begins = text.match_indices(part.as_str()).map(|(at, _)| at);
        let Some(begin) = begins.filter(|at| !is_all || *at <= end).last() else { return false };
        end = end.max(begin + part.len());
    }
    end == text.len()
}

/// Whether what jobs of several ranks said that went on from each other has all the lines of a text that begin so, in
/// whatever order and maybe twice, and no others; all, unless some of that was lost.
pub(super) fn has_same_lines(text: &str, parts: &[String], (begin, is_all): (&str, bool)) -> bool {
    let wanted = |text: &'_ str| -> BTreeSet<String> {
        text.lines().filter(|line| line.starts_with(begin)).map(str::to_owned).collect()
    };
    let (all, found) = (wanted(text), wanted(&parts.concat()));
    found.is_subset(&all) && (!is_all || all == found)
}
