//! `coppice console`: what a node printed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use coppice_api::{ApiError, Client, presence, shown};

use crate::arguments::Console;

/// How often to look for more.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

pub(crate) async fn console(client: &Client, console: &Console) -> anyhow::Result<()> {
    let path = client.paths().console(console.node);
    match client.nodes().await {
        Ok(nodes) if nodes.iter().all(|node| node.node != console.node) => {
            bail!("there is no node {}; the cluster has {} nodes, counted from 0", console.node, nodes.len());
        }
        // After `down` the logs are still there.
        Ok(_) | Err(ApiError::NotUp(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("node {} has printed nothing yet ({} is not there)", console.node, shown(&path))
        }
        Err(error) => return Err(error).with_context(|| shown(&path).to_string()),
    };
    let mut position = copy(&mut file, 0)?;
    if !console.follow {
        return Ok(());
    }
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        // Before the last look, so that nothing is missed.
        let is_up = presence::find(client.paths()).is_some();
        if let Some(new) = reopened(&file, &path) {
            // The node was booted anew.
            file = new;
            position = 0;
        }
        position = copy(&mut file, position)?;
        if !is_up {
            return Ok(());
        }
    }
}

/// The file that has the name by now, if it is another one.
fn reopened(file: &File, path: &Path) -> Option<File> {
    let (old, new) = (file.metadata().ok()?, std::fs::metadata(path).ok()?);
    if old.ino() == new.ino() { None } else { File::open(path).ok() }
}

/// Prints what is behind `position` and returns where that ends.
fn copy(file: &mut File, position: u64) -> anyhow::Result<u64> {
    let mut position = file.seek(SeekFrom::Start(position))?;
    let mut output = io::stdout().lock();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let count = file.read(&mut bytes)?;
        let Some(piece) = bytes.get(..count).filter(|piece| !piece.is_empty()) else { break };
        match output.write_all(piece) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            written => written.context("cannot write standard output")?,
        }
        position += count as u64;
    }
    output.flush()?;
    Ok(position)
}
