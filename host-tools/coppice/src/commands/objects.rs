//! `coppice objects`: what the ranks of a job have open.

use coppice_api::inspect::{ObjectKind, ObjectView, WatchedView};
use coppice_api::{ApiError, Client};
use serde::Serialize;

use crate::arguments::Objects;
use crate::show::{print_json, print_table};
use crate::units::{show_bytes, show_ns};

/// What one rank has open.
#[derive(Serialize)]
struct OfRank {
    rank: u32,
    objects: Vec<ObjectView>,
}

pub(crate) async fn objects(client: &Client, objects: &Objects) -> anyhow::Result<()> {
    let ranks: Vec<u32> = match objects.rank {
        Some(rank) => vec![rank],
        None => (0..client.job(objects.job).await?.job.ranks).collect(),
    };
    let mut all = Vec::new();
    for rank in ranks {
        match open_of(client, objects.job, rank).await {
            Ok(objects) => all.push(OfRank { rank, objects }),
            // Others may still run.
            Err(error) if objects.rank.is_none() => eprintln!("coppice: {error}"),
            Err(error) => return Err(error.into()),
        }
    }
    if objects.listing.json {
        return print_json(&all);
    }
    let row = |rank: u32, object: &ObjectView| {
        let (kind, about) = describe(&object.object);
        vec![
            rank.to_string(),
            object.descriptor.to_string(),
            object.id.to_string(),
            kind.to_owned(),
            access(object.flags).to_owned(),
            object.offset.to_string(),
            about,
        ]
    };
    let rows = all.iter().flat_map(|of| of.objects.iter().map(|object| row(of.rank, object)));
    print_table(&["RANK", "FD", "ID", "KIND", "ACCESS", "OFFSET", "WHAT"], rows)
}

/// All that a rank has open.
async fn open_of(client: &Client, job: u64, rank: u32) -> Result<Vec<ObjectView>, ApiError> {
    let mut all = Vec::new();
    let mut from = Some(0);
    while let Some(first) = from {
        let view = client.objects(job, rank, first).await?;
        all.extend(view.objects);
        // Whatever a node says, it comes to an end.
        from = view.next.filter(|next| *next > first);
    }
    Ok(all)
}

/// How it may be used.
fn access(flags: u32) -> &'static str {
    const PATH_ONLY: u32 = 0o10_000_000;
    match flags & 3 {
        _ if flags & PATH_ONLY != 0 => "path",
        0 => "read",
        1 => "write",
        _ => "both",
    }
}

/// What it is, in a word and in a few.
fn describe(object: &ObjectKind) -> (&'static str, String) {
    const DIRECTORY: u32 = 0o040_000;
    const TYPE: u32 = 0o170_000;
    let held = |bytes: u64| if bytes == 0 { "empty".to_owned() } else { format!("{} to be read", show_bytes(bytes)) };
    match object {
        ObjectKind::File { path, mode, .. } if mode & TYPE == DIRECTORY => ("directory", path.to_string()),
        ObjectKind::File { path, size, .. } => ("file", format!("{path}, {} when opened", show_bytes(*size))),
        ObjectKind::Standard { stream } => {
            let name = ["standard input", "standard output", "standard error"];
            ("stream", (*name.get(usize::from(*stream)).unwrap_or(&"a stream")).to_owned())
        }
        ObjectKind::Kernel { path } => ("kernel", path.to_string()),
        ObjectKind::Shared { size, .. } => ("shared", show_bytes(*size)),
        ObjectKind::Pipe { pipe, held: bytes } => ("pipe", format!("pipe {pipe}, {}", held(*bytes))),
        ObjectKind::Pair { end, keeps, held: bytes } => ("pair", format!("end {end}, {keeps}, {}", held(*bytes))),
        ObjectKind::Socket { stream, listening, address, port, peer, held: bytes, unsent } => {
            let kind = if *stream { "tcp" } else { "udp" };
            let peer = match peer {
                Some((address, port)) => format!(" to {address}:{port}, {}", held(*bytes)),
                None if *listening => " listens".to_owned(),
                None => format!(", {}", held(*bytes)),
            };
            let unsent = if *unsent == 0 { String::new() } else { format!(", {} on the way", show_bytes(*unsent)) };
            (kind, format!("{address}:{port}{peer}{unsent}"))
        }
        ObjectKind::Event { value } => ("event", format!("counts {value}")),
        ObjectKind::Timer { left_ns: 0, .. } => ("timer", "not set".to_owned()),
        ObjectKind::Timer { left_ns, interval_ns: 0 } => ("timer", format!("in {}", show_ns(*left_ns))),
        ObjectKind::Timer { left_ns, interval_ns } => {
            ("timer", format!("in {}, then each {}", show_ns(*left_ns), show_ns(*interval_ns)))
        }
        ObjectKind::Signals { signals } => {
            ("signals", signals.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))
        }
        ObjectKind::Poller { watched, count } => {
            let one = |WatchedView { descriptor, id, .. }: &WatchedView| format!("{descriptor} ({id})");
            let mut names: Vec<String> = watched.iter().map(one).collect();
            if *count as usize > names.len() {
                names.push(format!("and {} more", *count as usize - names.len()));
            }
            (
                "epoll",
                if names.is_empty() { "watches nothing".to_owned() } else { format!("watches {}", names.join(", ")) },
            )
        }
        ObjectKind::Service { held: bytes } => ("service", held(*bytes)),
    }
}
