//! What a file and a file system are: `struct stat`, `struct statx`, `struct statfs`.

use coppice_protocol::ship::{FileStatus, FileSystemStatus, Timestamp};

use super::Record;

/// Length of `struct stat`, bytes.
pub(crate) const STAT_BYTES: usize = 144;
/// Length of `struct statx`, bytes.
pub(crate) const STATX_BYTES: usize = 256;
/// Length of `struct statfs`, bytes.
pub(crate) const STATFS_BYTES: usize = 120;

/// `STATX_BASIC_STATS`: all that `struct stat` has too.
const STATX_BASIC_STATS: u32 = 0x7ff;
/// `STATX_BTIME`: the creation time is known.
const STATX_BTIME: u32 = 0x800;

/// Major number of a device as `st_dev` encodes it.
pub(crate) const fn major(device: u64) -> u32 {
    ((device >> 8) & 0xfff | (device >> 32) & !0xfff) as u32
}

/// Minor number of a device as `st_dev` encodes it.
pub(crate) const fn minor(device: u64) -> u32 {
    (device & 0xff | (device >> 12) & !0xff) as u32
}

/// A device number as `st_dev` encodes it.
pub(crate) const fn device(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (major & 0xfff) << 8 | (major & !0xfff) << 32 | minor & 0xff | (minor & !0xff) << 12
}

/// `struct stat`.
pub(crate) fn stat(status: &FileStatus) -> Record<STAT_BYTES> {
    let time = |record: Record<STAT_BYTES>, offset: usize, time: Timestamp| {
        record.i64(offset, time.seconds).u64(offset + 8, time.nanoseconds.into())
    };
    let record = Record::new()
        .u64(0, status.device)
        .u64(8, status.inode)
        .u64(16, status.links)
        .u32(24, status.mode)
        .u32(28, status.user)
        .u32(32, status.group)
        .u64(40, status.special_device)
        .u64(48, status.size)
        .u64(56, status.block_size.into())
        .u64(64, status.blocks);
    let record = time(record, 72, status.accessed);
    let record = time(record, 88, status.modified);
    time(record, 104, status.changed)
}

/// `struct statx`.
pub(crate) fn statx(status: &FileStatus) -> Record<STATX_BYTES> {
    let time = |record: Record<STATX_BYTES>, offset: usize, time: Timestamp| {
        record.i64(offset, time.seconds).u32(offset + 8, time.nanoseconds)
    };
    let known = if status.created.is_some() { STATX_BTIME } else { 0 };
    let record = Record::new()
        .u32(0, STATX_BASIC_STATS | known)
        .u32(4, status.block_size)
        .u32(16, u32::try_from(status.links).unwrap_or(u32::MAX))
        .u32(20, status.user)
        .u32(24, status.group)
        // Type and permissions are the low 16 bits of `st_mode`; there are no others.
        .u16(28, (status.mode & 0xffff) as u16)
        .u64(32, status.inode)
        .u64(40, status.size)
        .u64(48, status.blocks)
        .u32(128, major(status.special_device))
        .u32(132, minor(status.special_device))
        .u32(136, major(status.device))
        .u32(140, minor(status.device));
    let record = time(record, 64, status.accessed);
    let record = time(record, 80, status.created.unwrap_or_default());
    let record = time(record, 96, status.changed);
    time(record, 112, status.modified)
}

/// `struct statfs`.
pub(crate) fn statfs(status: &FileSystemStatus) -> Record<STATFS_BYTES> {
    Record::new()
        .u64(0, status.kind)
        .u64(8, status.block_size)
        .u64(16, status.blocks)
        .u64(24, status.blocks_free)
        .u64(32, status.blocks_available)
        .u64(40, status.files)
        .u64(48, status.files_free)
        .u64(64, status.name_bytes_max)
        .u64(72, status.fragment_size)
        .u64(80, status.flags)
}

#[cfg(test)]
mod tests {
    use core::mem::{offset_of, size_of};

    use coppice_protocol::ship::{FileStatus, FileSystemStatus, Timestamp};

    use super::super::{u16_at, u32_at, u64_at};
    use super::{STAT_BYTES, STATFS_BYTES, STATX_BYTES, device, major, minor, stat, statfs, statx};

    fn sample() -> FileStatus {
        FileStatus {
            device: device(8, 0x1234),
            inode: 2,
            mode: 0o100_644,
            links: 3,
            user: 4,
            group: 5,
            special_device: device(300, 700),
            size: 6,
            block_size: 4096,
            blocks: 8,
            accessed: Timestamp { seconds: 9, nanoseconds: 10 },
            modified: Timestamp { seconds: 11, nanoseconds: 12 },
            changed: Timestamp { seconds: -13, nanoseconds: 14 },
            created: Some(Timestamp { seconds: 15, nanoseconds: 16 }),
        }
    }

