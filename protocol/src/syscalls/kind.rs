//! What a call's arguments are, where it is made, and what a signal does to it: the vocabulary of the
//! [table](super::CALLS).

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of 32 bits with a sign.
    Int,
    /// One without.
    Uint,
    /// A number of 64 bits with a sign.
    Long,
    /// One without.
    Size,
    /// Bits without names.
    Hex,
    /// Permissions of a file.
    Mode,
    /// Permissions, if the flags in this argument say that a file may be made.
    NewMode(u8),
    /// A descriptor.
    Fd,
    /// A descriptor of a directory, or the working directory.
    At,
    /// A text that ends with a zero.
    Path,
    /// The address of something, or nowhere.
    Pointer,
    /// Bytes that the program gives, as many as this argument says.
    In(u8),
    /// Bytes that the program gets, as many as the result says.
    Out,
    /// A text that the program gets, with its zero.
    OutText,
    /// Pieces of bytes that the program gives (`struct iovec`), as many as this argument says.
    Iovec(u8),
    /// Pieces that the program gets, as many as this argument says, with as many bytes as the result.
    OutIovec(u8),
    /// A duration or a time (`struct timespec`), or nowhere.
    Time,
    /// Two descriptors that the program gets.
    Pair,
    /// A set of signals that the program gives.
    Set,
    /// A set of signals that the program gets.
    SetOut,
    /// What is to be done about a signal (`struct sigaction` as the kernel has it).
    Action,
    /// What was to be done about one.
    ActionOut,
    /// A signal.
    Signal,
    /// What fcntl(2) takes for its command.
    OfFcntl,
    /// What futex(2) takes for its command.
    OfFutex(u8),
    /// What prctl(2) takes for its option.
    OfPrctl(u8),
    /// Where mremap(2) is to move to, if it is.
    MovedTo,
    /// One of some names, or several bits that have names.
    Named(Names),
    /// Nobody has said what the arguments of this call are.
    Unknown,
}

macro_rules! names {
    ($($name:ident $($constant:ident)? $what:literal;)*) => {
        /// Names that numbers of arguments have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Names {
            $(#[doc = $what] $name,)*
        }

        $($(
            #[doc = $what]
            pub(super) const $constant: Kind = Kind::Named(Names::$name);
        )?)*
    };
}

names! {
    Access ACCESS "What is asked of a file (access(2)).";
    Action "How a signal's handler is called.";
    Advice MADV "Advice on memory.";
    Arch ARCH "What arch_prctl(2) does.";
    At AT "How a path is followed.";
    AtFollow AT_FOLLOW "How a path is followed that is to get another name.";
    AtRemove AT_REMOVE "What is removed.";
    Clock CLOCK "A clock.";
    Clone CLONE "What a thread shares.";
    CloseRange CLOSE_RANGE "How descriptors are closed.";
    Descriptor NEW_FD "What a new descriptor is like.";
    Domain AF "Addresses of a socket.";
    Epoll EPOLL "What epoll_ctl(2) does.";
    EpollDescriptor NEW_EPOLL "What an epoll's descriptor is like.";
    EventDescriptor NEW_EVENT "What an event's descriptor is like.";
    Fadvice FADV "Advice on a file.";
    Fcntl FCNTL "What fcntl(2) does.";
    Futex FUTEX "What futex(2) does.";
    IntervalTimer ITIMER "A timer of an interval.";
    Ioctl IOCTL "What ioctl(2) does.";
    Lock LOCK "How a file is locked (flock(2)).";
    LockAll MCL "What is to stay in memory.";
    Map MAP "How memory is mapped.";
    MemoryFile MFD "What a file in memory is like.";
    Message MSG "How a message is sent or taken.";
    Move MREMAP "How a mapping may move.";
    Open OPEN "How a file is opened.";
    Policy SCHED "How threads take turns.";
    Prctl PRCTL "What prctl(2) does.";
    Priority PRIO "Whose priority.";
    Protection PROT "What may be done with memory.";
    Random GRND "How random bytes are got.";
    ReadWrite RWF "How bytes are read or written.";
    Rename RENAME "How a name is changed.";
    Resource RLIMIT "What is limited.";
    SignalDescriptor NEW_SIGNAL "What a descriptor for signals is like.";
    SignalMask SIGMASK "How a signal mask is changed.";
    Shutdown SHUT "Which directions are shut.";
    SocketFlags SOCK_FLAGS "What a new socket is like.";
    SocketLevel SOL "Whose option.";
    SocketType SOCK "What kind of a socket.";
    Splice SPLICE "How bytes are moved.";
    Statx STATX "What is wanted of a file.";
    Sync MSYNC "How memory is written back.";
    Timer TIMER "How a timer is set.";
    TimerDescriptor NEW_TIMER "What a timer's descriptor is like.";
    TimerFile TIMERFD "How a timer with a descriptor is set.";
    Usage RUSAGE "Whose use.";
    Whence SEEK "From where an offset counts.";
}

/// What a result is, if it is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// A number.
    Int,
    /// A descriptor.
    Fd,
    /// An address.
    Hex,
    /// Permissions.
    Octal,
    /// The call does not return.
    Never,
    /// Whatever a register had when a signal came.
    Any,
}

/// Where a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It asks for a fact about its caller.
    Fact,
    /// It never waits.
    AtOnce,
    /// It never waits, and looks at the thread's registers or changes them.
    Registers,
    /// It changes what is mapped; its pages may take longer.
    Memory,
    /// It is about how the thread itself goes on.
    Thread,
    /// It never waits if all it takes is there, else it waits.
    Tried,
    /// It may wait, for something in the node.
    Node,
    /// It may be shipped to the I/O node.
    Shipped,
    /// It always fails, with this error.
    Refused(&'static str),
    /// There is none.
    Absent,
}

/// What becomes of a call that waits when a signal's handler is to run (signal(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The handler runs when the call is done.
    Waits,
    /// The call fails with `EINTR`.
    Fails,
    /// It is made again if the handler was set with `SA_RESTART`, else it fails.
    Restarts,
    /// The same, but it fails if its time is limited.
    RestartsUntimed,
}
