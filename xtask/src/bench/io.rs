//! Files: calls through a node and its I/O node, beside a TCP stream over the same switch, the same calls without
//! leases, Linux with NFS and with virtiofs ([`peers`]), and the same program run natively on the host; and many nodes
//! that read the same ([`alike`]).

mod alike;
mod peers;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use self::peers::Peer;
use super::Figure;
use super::cluster::Cluster;
use super::guest::{compile, number};
use crate::build::Built;

/// Size of the file that is written and read, MiB.
const MEBIBYTES: &str = "64";

/// Address of the node that is called.
const FIRST: &str = "10.128.0.1";

/// Reads that are counted; the first are for what is done once.
const COUNTED: [u32; 2] = [1000, 2000];

/// What is done to many small files, in that order.
const SMALL: [(&str, &str); 5] = [
    ("1,000 files of 4 KiB: create, each", "small-create"),
    ("stat, each", "small-stat"),
    ("read, each", "small-read"),
    ("list and stat, each", "small-list"),
    ("remove, each", "small-remove"),
];

/// All figures of file calls.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let (program, tcp) = (compile("io")?, compile("tcp")?);
    let (io, tcp) = (path_of(&program)?, path_of(&tcp)?);
    let cluster = Cluster::up(built, &["--nodes", "2", "--memory", "256M"])?;
    let run = |arguments: &[&str]| cluster.output(&[&["run", "--quiet"], arguments].concat());
    let stream = number(&run(&["--nodes-list", "0,1", tcp, FIRST, "200", MEBIBYTES])?, "tcp-throughput")?;
    let leased = run(&[io, "measured", MEBIBYTES, "all"])?;
    let strict = run(&["--io", "strict", io, "measured", MEBIBYTES, "all"])?;
    let native = Command::new(&program).args(["measured", MEBIBYTES, "all"]).current_dir(cluster.root()).output()?;
    let native = String::from_utf8_lossy(&native.stdout).into_owned();
    drop(cluster);
    let mut others = vec![("without leases", Ok(strict)), ("natively on the host", Ok(native))];
    for peer in [Peer::Nfs, Peer::Virtiofs] {
        others.push((peer.name(), peer.run(&program, &format!("measured {MEBIBYTES} all"))?));
    }
    let beside = |key: &str, unit: &str| -> Result<String> {
        let each = |(name, said): &(&str, Result<String, &str>)| {
            Ok(match said {
                Ok(said) => format!("{name}: {:.1} {unit}", number(said, key)?),
                Err(reason) => format!("{name}: {reason}"),
            })
        };
        Ok(others.iter().map(each).collect::<Result<Vec<_>>>()?.join("; "))
    };

    let rate = |name: &str, key: &str, wanted| -> Result<Figure> {
        let here = number(&leased, key)?;
        let ratio = here / stream;
        Ok(Figure {
            name: name.into(),
            measured: format!("{here:.1} MiB/s"),
            beside: format!("TCP between two nodes: {stream:.1} MiB/s; ratio {ratio:.2}; {}", beside(key, "MiB/s")?),
            wanted,
        })
    };
    let time = |name: &str, key: &str, wanted| -> Result<Figure> {
        let here = number(&leased, key)?;
        Ok(Figure { name: name.into(), measured: format!("{here:.1} µs"), beside: beside(key, "µs")?, wanted })
    };
    let (second, memory) = (number(&leased, "second-read")?, number(&leased, "memory")?);
    let mut figures = vec![
        rate("sequential write of 64 MiB, 1 MiB each", "sequential-write", "ratio ≥ 0.9")?,
        rate("sequential read of 64 MiB, 1 MiB each", "sequential-read", "ratio ≥ 0.9")?,
        rate("the same written by stdio, 4 KiB each", "stdio-write", "ratio ≥ 0.8")?,
        rate("written so in memory that the node never used", "stdio-write-first", "–")?,
        rate("the same read by stdio, 4 KiB each", "stdio-read", "ratio ≥ 0.8")?,
        Figure {
            name: "second read of 16 MiB".into(),
            measured: format!("{second:.0} MiB/s"),
            beside: format!(
                "copying in memory: {memory:.0} MiB/s; ratio {:.2}; {}",
                second / memory,
                beside("second-read", "MiB/s")?
            ),
            wanted: "memory speed",
        },
        time("pread of 1 byte", "pread-1-byte", "≤ half of what is shipped")?,
    ];
    for (name, key) in SMALL {
        figures.push(time(name, key, "–")?);
    }
    figures.push(small(&leased, &others)?);
    figures.push(counted(built, io)?);
    figures.extend(alike::figures(built)?);
    Ok(figures)
}

/// All that is done to small files.
fn small(here: &str, others: &[(&str, Result<String, &str>)]) -> Result<Figure> {
    let all = |said: &str| SMALL.iter().map(|(_, key)| number(said, key)).sum::<Result<f64>>();
    let here = all(here)?;
    let each = |(name, said): &(&str, Result<String, &str>)| {
        Ok(match said {
            Ok(said) => format!("{name}: {:.2} ×", all(said)? / here),
            Err(reason) => format!("{name}: {reason}"),
        })
    };
    Ok(Figure {
        name: "all of that".into(),
        measured: format!("{here:.1} µs a file"),
        beside: others.iter().map(each).collect::<Result<Vec<_>>>()?.join("; "),
        wanted: "NFS ≥ 2 ×",
    })
}

/// Instructions of a read of 4 KiB of what is there.
fn counted(built: &Built, io: &str) -> Result<Figure> {
    let cluster = Cluster::up(built, &["--nodes", "1", "--icount"])?;
    let mut each = Vec::new();
    for reads in COUNTED {
        let output = cluster.output(&["run", "--quiet", io, "counted", &reads.to_string(), "pread"])?;
        each.push(number(&output, "pread-4-KiB")?);
    }
    let last = each.last().context("nothing was counted")?;
    Ok(Figure {
        name: "pread of 4 KiB from memory, instructions".into(),
        measured: format!("{last:.0}"),
        beside: "512 of them copy".into(),
        wanted: "≤ 1,500",
    })
}

fn path_of(program: &Path) -> Result<&str> {
    program.to_str().context("path is not UTF-8")
}
