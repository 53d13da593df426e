//! What stays on the node of open files while the rest is data, as data too: for when they are made again where it is
//! not. A file at the I/O node is opened again where it was opened, and has to be the same file still.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::heap::block_bytes;
use coppice_protocol::ship::{Call, FileStatus, Handle, Location, Reply};
use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};

use super::Outside;
use crate::errno::Errno;
use crate::files::closer::Closer;
use crate::files::flags;
use crate::files::open_file::{S_IFMT, S_IFREG, Shipped};
use crate::files::service::Service;
use crate::files::shared::SharedFile;
use crate::quota::Quota;
use crate::ship::Client;

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum OutsideRecord {
    /// A file at the I/O node.
    Shipped {
        path: ByteString,
        /// `O_*`.
        opened_with: u32,
        /// What it was when it was opened.
        was: FileStatus,
        /// Its length now, bytes.
        size: u64,
    },
    /// Memory that ranks share, by its inode.
    Shared(u64),
    /// What the kernel is at the other end of.
    Service(Vec<u8>),
    /// What carries a socket's bytes: written down elsewhere ([`super::transports`]).
    Transport,
}

impl OutsideRecord {
    /// What it takes of the heap beside itself, about, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let own = size_of::<Self>();
        match self {
            Self::Shipped { path, .. } => own + path.len(),
            Self::Service(record) => own + record.len(),
            Self::Shared(_) | Self::Transport => own,
        }
    }
}

/// A file that was open to be written and has grown since. What was written behind its end is to be cut off, as it will
/// be written again: not before all of the job is there, so that a restart that fails takes nothing away.
pub(crate) struct Longer {
    path: ByteString,
    handle: Handle,
    /// Its length then, bytes.
    then: u64,
}

impl Longer {
    /// Cuts it back.
    ///
    /// # Errors
    /// [`NotThere::Shipped`].
    pub(crate) async fn cut(self, client: &Client) -> Result<(), NotThere> {
        let Self { path, handle, then } = self;
        let cut = Call::HandleTruncate { file: handle, length: then };
        let done = client.call(cut, Vec::new()).await;
        done.map(drop).map_err(|errno| NotThere::Shipped { path, errno })
    }
}

/// Why something is not there any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotThere {
    /// The I/O node does not open it.
    #[error("{path}, which it had open, cannot be opened any more: {errno}")]
    Shipped {
        /// Where it was opened.
        path: ByteString,
        /// Why not.
        errno: Errno,
    },
    /// Another one has its name.
    #[error("{0}, which it had open, is another file now")]
    Replaced(ByteString),
    /// Bytes that were there are gone.
    #[error("{path}, which it had open, has {now} bytes, fewer than the {then} that it had")]
    Shorter {
        /// Where it was opened.
        path: ByteString,
        /// Bytes then.
        then: u64,
        /// Bytes now.
        now: u64,
    },
    /// The checkpoint does not have it.
    #[error("the checkpoint is damaged: something that it had open is not in it")]
    Missing,
    /// There is no memory, or no connection with the I/O node.
    #[error("its open files: {0}")]
    Errno(#[from] Errno),
}

/// What of it is there again, on the node that it is to be on.
pub(crate) struct Elsewhere<'a> {
    pub(crate) client: &'a Client,
    pub(crate) closer: &'a Closer,
    pub(crate) quota: &'a Arc<Quota>,
    /// Memory that ranks share, by inodes.
    pub(crate) shared: &'a BTreeMap<u64, Arc<SharedFile>>,
}

/// Writes it down.
///
/// # Errors
/// What the I/O node says, of a file; `ENOMEM`.
pub(crate) async fn record(outside: &[Outside], client: &Client) -> Result<Vec<OutsideRecord>, Errno> {
    let mut records = Vec::new();
    for outside in outside {
        records.push(match outside {
            Outside::Shipped(shipped, opened_with) => OutsideRecord::Shipped {
                path: shipped.path.clone(),
                opened_with: *opened_with,
                was: shipped.status,
                size: size_now(shipped, *opened_with, client).await?,
            },
            Outside::Shared(file) => OutsideRecord::Shared(file.inode()),
            Outside::Service(service) => OutsideRecord::Service(service.record()?),
            Outside::Transport(_) | Outside::NoTransport => OutsideRecord::Transport,
        });
    }
    Ok(records)
}

