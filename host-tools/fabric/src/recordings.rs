//! All recordings of a switch, with what their threads have said and who waits for it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use coppice_protocol::text::Shown;
use rustix::event::EventfdFlags;
use rustix::io::Errno;

use crate::command::Outcome;
use crate::limits::RECORDINGS_MAX;
use crate::names::LinkName;
use crate::recording::{Recording, RecordingError, open, write};

/// What a recording's thread says.
#[derive(Debug)]
enum Notice {
    /// The file is there.
    Opened,
    /// It has written all it could, and is about to end.
    Ended(Result<(), RecordingError>),
}

/// Where threads say it.
#[derive(Debug)]
struct Notices {
    said: Mutex<Vec<(u64, Notice)>>,
    /// Readable when something was said.
    bell: OwnedFd,
}

impl Notices {
    fn say(&self, recording: u64, notice: Notice) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push((recording, notice));
        // Fails only if it is rung already, very often.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// One whose thread has not ended.
#[derive(Debug)]
struct Live {
    link: LinkName,
    path: PathBuf,
    /// The request that is answered when the file is there.
    starter: Option<u64>,
    /// The request that is answered when all is written.
    stopper: Option<u64>,
    /// Why the switch ended it by itself.
    why: Option<RecordingError>,
}

/// What has become of a recording.
#[derive(Debug)]
pub(crate) enum News {
    /// The answer to a request.
    Answer(u64, Outcome),
    /// This one, of this link, ended by itself.
    Ended(u64, LinkName, String),
    /// The file of this one could not be made.
    NotBegun(u64),
}

/// See this module.
#[derive(Debug)]
pub(crate) struct Recordings {
    notices: Arc<Notices>,
    last: u64,
    live: BTreeMap<u64, Live>,
}

impl Recordings {
    pub(crate) fn new() -> Result<Self, Errno> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let notices = Arc::new(Notices { said: Mutex::default(), bell });
        Ok(Self { notices, last: 0, live: BTreeMap::new() })
    }

    /// What becomes readable when there are [`Self::news`].
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.notices.bell.as_fd()
    }

    /// Whether the threads of all have ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Whether there may be one more.
    pub(crate) fn has_room(&self) -> bool {
        self.live.len() < RECORDINGS_MAX
    }

    /// Starts one; `request` is answered when its file is there, or cannot be made.
    pub(crate) fn start(
        &mut self,
        link: LinkName,
        path: PathBuf,
        bytes_max: u64,
        request: u64,
    ) -> io::Result<Recording> {
        self.last += 1;
        let id = self.last;
        let (recording, queue) = Recording::new(id, bytes_max);
        let (notices, file) = (Arc::clone(&self.notices), path.clone());
        let record = move || {
            let ended = open(&file).and_then(|file| {
                notices.say(id, Notice::Opened);
                write(&file, &queue)
            });
            notices.say(id, Notice::Ended(ended));
        };
        std::thread::Builder::new().name(format!("record {link}")).spawn(record)?;
        self.live.insert(id, Live { link, path, starter: Some(request), stopper: None, why: None });
        Ok(recording)
    }

    /// Ends one; `request` is answered when all of it is written.
    pub(crate) fn stop(&mut self, recording: Recording, request: u64) {
        if let Some(live) = self.live.get_mut(&recording.id) {
            live.stopper = Some(request);
        }
    }

    /// Ends one that can go on no longer.
    pub(crate) fn give_up(&mut self, recording: Recording, why: RecordingError) {
        if let Some(live) = self.live.get_mut(&recording.id) {
            live.why = Some(why);
        }
    }

    /// What has become of recordings since it was asked last.
    pub(crate) fn news(&mut self) -> Vec<News> {
        // Nothing to read: it was rung and heard already.
        let _ = rustix::io::read(&self.notices.bell, &mut [0; 8]);
        let said = std::mem::take(&mut *self.notices.said.lock().unwrap_or_else(PoisonError::into_inner));
        let mut news = Vec::new();
        for (id, notice) in said {
            match notice {
                Notice::Opened => {
                    let starter = self.live.get_mut(&id).and_then(|live| live.starter.take());
                    news.extend(starter.map(|request| News::Answer(request, Outcome::Done)));
                }
                Notice::Ended(result) => {
                    if let Some(live) = self.live.remove(&id) {
                        live.ended(id, result, &mut news);
                    }
                }
            }
        }
        news
    }
}

impl Live {
    fn ended(self, id: u64, result: Result<(), RecordingError>, news: &mut Vec<News>) {
        let path = Shown(self.path.as_os_str().as_encoded_bytes());
        let was_open = self.starter.is_none();
        let failed = |error: RecordingError| format!("cannot record to {path}: {error}");
        let reason = result.err().map(failed);
        let outcome = |reason: Option<String>| match reason {
            Some(reason) => Outcome::Failed { reason },
            None => Outcome::Done,
        };
        if let Some(request) = self.starter {
            news.extend([News::Answer(request, outcome(reason.clone())), News::NotBegun(id)]);
        }
        match (self.stopper, reason.or_else(|| self.why.map(|why| why.to_string()))) {
            (Some(request), reason) => news.push(News::Answer(request, outcome(reason))),
            (None, Some(reason)) if was_open => news.push(News::Ended(id, self.link, reason)),
            // Its link was removed, the switch ends, or whoever started it was told already.
            (None, _) => {}
        }
    }
}
