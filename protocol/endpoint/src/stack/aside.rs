//! Bytes of a connection that were received and taken out of its buffer before the program wanted them: they are read
//! first. A connection has some only when it was made quiet ([`super::Stack::quieten`]) or made again from a record.
//!
//! They count against the budget for programs' buffers, which is their only limit: a peer whose bytes were set aside
//! has room to send as many more until the next time, whether or not anything was read by then.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smoltcp::socket::tcp;

use crate::SocketError;
use crate::accounts::{Accounts, Grant, zeroed};

/// What a piece takes besides its bytes, bytes.
const PIECE_OVERHEAD_BYTES: usize = 128;

/// See this module. Almost always nothing, and then a word.
#[derive(Default)]
pub(crate) struct Aside(Option<Box<Pieces>>);

struct Pieces {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that were read.
    read: usize,
    wipe: fn(&mut [u8]),
}

struct Piece {
    bytes: Vec<u8>,
    _grant: Grant,
}

impl Aside {
    /// How many bytes.
    pub(crate) fn len(&self) -> usize {
        let Some(aside) = &self.0 else { return 0 };
        aside.pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>() - aside.read
    }

    /// A place for `length` more bytes, which are entered in the books, zeroed.
    fn add(&mut self, length: usize, accounts: &Arc<Accounts>, wipe: fn(&mut [u8])) -> Result<&mut [u8], SocketError> {
        let grant = accounts.grant(length + PIECE_OVERHEAD_BYTES)?;
        let bytes = zeroed(length).ok_or(SocketError::NoMemory)?;
        let aside = self.0.get_or_insert_with(|| Box::new(Pieces { pieces: VecDeque::new(), read: 0, wipe }));
        aside.pieces.try_reserve(1).map_err(|_| SocketError::NoMemory)?;
        aside.pieces.push_back(Piece { bytes, _grant: grant });
        Ok(aside.pieces.back_mut().map(|piece| piece.bytes.as_mut_slice()).unwrap_or_default())
    }

    /// Puts bytes behind those that are there.
    ///
    /// # Errors
    /// [`SocketError::NoMemory`].
    pub(crate) fn put(
        &mut self,
        bytes: &[u8],
        accounts: &Arc<Accounts>,
        wipe: fn(&mut [u8]),
    ) -> Result<(), SocketError> {
        if !bytes.is_empty() {
            self.add(bytes.len(), accounts, wipe)?.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Takes all that a connection has received out of its buffer, which is wiped.
    ///
    /// # Errors
    /// [`SocketError::NoMemory`]: it stays there.
    pub(crate) fn take_from(
        &mut self,
        socket: &mut tcp::Socket<'static>,
        accounts: &Arc<Accounts>,
        wipe: fn(&mut [u8]),
    ) -> Result<(), SocketError> {
        let mut room = self.add(socket.recv_queue(), accounts, wipe)?;
        while socket.can_recv() && !room.is_empty() {
            let taken = socket.recv(|bytes| {
                let length = bytes.len().min(room.len());
                let (bytes, _) = bytes.split_at_mut(length);
                let (now, later) = core::mem::take(&mut room).split_at_mut(length);
                now.copy_from_slice(bytes);
                room = later;
                wipe(bytes);
                (length, ())
            });
            if taken.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Has `take` read them piece by piece until it leaves some of a piece. Gives how many it took, and whether it left
    /// some.
    pub(crate) fn read(&mut self, mut take: impl FnMut(&[u8]) -> usize) -> (usize, bool) {
        let mut taken = 0;
        while let Some(aside) = &mut self.0 {
            let Some(piece) = aside.pieces.front_mut() else {
                self.0 = None;
                break;
            };
            let rest = piece.bytes.get_mut(aside.read..).unwrap_or_default();
            let length = rest.len();
            let wanted = take(rest).min(length);
            (aside.wipe)(rest.get_mut(..wanted).unwrap_or_default());
            aside.read += wanted;
            taken += wanted;
            if wanted < length {
                return (taken, true);
            }
            aside.pieces.pop_front();
            aside.read = 0;
        }
        (taken, false)
    }

    /// Copies the first of them, and leaves them there. Gives how many.
    pub(crate) fn peek(&self, buffer: &mut [u8]) -> usize {
        let Some(aside) = &self.0 else { return 0 };
        let (mut read, mut count) = (aside.read, 0);
        for piece in &aside.pieces {
            let bytes = piece.bytes.get(core::mem::take(&mut read)..).unwrap_or_default();
            let room = buffer.get_mut(count..).unwrap_or_default();
            let length = bytes.len().min(room.len());
            let (bytes, _) = bytes.split_at(length);
            room.split_at_mut(length).0.copy_from_slice(bytes);
            count += length;
        }
        count
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        for piece in &mut self.pieces {
            (self.wipe)(&mut piece.bytes);
        }
    }
}
