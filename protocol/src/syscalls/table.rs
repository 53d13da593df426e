//! The one list of system calls: what each is called, what it takes, where it is made, what a signal does to it, and
//! how far there is one.
//!
//! Everything that goes by numbers of calls is made of it: their names, the kernel's dispatch, what a trace shows, the
//! table in `docs/linux.md`. A macro takes it and makes of it what it needs.

/// Has the macro `$made` make something of all calls of Linux 6.10 for x86-64, after what follows its name. A row is
///
/// `number CONSTANT name(arguments) result, place, interruption "how far";`
///
/// in the words of [`Kind`](crate::syscalls::Kind), [`Returns`](crate::syscalls::Returns),
/// [`Place`](crate::syscalls::Place) and [`Interruption`](crate::syscalls::Interruption). A call of which nothing more
/// is said is as on Linux, as far as programs of one user can see, or it is [`Absent`](crate::syscalls::Place::Absent).
#[macro_export]
macro_rules! for_each_call {
    ($made:ident $($with:tt)*) => {
        $made! { [$($with)*]
            0 READ read(Fd, Out, Size) Int, Tried, RestartsUntimed;
            1 WRITE write(Fd, In(2), Size) Int, Tried, RestartsUntimed;
            2 OPEN open(Path, OPEN, NewMode(1)) Fd, Shipped, Waits
                "regular files and directories of the job's root, and what the node has of `/dev`, `/proc`, \
                 `/sys`; opening `/proc/self/fd/N` gives the same open file; new files of the host get no bits \
                 for set-user-ID and set-group-ID";
            3 CLOSE close(Fd) Int, Tried, Waits;
            4 STAT stat(Path, Pointer) Int, Shipped, Waits;
            5 FSTAT fstat(Fd, Pointer) Int, Shipped, Waits;
            6 LSTAT lstat(Path, Pointer) Int, Shipped, Waits;
            7 POLL poll(Pointer, Uint, Int) Int, Tried, Fails;
            8 LSEEK lseek(Fd, Long, SEEK) Int, Tried, Waits;
            9 MMAP mmap(Pointer, Size, PROT, MAP, Fd, Hex) Hex, Memory, Waits
                "no huge pages (`MAP_HUGETLB`: `ENOMEM`)";
            10 MPROTECT mprotect(Pointer, Size, PROT) Int, Memory, Waits;
            11 MUNMAP munmap(Pointer, Size) Int, Memory, Waits;
            12 BRK brk(Pointer) Hex, Memory, Waits;
            13 RT_SIGACTION rt_sigaction(Signal, Action, ActionOut, Size) Int, AtOnce, Waits;
            14 RT_SIGPROCMASK rt_sigprocmask(SIGMASK, Set, SetOut, Size) Int, AtOnce, Waits;
            15 RT_SIGRETURN rt_sigreturn() Any, Thread, Waits;
            16 IOCTL ioctl(Fd, IOCTL, Pointer) Int, Tried, Waits
                "`FIONREAD`, `FIONBIO`, `FIOCLEX`, `FIONCLEX`, `SIOCGIF…`, and what asks for a terminal (`ENOTTY`)";
            17 PREAD64 pread64(Fd, Out, Size, Long) Int, Tried, Waits;
            18 PWRITE64 pwrite64(Fd, In(2), Size, Long) Int, Tried, Waits;
            19 READV readv(Fd, OutIovec(2), Int) Int, Shipped, RestartsUntimed;
            20 WRITEV writev(Fd, Iovec(2), Int) Int, Shipped, RestartsUntimed;
            21 ACCESS access(Path, ACCESS) Int, Shipped, Waits;
            22 PIPE pipe(Pair) Int, AtOnce, Waits;
            23 SELECT select(Int, Pointer, Pointer, Pointer, Pointer) Int, Node, Fails;
            24 SCHED_YIELD sched_yield() Int, Node, Waits;
            25 MREMAP mremap(Pointer, Size, Size, MREMAP, MovedTo) Hex, Memory, Waits "without `MREMAP_DONTUNMAP`";
            26 MSYNC msync(Pointer, Size, MSYNC) Int, Shipped, Waits;
            27 MINCORE mincore(Pointer, Size, Pointer) Int, Node, Waits;
            28 MADVISE madvise(Pointer, Size, MADV) Int, Memory, Waits
                "`MADV_REMOVE` and poisoning are `EINVAL`; advice on access, huge pages, merging and dumps is \
                 taken and changes nothing";
            29 SHMGET shmget(Unknown) Int, Absent, Waits;
            30 SHMAT shmat(Unknown) Int, Absent, Waits;
            31 SHMCTL shmctl(Unknown) Int, Absent, Waits;
            32 DUP dup(Fd) Fd, AtOnce, Waits;
            33 DUP2 dup2(Fd, Fd) Fd, Tried, Waits;
            34 PAUSE pause() Int, Node, Fails;
            35 NANOSLEEP nanosleep(Time, Pointer) Int, Node, Fails;
            36 GETITIMER getitimer(ITIMER, Pointer) Int, AtOnce, Waits;
            37 ALARM alarm(Uint) Int, AtOnce, Waits;
            38 SETITIMER setitimer(ITIMER, Pointer, Pointer) Int, AtOnce, Waits
                "time in the kernel is not told from the program's own";
            39 GETPID getpid() Int, Fact, Waits;
            40 SENDFILE sendfile(Fd, Fd, Pointer, Size) Int, Shipped, RestartsUntimed;
            41 SOCKET socket(AF, SOCK, Int) Fd, AtOnce, Waits
                "`AF_INET`, TCP and UDP, between nodes of the cluster and within one; `AF_NETLINK`, `NETLINK_ROUTE`";
            42 CONNECT connect(Fd, Pointer, Uint) Int, Node, RestartsUntimed;
            43 ACCEPT accept(Fd, Pointer, Pointer) Fd, Node, RestartsUntimed;
            44 SENDTO sendto(Fd, In(2), Size, MSG, Pointer, Uint) Int, Node, RestartsUntimed;
            45 RECVFROM recvfrom(Fd, Out, Size, MSG, Pointer, Pointer) Int, Node, RestartsUntimed;
            46 SENDMSG sendmsg(Fd, Pointer, MSG) Int, Node, RestartsUntimed;
            47 RECVMSG recvmsg(Fd, Pointer, MSG) Int, Node, RestartsUntimed;
            48 SHUTDOWN shutdown(Fd, SHUT) Int, AtOnce, Waits;
            49 BIND bind(Fd, Pointer, Uint) Int, AtOnce, Waits;
            50 LISTEN listen(Fd, Int) Int, AtOnce, Waits;
            51 GETSOCKNAME getsockname(Fd, Pointer, Pointer) Int, AtOnce, Waits;
            52 GETPEERNAME getpeername(Fd, Pointer, Pointer) Int, AtOnce, Waits;
            53 SOCKETPAIR socketpair(AF, SOCK, Int, Pair) Int, AtOnce, Waits "`AF_UNIX`";
            54 SETSOCKOPT setsockopt(Fd, SOL, Int, Pointer, Uint) Int, AtOnce, Waits
                "what programs set; what has no meaning here is taken and told again, or `ENOPROTOOPT`";
            55 GETSOCKOPT getsockopt(Fd, SOL, Int, Pointer, Pointer) Int, AtOnce, Waits "as setsockopt";
            56 CLONE clone(CLONE, Pointer, Pointer, Pointer, Pointer) Int, Thread, Waits
                "threads; there are no processes to be made";
            57 FORK fork(Unknown) Int, Absent, Waits;
            58 VFORK vfork(Unknown) Int, Absent, Waits;
            59 EXECVE execve(Unknown) Int, Absent, Waits;
            60 EXIT exit(Int) Never, Thread, Waits;
            61 WAIT4 wait4(Int, Pointer, Int, Pointer) Int, Refused(ECHILD), Waits;
            62 KILL kill(Int, Signal) Int, AtOnce, Waits
                "the ranks of the job on the same node, and the process itself";
            63 UNAME uname(Pointer) Int, AtOnce, Waits;
            64 SEMGET semget(Unknown) Int, Absent, Waits;
            65 SEMOP semop(Unknown) Int, Absent, Waits;
            66 SEMCTL semctl(Unknown) Int, Absent, Waits;
            67 SHMDT shmdt(Unknown) Int, Absent, Waits;
            68 MSGGET msgget(Unknown) Int, Absent, Waits;
            69 MSGSND msgsnd(Unknown) Int, Absent, Waits;
            70 MSGRCV msgrcv(Unknown) Int, Absent, Waits;
            71 MSGCTL msgctl(Unknown) Int, Absent, Waits;
            72 FCNTL fcntl(Fd, FCNTL, OfFcntl) Int, Tried, Restarts
                "locks hold between ranks of one pset, of files and directories of the host; no leases, no signals \
                 (`F_SETOWN` changes nothing)";
            73 FLOCK flock(Fd, LOCK) Int, Tried, Restarts "as fcntl's locks";
            74 FSYNC fsync(Fd) Int, Shipped, Waits;
            75 FDATASYNC fdatasync(Fd) Int, Shipped, Waits;
            76 TRUNCATE truncate(Path, Long) Int, Shipped, Waits;
            77 FTRUNCATE ftruncate(Fd, Long) Int, Shipped, Waits;
            78 GETDENTS getdents(Unknown) Int, Absent, Waits;
            79 GETCWD getcwd(OutText, Size) Int, AtOnce, Waits;
            80 CHDIR chdir(Path) Int, Shipped, Waits;
            81 FCHDIR fchdir(Fd) Int, Shipped, Waits;
            82 RENAME rename(Path, Path) Int, Shipped, Waits;
            83 MKDIR mkdir(Path, Mode) Int, Shipped, Waits;
            84 RMDIR rmdir(Path) Int, Shipped, Waits;
            85 CREAT creat(Path, Mode) Fd, Shipped, Waits "as open";
            86 LINK link(Path, Path) Int, Shipped, Waits;
            87 UNLINK unlink(Path) Int, Shipped, Waits;
            88 SYMLINK symlink(Path, Path) Int, Shipped, Waits;
            89 READLINK readlink(Path, Out, Size) Int, Shipped, Waits;
            90 CHMOD chmod(Path, Mode) Int, Shipped, Waits
                "regular files and directories; no bits for set-user-ID and set-group-ID for files of the host";
            91 FCHMOD fchmod(Fd, Mode) Int, Shipped, Waits "as chmod";
            92 CHOWN chown(Path, Int, Int) Int, Shipped, Waits "only to what it is, or as the host lets the I/O node";
            93 FCHOWN fchown(Fd, Int, Int) Int, Shipped, Waits "as chown";
            94 LCHOWN lchown(Path, Int, Int) Int, Shipped, Waits "as chown";
            95 UMASK umask(Mode) Octal, AtOnce, Waits;
            96 GETTIMEOFDAY gettimeofday(Pointer, Pointer) Int, AtOnce, Waits;
            97 GETRLIMIT getrlimit(RLIMIT, Pointer) Int, AtOnce, Waits;
            98 GETRUSAGE getrusage(RUSAGE, Pointer) Int, AtOnce, Waits
                "times, faults and the largest resident set; all time is the user's";
            99 SYSINFO sysinfo(Pointer) Int, AtOnce, Waits "no load, no swap";
            100 TIMES times(Pointer) Int, AtOnce, Waits "all time is the user's";
            101 PTRACE ptrace(Unknown) Int, Absent, Waits;
            102 GETUID getuid() Int, Fact, Waits;
            103 SYSLOG syslog(Unknown) Int, Absent, Waits;
            104 GETGID getgid() Int, Fact, Waits;
            105 SETUID setuid(Int) Int, AtOnce, Waits "only to what it is";
            106 SETGID setgid(Int) Int, AtOnce, Waits "only to what it is";
            107 GETEUID geteuid() Int, Fact, Waits;
            108 GETEGID getegid() Int, Fact, Waits;
            109 SETPGID setpgid(Int, Int) Int, AtOnce, Waits "fails: a process leads its own group";
            110 GETPPID getppid() Int, Fact, Waits;
            111 GETPGRP getpgrp() Int, AtOnce, Waits "as getpgid";
            112 SETSID setsid() Int, Refused(EPERM), Waits;
            113 SETREUID setreuid(Int, Int) Int, AtOnce, Waits "only to what it is";
            114 SETREGID setregid(Int, Int) Int, AtOnce, Waits "only to what it is";
            115 GETGROUPS getgroups(Int, Pointer) Int, AtOnce, Waits;
            116 SETGROUPS setgroups(Int, Pointer) Int, Refused(EPERM), Waits;
            117 SETRESUID setresuid(Int, Int, Int) Int, AtOnce, Waits "only to what it is";
            118 GETRESUID getresuid(Pointer, Pointer, Pointer) Int, AtOnce, Waits;
            119 SETRESGID setresgid(Int, Int, Int) Int, AtOnce, Waits "only to what it is";
            120 GETRESGID getresgid(Pointer, Pointer, Pointer) Int, AtOnce, Waits;
            121 GETPGID getpgid(Int) Int, AtOnce, Waits "a process leads its own group and session";
            122 SETFSUID setfsuid(Int) Int, AtOnce, Waits "only to what it is";
            123 SETFSGID setfsgid(Int) Int, AtOnce, Waits "only to what it is";
            124 GETSID getsid(Int) Int, AtOnce, Waits "as getpgid";
            125 CAPGET capget(Pointer, Pointer) Int, AtOnce, Waits "no process has capabilities";
            126 CAPSET capset(Pointer, Pointer) Int, AtOnce, Waits "only to none";
            127 RT_SIGPENDING rt_sigpending(SetOut, Size) Int, AtOnce, Waits;
            128 RT_SIGTIMEDWAIT rt_sigtimedwait(Set, Pointer, Time, Size) Int, Node, Fails;
            129 RT_SIGQUEUEINFO rt_sigqueueinfo(Int, Signal, Pointer) Int, AtOnce, Waits "as kill";
            130 RT_SIGSUSPEND rt_sigsuspend(Set, Size) Int, Node, Fails;
            131 SIGALTSTACK sigaltstack(Pointer, Pointer) Int, Registers, Waits;
            132 UTIME utime(Path, Pointer) Int, Shipped, Waits;
            133 MKNOD mknod(Unknown) Int, Absent, Waits;
            134 USELIB uselib(Unknown) Int, Absent, Waits;
            135 PERSONALITY personality(Hex) Int, AtOnce, Waits "remembered, without effect";
            136 USTAT ustat(Unknown) Int, Absent, Waits;
            137 STATFS statfs(Path, Pointer) Int, Shipped, Waits;
            138 FSTATFS fstatfs(Fd, Pointer) Int, Shipped, Waits;
            139 SYSFS sysfs(Unknown) Int, Absent, Waits;
            140 GETPRIORITY getpriority(PRIO, Int) Int, AtOnce, Waits;
            141 SETPRIORITY setpriority(PRIO, Int, Int) Int, AtOnce, Waits "remembered, without effect";
            142 SCHED_SETPARAM sched_setparam(Int, Pointer) Int, AtOnce, Waits "priority 0 only";
            143 SCHED_GETPARAM sched_getparam(Int, Pointer) Int, AtOnce, Waits;
            144 SCHED_SETSCHEDULER sched_setscheduler(Int, SCHED, Pointer) Int, AtOnce, Waits
                "`SCHED_OTHER`, `SCHED_BATCH` and `SCHED_IDLE`, remembered, without effect; real-time policies \
                 are `EPERM`";
            145 SCHED_GETSCHEDULER sched_getscheduler(Int) Int, AtOnce, Waits;
            146 SCHED_GET_PRIORITY_MAX sched_get_priority_max(SCHED) Int, AtOnce, Waits;
            147 SCHED_GET_PRIORITY_MIN sched_get_priority_min(SCHED) Int, AtOnce, Waits;
            148 SCHED_RR_GET_INTERVAL sched_rr_get_interval(Int, Pointer) Int, AtOnce, Waits "says 0";
            149 MLOCK mlock(Pointer, Size) Int, AtOnce, Waits "looks at the range only: no page leaves memory";
            150 MUNLOCK munlock(Pointer, Size) Int, AtOnce, Waits "as mlock";
            151 MLOCKALL mlockall(MCL) Int, AtOnce, Waits "changes nothing";
            152 MUNLOCKALL munlockall() Int, AtOnce, Waits "changes nothing";
            153 VHANGUP vhangup(Unknown) Int, Absent, Waits;
            154 MODIFY_LDT modify_ldt(Unknown) Int, Absent, Waits;
            155 PIVOT_ROOT pivot_root(Unknown) Int, Absent, Waits;
            156 SYSCTL _sysctl(Unknown) Int, Absent, Waits;
            157 PRCTL prctl(PRCTL, OfPrctl(1), OfPrctl(2), OfPrctl(3), OfPrctl(4)) Int, AtOnce, Waits
                "names, and what is asked and remembered (death signal, dumpable, capabilities to keep, slack, no \
                 new privileges …), without effect; no seccomp, no `PR_SET_MM`";
            158 ARCH_PRCTL arch_prctl(ARCH, Pointer) Int, Registers, Waits
                "the segment bases; `EINVAL` for CPUID faulting and the rest";
            159 ADJTIMEX adjtimex(Unknown) Int, Absent, Waits;
            160 SETRLIMIT setrlimit(RLIMIT, Pointer) Int, AtOnce, Waits;
            161 CHROOT chroot(Unknown) Int, Absent, Waits;
            162 SYNC sync() Int, AtOnce, Waits "changes nothing";
            163 ACCT acct(Unknown) Int, Absent, Waits;
            164 SETTIMEOFDAY settimeofday(Pointer, Pointer) Int, Refused(EPERM), Waits;
            165 MOUNT mount(Unknown) Int, Absent, Waits;
            166 UMOUNT2 umount2(Unknown) Int, Absent, Waits;
            167 SWAPON swapon(Unknown) Int, Absent, Waits;
            168 SWAPOFF swapoff(Unknown) Int, Absent, Waits;
            169 REBOOT reboot(Unknown) Int, Absent, Waits;
            170 SETHOSTNAME sethostname(In(1), Size) Int, Refused(EPERM), Waits;
            171 SETDOMAINNAME setdomainname(In(1), Size) Int, Refused(EPERM), Waits;
            172 IOPL iopl(Unknown) Int, Absent, Waits;
            173 IOPERM ioperm(Unknown) Int, Absent, Waits;
            174 CREATE_MODULE create_module(Unknown) Int, Absent, Waits;
            175 INIT_MODULE init_module(Unknown) Int, Absent, Waits;
            176 DELETE_MODULE delete_module(Unknown) Int, Absent, Waits;
            177 GET_KERNEL_SYMS get_kernel_syms(Unknown) Int, Absent, Waits;
            178 QUERY_MODULE query_module(Unknown) Int, Absent, Waits;
            179 QUOTACTL quotactl(Unknown) Int, Absent, Waits;
            180 NFSSERVCTL nfsservctl(Unknown) Int, Absent, Waits;
            181 GETPMSG getpmsg(Unknown) Int, Absent, Waits;
            182 PUTPMSG putpmsg(Unknown) Int, Absent, Waits;
            183 AFS_SYSCALL afs_syscall(Unknown) Int, Absent, Waits;
            184 TUXCALL tuxcall(Unknown) Int, Absent, Waits;
            185 SECURITY security(Unknown) Int, Absent, Waits;
            186 GETTID gettid() Int, Fact, Waits;
            187 READAHEAD readahead(Fd, Long, Size) Int, AtOnce, Waits "taken, without effect";
            188 SETXATTR setxattr(Path, Path, Pointer, Size, Hex) Int, Refused(EOPNOTSUPP), Waits;
            189 LSETXATTR lsetxattr(Path, Path, Pointer, Size, Hex) Int, Refused(EOPNOTSUPP), Waits;
            190 FSETXATTR fsetxattr(Fd, Path, Pointer, Size, Hex) Int, Refused(EOPNOTSUPP), Waits;
            191 GETXATTR getxattr(Path, Path, Pointer, Size) Int, Refused(EOPNOTSUPP), Waits;
            192 LGETXATTR lgetxattr(Path, Path, Pointer, Size) Int, Refused(EOPNOTSUPP), Waits;
            193 FGETXATTR fgetxattr(Fd, Path, Pointer, Size) Int, Refused(EOPNOTSUPP), Waits;
            194 LISTXATTR listxattr(Path, Pointer, Size) Int, Refused(EOPNOTSUPP), Waits;
            195 LLISTXATTR llistxattr(Path, Pointer, Size) Int, Refused(EOPNOTSUPP), Waits;
            196 FLISTXATTR flistxattr(Fd, Pointer, Size) Int, Refused(EOPNOTSUPP), Waits;
            197 REMOVEXATTR removexattr(Path, Path) Int, Refused(EOPNOTSUPP), Waits;
            198 LREMOVEXATTR lremovexattr(Path, Path) Int, Refused(EOPNOTSUPP), Waits;
            199 FREMOVEXATTR fremovexattr(Fd, Path) Int, Refused(EOPNOTSUPP), Waits;
            200 TKILL tkill(Int, Signal) Int, AtOnce, Waits "threads of the process";
            201 TIME time(Pointer) Int, AtOnce, Waits;
            202 FUTEX futex(Pointer, FUTEX, Uint, OfFutex(3), OfFutex(4), OfFutex(5)) Int, Thread, RestartsUntimed
                "all but requeueing to locks with priorities and waiting for several; locks with priorities are \
                 handed on in order, without priorities";
            203 SCHED_SETAFFINITY sched_setaffinity(Int, Uint, Pointer) Int, AtOnce, Waits
                "within the cores of the rank";
            204 SCHED_GETAFFINITY sched_getaffinity(Int, Uint, Pointer) Int, AtOnce, Waits;
            205 SET_THREAD_AREA set_thread_area(Unknown) Int, Absent, Waits;
            206 IO_SETUP io_setup(Unknown) Int, Absent, Waits;
            207 IO_DESTROY io_destroy(Unknown) Int, Absent, Waits;
            208 IO_GETEVENTS io_getevents(Unknown) Int, Absent, Waits;
            209 IO_SUBMIT io_submit(Unknown) Int, Absent, Waits;
            210 IO_CANCEL io_cancel(Unknown) Int, Absent, Waits;
            211 GET_THREAD_AREA get_thread_area(Unknown) Int, Absent, Waits;
            212 LOOKUP_DCOOKIE lookup_dcookie(Unknown) Int, Absent, Waits;
            213 EPOLL_CREATE epoll_create(Int) Fd, AtOnce, Waits;
            214 EPOLL_CTL_OLD epoll_ctl_old(Unknown) Int, Absent, Waits;
            215 EPOLL_WAIT_OLD epoll_wait_old(Unknown) Int, Absent, Waits;
            216 REMAP_FILE_PAGES remap_file_pages(Unknown) Int, Absent, Waits;
            217 GETDENTS64 getdents64(Fd, Pointer, Size) Int, Shipped, Waits;
            218 SET_TID_ADDRESS set_tid_address(Pointer) Int, AtOnce, Waits;
            219 RESTART_SYSCALL restart_syscall(Unknown) Int, Absent, Waits;
            220 SEMTIMEDOP semtimedop(Unknown) Int, Absent, Waits;
            221 FADVISE64 fadvise64(Fd, Long, Size, FADV) Int, AtOnce, Waits "taken, without effect";
            222 TIMER_CREATE timer_create(CLOCK, Pointer, Pointer) Int, AtOnce, Waits;
            223 TIMER_SETTIME timer_settime(Int, TIMER, Pointer, Pointer) Int, AtOnce, Waits;
            224 TIMER_GETTIME timer_gettime(Int, Pointer) Int, AtOnce, Waits;
            225 TIMER_GETOVERRUN timer_getoverrun(Int) Int, AtOnce, Waits;
            226 TIMER_DELETE timer_delete(Int) Int, AtOnce, Waits;
            227 CLOCK_SETTIME clock_settime(CLOCK, Time) Int, Refused(EPERM), Waits;
            228 CLOCK_GETTIME clock_gettime(CLOCK, Pointer) Int, AtOnce, Waits;
            229 CLOCK_GETRES clock_getres(CLOCK, Pointer) Int, AtOnce, Waits "says 1 ns, of coarse clocks too";
            230 CLOCK_NANOSLEEP clock_nanosleep(CLOCK, TIMER, Time, Pointer) Int, Node, Fails;
            231 EXIT_GROUP exit_group(Int) Never, AtOnce, Waits;
            232 EPOLL_WAIT epoll_wait(Fd, Pointer, Int, Int) Int, Tried, Fails;
            233 EPOLL_CTL epoll_ctl(Fd, EPOLL, Fd, Pointer) Int, AtOnce, Waits "exclusive waiting wakes all";
            234 TGKILL tgkill(Int, Int, Signal) Int, AtOnce, Waits "threads of the process";
            235 UTIMES utimes(Path, Pointer) Int, Shipped, Waits;
            236 VSERVER vserver(Unknown) Int, Absent, Waits;
            237 MBIND mbind(Unknown) Int, Absent, Waits;
            238 SET_MEMPOLICY set_mempolicy(Unknown) Int, Absent, Waits;
            239 GET_MEMPOLICY get_mempolicy(Unknown) Int, Absent, Waits;
            240 MQ_OPEN mq_open(Unknown) Int, Absent, Waits;
            241 MQ_UNLINK mq_unlink(Unknown) Int, Absent, Waits;
            242 MQ_TIMEDSEND mq_timedsend(Unknown) Int, Absent, Waits;
            243 MQ_TIMEDRECEIVE mq_timedreceive(Unknown) Int, Absent, Waits;
            244 MQ_NOTIFY mq_notify(Unknown) Int, Absent, Waits;
            245 MQ_GETSETATTR mq_getsetattr(Unknown) Int, Absent, Waits;
            246 KEXEC_LOAD kexec_load(Unknown) Int, Absent, Waits;
            247 WAITID waitid(Int, Int, Pointer, Int, Pointer) Int, Refused(ECHILD), Waits;
            248 ADD_KEY add_key(Unknown) Int, Absent, Waits;
            249 REQUEST_KEY request_key(Unknown) Int, Absent, Waits;
            250 KEYCTL keyctl(Unknown) Int, Absent, Waits;
            251 IOPRIO_SET ioprio_set(Int, Int, Int) Int, AtOnce, Waits "remembered, without effect";
            252 IOPRIO_GET ioprio_get(Int, Int) Int, AtOnce, Waits;
            253 INOTIFY_INIT inotify_init(Unknown) Int, Absent, Waits;
            254 INOTIFY_ADD_WATCH inotify_add_watch(Unknown) Int, Absent, Waits;
            255 INOTIFY_RM_WATCH inotify_rm_watch(Unknown) Int, Absent, Waits;
            256 MIGRATE_PAGES migrate_pages(Unknown) Int, Absent, Waits;
            257 OPENAT openat(At, Path, OPEN, NewMode(2)) Fd, Shipped, Waits "as open";
            258 MKDIRAT mkdirat(At, Path, Mode) Int, Shipped, Waits;
            259 MKNODAT mknodat(Unknown) Int, Absent, Waits;
            260 FCHOWNAT fchownat(At, Path, Int, Int, AT) Int, Shipped, Waits "as chown";
            261 FUTIMESAT futimesat(Unknown) Int, Absent, Waits;
            262 NEWFSTATAT newfstatat(At, Path, Pointer, AT) Int, Shipped, Waits;
            263 UNLINKAT unlinkat(At, Path, AT_REMOVE) Int, Shipped, Waits;
            264 RENAMEAT renameat(At, Path, At, Path) Int, Shipped, Waits;
            265 LINKAT linkat(At, Path, At, Path, AT_FOLLOW) Int, Shipped, Waits;
            266 SYMLINKAT symlinkat(Path, At, Path) Int, Shipped, Waits;
            267 READLINKAT readlinkat(At, Path, Out, Size) Int, Shipped, Waits;
            268 FCHMODAT fchmodat(At, Path, Mode) Int, Shipped, Waits "as chmod";
            269 FACCESSAT faccessat(At, Path, ACCESS) Int, Shipped, Waits;
            270 PSELECT6 pselect6(Int, Pointer, Pointer, Pointer, Time, Pointer) Int, Node, Fails;
            271 PPOLL ppoll(Pointer, Uint, Time, Set, Size) Int, Node, Fails;
            272 UNSHARE unshare(Unknown) Int, Absent, Waits;
            273 SET_ROBUST_LIST set_robust_list(Pointer, Size) Int, AtOnce, Waits;
            274 GET_ROBUST_LIST get_robust_list(Int, Pointer, Pointer) Int, AtOnce, Waits;
            275 SPLICE splice(Fd, Pointer, Fd, Pointer, Size, SPLICE) Int, Shipped, RestartsUntimed
                "bytes are copied; a message of a datagram socket is not taken";
            276 TEE tee(Fd, Fd, Size, SPLICE) Int, Node, RestartsUntimed;
            277 SYNC_FILE_RANGE sync_file_range(Fd, Long, Long, Hex) Int, Shipped, Waits "as fsync";
            278 VMSPLICE vmsplice(Fd, Pointer, Size, SPLICE) Int, Node, RestartsUntimed
                "bytes are copied: what is changed in memory later is not seen";
            279 MOVE_PAGES move_pages(Unknown) Int, Absent, Waits;
            280 UTIMENSAT utimensat(At, Path, Pointer, AT) Int, Shipped, Waits;
            281 EPOLL_PWAIT epoll_pwait(Fd, Pointer, Int, Int, Set, Size) Int, Node, Fails;
            282 SIGNALFD signalfd(Fd, Pointer, Size) Fd, AtOnce, Waits "as signalfd4";
            283 TIMERFD_CREATE timerfd_create(CLOCK, NEW_TIMER) Fd, AtOnce, Waits
                "not the clocks that wake machines (`EPERM`)";
            284 EVENTFD eventfd(Uint) Fd, AtOnce, Waits;
            285 FALLOCATE fallocate(Fd, Hex, Long, Long) Int, Shipped, Waits "in `/dev/shm`: allocating only";
            286 TIMERFD_SETTIME timerfd_settime(Fd, TIMERFD, Pointer, Pointer) Int, AtOnce, Waits
                "`TFD_TIMER_CANCEL_ON_SET` is taken: clocks are not set";
            287 TIMERFD_GETTIME timerfd_gettime(Fd, Pointer) Int, AtOnce, Waits;
            288 ACCEPT4 accept4(Fd, Pointer, Pointer, SOCK_FLAGS) Fd, Node, RestartsUntimed;
            289 SIGNALFD4 signalfd4(Fd, Pointer, Size, NEW_SIGNAL) Fd, AtOnce, Waits
                "readiness is told of all threads of the process together";
            290 EVENTFD2 eventfd2(Uint, NEW_EVENT) Fd, AtOnce, Waits;
            291 EPOLL_CREATE1 epoll_create1(NEW_EPOLL) Fd, AtOnce, Waits;
            292 DUP3 dup3(Fd, Fd, NEW_FD) Fd, Tried, Waits;
            293 PIPE2 pipe2(Pair, NEW_FD) Int, AtOnce, Waits "without `O_NOTIFICATION_PIPE`";
            294 INOTIFY_INIT1 inotify_init1(Unknown) Int, Absent, Waits;
            295 PREADV preadv(Fd, OutIovec(2), Int, Long) Int, Shipped, Waits;
            296 PWRITEV pwritev(Fd, Iovec(2), Int, Long) Int, Shipped, Waits;
            297 RT_TGSIGQUEUEINFO rt_tgsigqueueinfo(Int, Int, Signal, Pointer) Int, AtOnce, Waits "as tkill";
            298 PERF_EVENT_OPEN perf_event_open(Unknown) Int, Absent, Waits;
            299 RECVMMSG recvmmsg(Fd, Pointer, Uint, MSG, Pointer) Int, Node, RestartsUntimed;
            300 FANOTIFY_INIT fanotify_init(Unknown) Int, Absent, Waits;
            301 FANOTIFY_MARK fanotify_mark(Unknown) Int, Absent, Waits;
            302 PRLIMIT64 prlimit64(Int, RLIMIT, Pointer, Pointer) Int, AtOnce, Waits;
            303 NAME_TO_HANDLE_AT name_to_handle_at(Unknown) Int, Absent, Waits;
            304 OPEN_BY_HANDLE_AT open_by_handle_at(Unknown) Int, Absent, Waits;
            305 CLOCK_ADJTIME clock_adjtime(Unknown) Int, Absent, Waits;
            306 SYNCFS syncfs(Fd) Int, Shipped, Waits "as fsync of the one file";
            307 SENDMMSG sendmmsg(Fd, Pointer, Uint, MSG) Int, Node, RestartsUntimed;
            308 SETNS setns(Unknown) Int, Absent, Waits;
            309 GETCPU getcpu(Pointer, Pointer, Pointer) Int, AtOnce, Waits;
            310 PROCESS_VM_READV process_vm_readv(Unknown) Int, Absent, Waits;
            311 PROCESS_VM_WRITEV process_vm_writev(Unknown) Int, Absent, Waits;
            312 KCMP kcmp(Unknown) Int, Absent, Waits;
            313 FINIT_MODULE finit_module(Unknown) Int, Absent, Waits;
            314 SCHED_SETATTR sched_setattr(Int, Pointer, Uint) Int, AtOnce, Waits "as sched_setscheduler";
            315 SCHED_GETATTR sched_getattr(Int, Pointer, Uint, Uint) Int, AtOnce, Waits;
            316 RENAMEAT2 renameat2(At, Path, At, Path, RENAME) Int, Shipped, Waits;
            317 SECCOMP seccomp(Unknown) Int, Absent, Waits;
            318 GETRANDOM getrandom(Pointer, Size, GRND) Int, Tried, Waits;
            319 MEMFD_CREATE memfd_create(Path, MFD) Fd, Node, Waits "without huge pages";
            320 KEXEC_FILE_LOAD kexec_file_load(Unknown) Int, Absent, Waits;
            321 BPF bpf(Unknown) Int, Absent, Waits;
            322 EXECVEAT execveat(Unknown) Int, Absent, Waits;
            323 USERFAULTFD userfaultfd(Unknown) Int, Absent, Waits;
            324 MEMBARRIER membarrier(Int, Hex) Int, AtOnce, Waits "all but restartable sequences";
            325 MLOCK2 mlock2(Pointer, Size, Uint) Int, AtOnce, Waits "as mlock";
            326 COPY_FILE_RANGE copy_file_range(Fd, Pointer, Fd, Pointer, Size, Hex) Int, Shipped, Waits;
            327 PREADV2 preadv2(Fd, OutIovec(2), Int, Long, Hex, RWF) Int, Shipped, RestartsUntimed
                "\"do not wait\" where nothing would have to come from the I/O node";
            328 PWRITEV2 pwritev2(Fd, Iovec(2), Int, Long, Hex, RWF) Int, Shipped, RestartsUntimed
                "not \"do not wait\"";
            329 PKEY_MPROTECT pkey_mprotect(Unknown) Int, Absent, Waits;
            330 PKEY_ALLOC pkey_alloc(Unknown) Int, Absent, Waits;
            331 PKEY_FREE pkey_free(Unknown) Int, Absent, Waits;
            332 STATX statx(At, Path, AT, STATX, Pointer) Int, Shipped, Waits
                "all that is known, whatever is asked; no mount ids";
            333 IO_PGETEVENTS io_pgetevents(Unknown) Int, Absent, Waits;
            334 RSEQ rseq(Pointer, Hex, Int, Hex) Int, Absent, Waits;
            424 PIDFD_SEND_SIGNAL pidfd_send_signal(Unknown) Int, Absent, Waits;
            425 IO_URING_SETUP io_uring_setup(Unknown) Int, Absent, Waits;
            426 IO_URING_ENTER io_uring_enter(Unknown) Int, Absent, Waits;
            427 IO_URING_REGISTER io_uring_register(Unknown) Int, Absent, Waits;
            428 OPEN_TREE open_tree(Unknown) Int, Absent, Waits;
            429 MOVE_MOUNT move_mount(Unknown) Int, Absent, Waits;
            430 FSOPEN fsopen(Unknown) Int, Absent, Waits;
            431 FSCONFIG fsconfig(Unknown) Int, Absent, Waits;
            432 FSMOUNT fsmount(Unknown) Int, Absent, Waits;
            433 FSPICK fspick(Unknown) Int, Absent, Waits;
            434 PIDFD_OPEN pidfd_open(Unknown) Int, Absent, Waits;
            435 CLONE3 clone3(Pointer, Size) Int, Absent, Waits;
            436 CLOSE_RANGE close_range(Uint, Uint, CLOSE_RANGE) Int, Tried, Waits;
            437 OPENAT2 openat2(At, Path, Pointer, Size) Fd, Shipped, Waits
                "ways of following a path are `ENOSYS`, but for \"no magic links\"";
            438 PIDFD_GETFD pidfd_getfd(Unknown) Int, Absent, Waits;
            439 FACCESSAT2 faccessat2(At, Path, ACCESS, AT) Int, Shipped, Waits;
            440 PROCESS_MADVISE process_madvise(Unknown) Int, Absent, Waits;
            441 EPOLL_PWAIT2 epoll_pwait2(Fd, Pointer, Int, Time, Set, Size) Int, Node, Fails;
            442 MOUNT_SETATTR mount_setattr(Unknown) Int, Absent, Waits;
            443 QUOTACTL_FD quotactl_fd(Unknown) Int, Absent, Waits;
            444 LANDLOCK_CREATE_RULESET landlock_create_ruleset(Unknown) Int, Absent, Waits;
            445 LANDLOCK_ADD_RULE landlock_add_rule(Unknown) Int, Absent, Waits;
            446 LANDLOCK_RESTRICT_SELF landlock_restrict_self(Unknown) Int, Absent, Waits;
            447 MEMFD_SECRET memfd_secret(Unknown) Int, Absent, Waits;
            448 PROCESS_MRELEASE process_mrelease(Unknown) Int, Absent, Waits;
            449 FUTEX_WAITV futex_waitv(Unknown) Int, Absent, Waits;
            450 SET_MEMPOLICY_HOME_NODE set_mempolicy_home_node(Unknown) Int, Absent, Waits;
            451 CACHESTAT cachestat(Unknown) Int, Absent, Waits;
            452 FCHMODAT2 fchmodat2(At, Path, Mode, AT) Int, Shipped, Waits "as chmod";
            453 MAP_SHADOW_STACK map_shadow_stack(Unknown) Int, Absent, Waits;
            454 FUTEX_WAKE futex_wake(Unknown) Int, Absent, Waits;
            455 FUTEX_WAIT futex_wait(Unknown) Int, Absent, Waits;
            456 FUTEX_REQUEUE futex_requeue(Unknown) Int, Absent, Waits;
            457 STATMOUNT statmount(Unknown) Int, Absent, Waits;
            458 LISTMOUNT listmount(Unknown) Int, Absent, Waits;
            459 LSM_GET_SELF_ATTR lsm_get_self_attr(Unknown) Int, Absent, Waits;
            460 LSM_SET_SELF_ATTR lsm_set_self_attr(Unknown) Int, Absent, Waits;
            461 LSM_LIST_MODULES lsm_list_modules(Unknown) Int, Absent, Waits;
            462 MSEAL mseal(Unknown) Int, Absent, Waits;
        }
    };
}