    #[test]
    fn stat_has_the_hosts_layout() {
        assert_eq!(STAT_BYTES, size_of::<libc::stat>());
        let record = stat(&sample());
        let b = record.bytes();
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_dev)), libc::makedev(8, 0x1234));
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_ino)), 2);
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_nlink)), 3);
        assert_eq!(u32_at(b, offset_of!(libc::stat, st_mode)), 0o100_644);
        assert_eq!(u32_at(b, offset_of!(libc::stat, st_uid)), 4);
        assert_eq!(u32_at(b, offset_of!(libc::stat, st_gid)), 5);
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_rdev)), libc::makedev(300, 700));
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_size)), 6);
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_blksize)), 4096);
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_blocks)), 8);
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_atime)), 9);
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_atime_nsec)), 10);
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_mtime)), 11);
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_mtime_nsec)), 12);
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_ctime)).cast_signed(), -13);
        assert_eq!(u64_at(b, offset_of!(libc::stat, st_ctime_nsec)), 14);
    }

    #[test]
    fn statx_has_the_hosts_layout() {
        assert_eq!(STATX_BYTES, size_of::<libc::statx>());
        let record = statx(&sample());
        let b = record.bytes();
        assert_eq!(u32_at(b, offset_of!(libc::statx, stx_mask)), libc::STATX_BASIC_STATS | libc::STATX_BTIME);
        assert_eq!(u32_at(b, offset_of!(libc::statx, stx_blksize)), 4096);
        assert_eq!(u32_at(b, offset_of!(libc::statx, stx_nlink)), 3);
        assert_eq!(u32_at(b, offset_of!(libc::statx, stx_uid)), 4);
        assert_eq!(u32_at(b, offset_of!(libc::statx, stx_gid)), 5);
        assert_eq!(u16_at(b, offset_of!(libc::statx, stx_mode)), 0o100_644);
        assert_eq!(u64_at(b, offset_of!(libc::statx, stx_ino)), 2);
        assert_eq!(u64_at(b, offset_of!(libc::statx, stx_size)), 6);
        assert_eq!(u64_at(b, offset_of!(libc::statx, stx_blocks)), 8);
        for (offset, seconds, nanoseconds) in [
            (offset_of!(libc::statx, stx_atime), 9, 10),
            (offset_of!(libc::statx, stx_mtime), 11, 12),
            (offset_of!(libc::statx, stx_ctime), -13, 14),
            (offset_of!(libc::statx, stx_btime), 15, 16),
        ] {
            assert_eq!(u64_at(b, offset).cast_signed(), seconds);
            assert_eq!(u32_at(b, offset + offset_of!(libc::statx_timestamp, tv_nsec)), nanoseconds);
        }
        assert_eq!(u32_at(b, offset_of!(libc::statx, stx_rdev_major)), 300);
        assert_eq!(u32_at(b, offset_of!(libc::statx, stx_rdev_minor)), 700);
        assert_eq!(u32_at(b, offset_of!(libc::statx, stx_dev_major)), 8);
        assert_eq!(u32_at(b, offset_of!(libc::statx, stx_dev_minor)), 0x1234);
    }

    #[test]
    fn a_creation_time_nobody_knows_is_not_claimed() {
        let record = statx(&FileStatus { created: None, ..sample() });
        assert_eq!(u32_at(record.bytes(), 0) & libc::STATX_BTIME, 0);
    }

    #[test]
    fn statfs_has_the_hosts_layout() {
        assert_eq!(STATFS_BYTES, size_of::<libc::statfs>());
        let status = FileSystemStatus {
            kind: 1,
            block_size: 2,
            blocks: 3,
            blocks_free: 4,
            blocks_available: 5,
            files: 6,
            files_free: 7,
            name_bytes_max: 8,
            fragment_size: 9,
            flags: 10,
        };
        let record = statfs(&status);
        let b = record.bytes();
        assert_eq!(u64_at(b, offset_of!(libc::statfs, f_type)), 1);
        assert_eq!(u64_at(b, offset_of!(libc::statfs, f_bsize)), 2);
        assert_eq!(u64_at(b, offset_of!(libc::statfs, f_blocks)), 3);
        assert_eq!(u64_at(b, offset_of!(libc::statfs, f_bfree)), 4);
        assert_eq!(u64_at(b, offset_of!(libc::statfs, f_bavail)), 5);
        assert_eq!(u64_at(b, offset_of!(libc::statfs, f_files)), 6);
        assert_eq!(u64_at(b, offset_of!(libc::statfs, f_ffree)), 7);
        assert_eq!(u64_at(b, offset_of!(libc::statfs, f_namelen)), 8);
        assert_eq!(u64_at(b, offset_of!(libc::statfs, f_frsize)), 9);
        // The C library hides the field that the kernel's header has next.
        assert_eq!(u64_at(b, offset_of!(libc::statfs, f_frsize) + 8), 10);
    }

    #[test]
    fn device_numbers_are_the_hosts() {
        for (a, b) in [(0, 0), (1, 3), (0xfff, 0xff), (0x1000, 0x100), (0xabcde, 0xfedcb)] {
            let number = libc::makedev(a, b);
            assert_eq!(device(a, b), number);
            assert_eq!((major(number), minor(number)), (a, b));
        }
    }
}