async fn size_now(shipped: &Shipped, opened_with: u32, client: &Client) -> Result<u64, Errno> {
    if opened_with & flags::O_PATH != 0 || shipped.status.mode & S_IFMT != S_IFREG {
        return Ok(shipped.status.size);
    }
    if let Some(cached) = shipped.cached() {
        cached.settle().await;
    }
    match client.call(Call::HandleStat(shipped.handle), Vec::new()).await? {
        (Reply::Status(status), _) => Ok(status.size),
        _ => Err(Errno::EIO),
    }
}

/// Makes it again, but for what carries sockets' bytes. Gives also the files that are to be cut back.
///
/// # Errors
/// [`NotThere`].
pub(crate) async fn make(
    records: Vec<OutsideRecord>,
    on: &Elsewhere<'_>,
    service: impl Fn(&[u8]) -> Result<Box<dyn Service>, Errno>,
) -> Result<(Vec<Outside>, Vec<Longer>), NotThere> {
    let (mut outside, mut longer) = (Vec::new(), Vec::new());
    for record in records {
        outside.push(match record {
            OutsideRecord::Shipped { path, opened_with, was, size } => {
                let (shipped, is_longer) = on.open(path, opened_with, &was, size).await?;
                longer.extend(is_longer);
                Outside::Shipped(shipped, opened_with)
            }
            OutsideRecord::Shared(inode) => {
                Outside::Shared(on.shared.get(&inode).map(Arc::clone).ok_or(NotThere::Missing)?)
            }
            OutsideRecord::Service(record) => Outside::Service(service(&record)?),
            OutsideRecord::Transport => Outside::NoTransport,
        });
    }
    Ok((outside, longer))
}

impl Elsewhere<'_> {
    /// Opens a file again, which had this length. Says also whether it is to be cut back.
    async fn open(
        &self,
        path: ByteString,
        opened_with: u32,
        was: &FileStatus,
        then: u64,
    ) -> Result<(Shipped, Option<Longer>), NotThere> {
        const MAKES: u32 = flags::O_CREAT | flags::O_EXCL | flags::O_TRUNC | flags::O_CLOEXEC;
        let charge = self.quota.charge(block_bytes(path.len()))?;
        let known = self.closer.cache().opening()?;
        let at = Location { directory: None, path: path.clone() };
        let call = Call::Open { at, flags: opened_with & !MAKES, mode: 0 };
        // What others here were told of the file may not be so any more.
        let changing = call.changes_names().then(|| self.closer.cache().names().change());
        let answer = self.client.call(call, Vec::new()).await;
        drop(changing);
        let (handle, status, grant) = match answer {
            Ok((Reply::Opened { handle, status, grant }, _)) => (handle, status, grant),
            Ok(_) => return Err(NotThere::Shipped { path, errno: Errno::EIO }),
            Err(errno) => return Err(NotThere::Shipped { path, errno }),
        };
        let charged = (path.clone(), charge, known);
        let lease = grant.map(|grant| (grant, &b""[..]));
        let shipped = Shipped::opened((handle, &status, lease), *was, opened_with, charged, self.closer);
        if (status.device, status.inode, status.mode & S_IFMT) != (was.device, was.inode, was.mode & S_IFMT) {
            return Err(NotThere::Replaced(path));
        }
        if opened_with & flags::O_PATH != 0 || status.mode & S_IFMT != S_IFREG {
            return Ok((shipped, None));
        }
        if status.size < then {
            return Err(NotThere::Shorter { path, then, now: status.size });
        }
        let is_longer = status.size > then && opened_with & flags::O_ACCMODE != flags::O_RDONLY;
        Ok((shipped, is_longer.then_some(Longer { path, handle, then })))
    }
}
