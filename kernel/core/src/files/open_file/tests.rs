//! Flags of open files, and which of them may be changed.

use alloc::sync::Arc;

use coppice_protocol::ids::{JobId, Rank};

use super::{Device, Input, Object, OpenFile, Ready, Standard, flags};
use crate::quota::tests::quota;
use crate::ship::Ship;

#[test]
fn access_follows_the_flags() {
    let open = |flags| OpenFile::new(Object::Device(Device::Null), flags);
    assert!(open(flags::O_RDONLY).is_readable() && !open(flags::O_RDONLY).is_writable());
    assert!(!open(flags::O_WRONLY).is_readable() && open(flags::O_WRONLY).is_writable());
    assert!(open(flags::O_RDWR).is_readable() && open(flags::O_RDWR).is_writable());
    assert!(!open(flags::O_ACCMODE).is_readable() && !open(flags::O_ACCMODE).is_writable());
    let path = open(flags::O_RDWR | flags::O_PATH);
    assert!(!path.is_readable() && !path.is_writable() && path.is_path());
}

#[test]
fn only_some_flags_can_be_set_later() {
    let file = OpenFile::new(Object::Device(Device::Null), flags::O_WRONLY | flags::O_APPEND | flags::O_CLOEXEC);
    assert_eq!(file.flags(), flags::O_WRONLY | flags::O_APPEND | flags::O_LARGEFILE);
    file.set_flags(flags::O_RDWR | flags::O_NONBLOCK | flags::O_CREAT);
    assert_eq!(file.flags(), flags::O_WRONLY | flags::O_NONBLOCK | flags::O_LARGEFILE);
    assert!(!file.appends() && file.is_nonblocking());
}

#[test]
fn streams_are_one_way() {
    let input = || Standard::Input(Arc::new(Input::new(Ship::new().client(JobId(1), Rank(0)), &quota())));
    assert!(OpenFile::standard(input()).is_readable());
    assert!(!OpenFile::standard(input()).is_writable());
    assert!(OpenFile::standard(Standard::Error).is_writable());
    assert_eq!(OpenFile::standard(Standard::Error).ready(), Ready::WRITE);
}
