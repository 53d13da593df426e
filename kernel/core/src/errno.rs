//! Linux error numbers: what a system call answers when it does not do what it was asked.

use core::fmt;

/// A Linux error number, 1 … 4095. A system call returns it negated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub u16);

impl Errno {
    /// Highest number a system call can answer; a greater "error" would read as an address.
    pub const MAX: u16 = 4095;

    /// What a system call leaves in `rax`: the number negated, in two's complement.
    #[must_use]
    pub const fn to_rax(self) -> u64 {
        (self.0 as u64).wrapping_neg()
    }

    /// The error an I/O node reports. Zero and numbers beyond [`Errno::MAX`], which no I/O node in its right mind
    /// sends, become `EIO`.
    #[must_use]
    pub const fn from_wire(number: u16) -> Self {
        if number == 0 || number > Self::MAX { Self::EIO } else { Self(number) }
    }
}

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Errno {
            $(
                #[doc = concat!($text, ".")]
                pub const $name: Self = Self($number);
            )*

            /// The symbolic name and what it means, for numbers the kernel itself uses or passes on by name.
            const fn describe(self) -> Option<(&'static str, &'static str)> {
                match self.0 {
                    $($number => Some((stringify!($name), $text)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted";
    ENOENT = 2, "No such file or directory";
    ESRCH = 3, "No such process";
    EINTR = 4, "Interrupted system call";
    EIO = 5, "I/O error";
    ENXIO = 6, "No such device or address";
    E2BIG = 7, "Argument list too long";
    ENOEXEC = 8, "Exec format error";
    EBADF = 9, "Bad file number";
    ECHILD = 10, "No child processes";
    EAGAIN = 11, "Try again";
    ENOMEM = 12, "Out of memory";
    EACCES = 13, "Permission denied";
    EFAULT = 14, "Bad address";
    EBUSY = 16, "Device or resource busy";
    EEXIST = 17, "File exists";
    EXDEV = 18, "Cross-device link";
    ENODEV = 19, "No such device";
    ENOTDIR = 20, "Not a directory";
    EISDIR = 21, "Is a directory";
    EINVAL = 22, "Invalid argument";
    ENFILE = 23, "File table overflow";
    EMFILE = 24, "Too many open files";
    ENOTTY = 25, "Not a typewriter";
    ETXTBSY = 26, "Text file busy";
    EFBIG = 27, "File too large";
    ENOSPC = 28, "No space left on device";
    ESPIPE = 29, "Illegal seek";
    EROFS = 30, "Read-only file system";
    EMLINK = 31, "Too many links";
    EPIPE = 32, "Broken pipe";
    EDOM = 33, "Math argument out of domain of func";
    ERANGE = 34, "Math result not representable";
    EDEADLK = 35, "Resource deadlock would occur";
    ENAMETOOLONG = 36, "File name too long";
    ENOLCK = 37, "No record locks available";
    ENOSYS = 38, "Invalid system call number";
    ENOTEMPTY = 39, "Directory not empty";
    ELOOP = 40, "Too many symbolic links encountered";
    ENODATA = 61, "No data available";
    ETIME = 62, "Timer expired";
    ENOLINK = 67, "Link has been severed";
    EPROTO = 71, "Protocol error";
    EBADMSG = 74, "Not a data message";
    EOVERFLOW = 75, "Value too large for defined data type";
    EBADFD = 77, "File descriptor in bad state";
    EILSEQ = 84, "Illegal byte sequence";
    ENOTSOCK = 88, "Socket operation on non-socket";
    EDESTADDRREQ = 89, "Destination address required";
    EMSGSIZE = 90, "Message too long";
    EPROTOTYPE = 91, "Protocol wrong type for socket";
    ENOPROTOOPT = 92, "Protocol not available";
    EPROTONOSUPPORT = 93, "Protocol not supported";
    ESOCKTNOSUPPORT = 94, "Socket type not supported";
    EOPNOTSUPP = 95, "Operation not supported on transport endpoint";
    EPFNOSUPPORT = 96, "Protocol family not supported";
    EAFNOSUPPORT = 97, "Address family not supported by protocol";
    EADDRINUSE = 98, "Address already in use";
    EADDRNOTAVAIL = 99, "Cannot assign requested address";
    ENETDOWN = 100, "Network is down";
    ENETUNREACH = 101, "Network is unreachable";
    ENETRESET = 102, "Network dropped connection because of reset";
    ECONNABORTED = 103, "Software caused connection abort";
    ECONNRESET = 104, "Connection reset by peer";
    ENOBUFS = 105, "No buffer space available";
    EISCONN = 106, "Transport endpoint is already connected";
    ENOTCONN = 107, "Transport endpoint is not connected";
    ESHUTDOWN = 108, "Cannot send after transport endpoint shutdown";
    ETIMEDOUT = 110, "Connection timed out";
    ECONNREFUSED = 111, "Connection refused";
    EHOSTDOWN = 112, "Host is down";
    EHOSTUNREACH = 113, "No route to host";
    EALREADY = 114, "Operation already in progress";
    EINPROGRESS = 115, "Operation now in progress";
    ESTALE = 116, "Stale file handle";
    EDQUOT = 122, "Quota exceeded";
    ECANCELED = 125, "Operation Canceled";
    EOWNERDEAD = 130, "Owner died";
    ENOTRECOVERABLE = 131, "State not recoverable";
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.describe() {
            Some((name, text)) => write!(f, "{text} ({name})"),
            None => write!(f, "error {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.describe() {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl core::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::Errno;

    #[test]
    fn rax_is_the_negated_number() {
        assert_eq!(Errno::EFAULT.to_rax() as i64, -14);
        assert_eq!(Errno::ENOSYS.to_rax() as i64, -38);
    }

    #[test]
    fn nonsense_from_the_wire_is_an_input_output_error() {
        assert_eq!(Errno::from_wire(0), Errno::EIO);
        assert_eq!(Errno::from_wire(4096), Errno::EIO);
        assert_eq!(Errno::from_wire(2), Errno::ENOENT);
    }

    #[test]
    fn known_errors_have_names_and_unknown_ones_numbers() {
        assert_eq!(format!("{}", Errno::ENOENT), "No such file or directory (ENOENT)");
        assert_eq!(format!("{:?}", Errno(133)), "Errno(133)");
    }

    #[test]
    fn numbers_are_the_hosts() {
        for (ours, theirs) in [
            (Errno::EPERM, libc::EPERM),
            (Errno::EAGAIN, libc::EAGAIN),
            (Errno::ENOTEMPTY, libc::ENOTEMPTY),
            (Errno::ELOOP, libc::ELOOP),
            (Errno::EILSEQ, libc::EILSEQ),
            (Errno::EOPNOTSUPP, libc::EOPNOTSUPP),
            (Errno::ESTALE, libc::ESTALE),
            (Errno::EDQUOT, libc::EDQUOT),
        ] {
            assert_eq!(i32::from(ours.0), theirs, "{ours:?}");
        }
    }
}
