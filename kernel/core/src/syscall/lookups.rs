//! Calls on names and attributes: made at the I/O node, or answered by what it has told before
//! ([`crate::files::names`]).

use alloc::boxed::Box;
use alloc::vec::Vec;

use coppice_protocol::ship::{Call, Handle, Known, Reply};

use crate::errno::Errno;
use crate::files::Shipped;
use crate::files::names::{Place, Told};
use crate::process::{Awaited, Caller};

impl Caller<'_> {
    /// Has the I/O node do something that has no answer but "done".
    pub(super) async fn ship(&self, call: Call) -> Awaited {
        self.ask(call).await?;
        Ok(0)
    }

    /// Has the I/O node do something, and takes its reply.
    pub(super) async fn ask(&self, call: Call) -> Result<(Reply, Vec<u8>), Errno> {
        let names = self.process.job.cache.names();
        let below = if let Call::Open { .. } = call { self.below(&call) } else { None };
        let below = below.as_deref();
        if let Call::Open { .. } = call
            && let Some(place) = Place::of(&call, below)
            && let Some(Err(missing)) = self.find(&place).await
        {
            return Err(missing);
        }
        // What it finds or changes is as all that was written before left it.
        self.process.job.cache.settle().await;
        let said = match call {
            _ if call.changes_names() => return self.change(call).await,
            Call::Open { .. } => call.clone(),
            _ => return self.process.client.call(call, Vec::new()).await,
        };
        let asked = names.ask();
        let (reply, bytes) = self.process.client.look(call).await?;
        match &reply {
            Reply::Known(keeping, Known::Opened { status, .. }) => {
                if let Some(place) = Place::opened_by(&said, below) {
                    names.told(asked, &place, *keeping, Ok(&Told::Status(**status)));
                }
            }
            Reply::Known(keeping, Known::Failed(errno)) => {
                if let Some(place) = Place::of(&said, below) {
                    names.told(asked, &place, *keeping, Err(Errno::from_wire(*errno)));
                }
            }
            _ => {}
        }
        answered(reply.plain(), bytes)
    }

    /// Has the I/O node change names or attributes.
    async fn change(&self, call: Call) -> Result<(Reply, Vec<u8>), Errno> {
        let changing = self.process.job.cache.names().change();
        let said = call.clone();
        let (reply, bytes) = self.process.client.look(call).await?;
        if let Reply::Known(keeping, known) = &reply {
            changing.made(&said, *keeping, known);
        }
        answered(reply.plain(), bytes)
    }

    /// Looks something up: here, or at the I/O node, whose answer is kept as long as it may be.
    pub(super) async fn look(&self, call: Call) -> Result<Told, Errno> {
        let names = self.process.job.cache.names();
        let place = Place::of(&call, self.below(&call).as_deref());
        if let Some(place) = &place
            && let Some(told) = self.find(place).await
        {
            return told;
        }
        self.process.job.cache.settle().await;
        let asked = names.ask();
        let (reply, bytes) = self.process.client.look(call).await?;
        let keeping = if let Reply::Known(keeping, _) = &reply { Some(*keeping) } else { None };
        let told = match reply.plain() {
            Reply::Done => Ok(Told::Granted),
            Reply::Data => Ok(Told::Link(bytes)),
            Reply::Status(status) => Ok(Told::Status(status)),
            Reply::Path(path) => Ok(Told::Directory(path)),
            Reply::Failed(errno) => Err(Errno::from_wire(errno)),
            _ => return Err(Errno::EIO),
        };
        if let (Some(place), Some(keeping)) = (&place, keeping) {
            names.told(asked, place, keeping, told.as_ref().map_err(|errno| *errno));
        }
        told
    }

    /// What is known of a place.
    async fn find(&self, place: &Place) -> Option<Result<Told, Errno>> {
        let cache = &self.process.job.cache;
        if let Some(told) = cache.names().find(place) {
            return Some(told);
        }
        // As of one call that is made.
        let is_renewed = Box::pin(cache.load_names_again(place, &self.process.client)).await;
        if is_renewed { cache.names().find(place) } else { None }
    }

    /// The path of the directory that a call's path begins at, if that is known to lead there still.
    fn below(&self, call: &Call) -> Option<Vec<u8>> {
        let handle = Place::begins_at(call)?;
        let (path, directory) = {
            let files = self.process.files.lock();
            let directory = files.shipped(handle)?;
            (directory.path.to_vec(), directory.identity())
        };
        self.process.job.cache.names().lead_to(&path, directory).then_some(path)
    }

    /// Lists a directory from a position on: records, with what they are kept, and where to go on.
    pub(super) async fn list(&self, directory: &Shipped, position: u64, length: u32) -> Awaited<(Vec<u8>, u64)> {
        let names = self.process.job.cache.names();
        self.process.job.cache.settle().await;
        let asked = names.ask();
        let handle: Handle = directory.handle;
        let call = Call::List { directory: handle, position, length, attributes: asked.is_some() };
        let (reply, bytes) = self.process.client.look(call).await?;
        if let Reply::Known(keeping, Known::Entries { attributes, .. }) = &reply {
            let of = (directory.path.as_bytes(), directory.identity());
            names.told_entries(asked, of, *keeping, (&bytes, attributes));
        }
        match answered(reply.plain(), bytes)? {
            (Reply::Entries { next }, bytes) => Ok((bytes, next)),
            _ => Err(Errno::EIO.into()),
        }
    }
}

fn answered(reply: Reply, bytes: Vec<u8>) -> Result<(Reply, Vec<u8>), Errno> {
    if let Reply::Failed(errno) = reply { Err(Errno::from_wire(errno)) } else { Ok((reply, bytes)) }
}
