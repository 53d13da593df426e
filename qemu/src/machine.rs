//! A machine as a value, and the QEMU command line it means.
//!
//! Every device is named: QEMU's defaults are off, so a machine has what is written here and nothing else. What a
//! compute node does not need (USB, SATA, PS/2 timers, SMM) is left out, because each costs start-up or idle time.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::arguments::{Arguments, Value};
use crate::processor::Processor;
use crate::region::{REGION_BYTES_MAX, Region};

/// I/O port of the device that ends the machine with a status; see [`crate::launch::Exit`].
pub const DEBUG_EXIT_PORT: u16 = 0xf4;

/// Translated code QEMU keeps per machine unless told otherwise, MiB. QEMU's own default is 1 GiB, too much for 32
/// machines on one host.
pub const TRANSLATION_CACHE_MIB_DEFAULT: u32 = 32;

/// Least memory of a machine, bytes.
pub const MEMORY_BYTES_MIN: u64 = 16 * MIB;

/// Most memory of a machine, bytes.
pub const MEMORY_BYTES_MAX: u64 = 1024 * 1024 * MIB;

/// Most processors of a machine.
pub const CPUS_MAX: u16 = 64;

const MIB: u64 = 1024 * 1024;

/// What executes the machine's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// QEMU's translator, which works everywhere.
    Tcg,
    /// The processor itself.
    Kvm,
}

impl std::fmt::Display for Accelerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tcg => "tcg",
            Self::Kvm => "kvm",
        })
    }
}

/// A machine to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What its process is called in lists of processes.
    pub name: String,
    /// Memory, bytes; a multiple of 1 MiB within [`MEMORY_BYTES_MIN`] and [`MEMORY_BYTES_MAX`].
    pub memory_bytes: u64,
    /// Processors, 1 to [`CPUS_MAX`].
    pub cpus: u16,
    /// Processors that its firmware lists, if those are more: the rest is not there.
    pub cpus_listed: Option<u16>,
    /// What executes its instructions.
    pub accelerator: Accelerator,
    /// The processor it has; without one all that the accelerator can do.
    pub processor: Option<Processor>,
    /// Registers that a device has which does nothing, bytes, a power of two. If they do not fit below 4 GiB, firmware
    /// puts them, and those of all devices that can be there, above.
    pub idle_registers_bytes: Option<u64>,
    /// The image that is entered first: an ELF with a PVH note.
    pub kernel: PathBuf,
    /// A file the image finds in memory.
    pub initrd: Option<PathBuf>,
    /// A file that it sees as memory, and that outlives it.
    pub region: Option<Region>,
    /// Its network interface.
    pub nic: Option<Nic>,
    /// Where its serial line goes.
    pub serial: Serial,
    /// Where QMP is offered.
    pub qmp: QmpChannel,
    /// The unix socket of a debugger, before which no processor runs.
    pub debugger: Option<PathBuf>,
    /// Make its clock count instructions, so that figures do not move with the host's load. Only under TCG.
    pub icount: bool,
    /// Translated code kept, MiB. Only under TCG.
    pub translation_cache_mib: u32,
    /// Confine QEMU with its seccomp filter.
    pub sandbox: bool,
}

/// A virtio network interface whose wire is a pair of unix datagram sockets, one frame per datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Largest packet behind the Ethernet header, bytes, which the guest is told.
    pub mtu: u16,
    /// The socket QEMU makes.
    pub local: PathBuf,
    /// The socket QEMU sends to.
    pub remote: PathBuf,
}

/// Where a serial line goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serial {
    /// Nowhere.
    Null,
    /// To QEMU's standard output, for its parent. Not together with [`QmpChannel::Stdio`].
    Stdio,
    /// Into a file.
    File {
        /// The file, made if it does not exist.
        path: PathBuf,
        /// Keep what it holds and write behind it.
        append: bool,
    },
}

/// Where QMP is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QmpChannel {
    /// Nowhere.
    None,
    /// On QEMU's standard input and output, which nobody but its parent has, and which leaves no file.
    Stdio,
    /// On a unix socket, for one client at a time.
    Socket(PathBuf),
}

/// Why a machine cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// Memory outside the limits or no multiple of 1 MiB.
    #[error("a machine cannot have {0} bytes of memory: give a whole number of MiB from 16 to 1048576")]
    Memory(u64),
    /// A region that is too long, of no length, or no multiple of 1 MiB.
    #[error(
        "a machine cannot have a region of {0} bytes: give a whole number of MiB from 1 to {max}",
        max = REGION_BYTES_MAX / MIB
    )]
    Region(u64),
    /// Number of processors outside the limits.
    #[error("a machine cannot have {0} processors: give 1 to {CPUS_MAX}")]
    Cpus(u16),
    /// Counting instructions needs the translator.
    #[error("instructions can be counted under tcg only, not under kvm")]
    IcountNeedsTcg,
    /// Only KVM can give a machine the host's own processor.
    #[error("the processor model 'host' needs kvm")]
    HostNeedsKvm,
    /// Two things on one channel.
    #[error("the serial line and QMP cannot both be on standard input and output")]
    StdioTwice,
    /// A socket path that does not fit a socket address.
    #[error("the socket path {} is longer than 107 bytes: use a directory with a shorter name", .0.display())]
    SocketPath(PathBuf),
}

impl Machine {
    /// A machine of one processor that enters `kernel`, without network, serial line or QMP.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        kernel: impl Into<PathBuf>,
        memory_bytes: u64,
        accelerator: Accelerator,
    ) -> Self {
        Self {
            name: name.into(),
            memory_bytes,
            cpus: 1,
            cpus_listed: None,
            accelerator,
            processor: None,
            idle_registers_bytes: None,
            kernel: kernel.into(),
            initrd: None,
            region: None,
            nic: None,
            serial: Serial::Null,
            qmp: QmpChannel::None,
            debugger: None,
            icount: false,
            translation_cache_mib: TRANSLATION_CACHE_MIB_DEFAULT,
            sandbox: true,
        }
    }

    /// Files that QEMU makes for this machine and that are worthless once it ended: its sockets.
    #[must_use]
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let nic = self.nic.iter().map(|nic| nic.local.clone());
        let qmp = match &self.qmp {
            QmpChannel::Socket(path) => Some(path.clone()),
            QmpChannel::None | QmpChannel::Stdio => None,
        };
        nic.chain(qmp).chain(self.debugger.clone()).collect()
    }

    /// QEMU's arguments for this machine, without the program itself.
    ///
    /// # Errors
    /// What is wrong with the machine as described.
    pub fn arguments(&self) -> Result<Vec<OsString>, MachineError> {
        self.check()?;
        let mut arguments = Arguments(Vec::new());
        // No monitor, network, display, floppy or CD drive that is not asked for, and no file of the user's choosing.
        arguments.flag("-nodefaults").flag("-no-user-config").flag("-no-reboot");
        arguments.option("-display", "none");
        arguments.option("-name", Value::new(&self.name));
        self.processor(&mut arguments);
        arguments.option("-m", self.memory());
        arguments.path("-kernel", &self.kernel);
        if let Some(initrd) = &self.initrd {
            arguments.path("-initrd", initrd);
        }
        self.channels(&mut arguments);
        arguments.option("-device", format!("isa-debug-exit,iobase={DEBUG_EXIT_PORT:#x},iosize=0x04"));
        if let Some(nic) = &self.nic {
            nic.arguments(&mut arguments);
        }
        if let Some(region) = &self.region {
            region.arguments(&mut arguments);
        }
        if let Some(bytes) = self.idle_registers_bytes {
            arguments.option("-device", format!("pci-testdev,membar={bytes}"));
        }
        if self.sandbox {
            // Spawning is refused, becoming someone else too: QEMU has no helper to start here.
            arguments.option("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
        }
        Ok(arguments.0)
    }

    fn check(&self) -> Result<(), MachineError> {
        if !(MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&self.memory_bytes) || !self.memory_bytes.is_multiple_of(MIB)
        {
            return Err(MachineError::Memory(self.memory_bytes));
        }
        if let Some(region) = self.region.as_ref().filter(|region| !region.fits()) {
            return Err(MachineError::Region(region.bytes));
        }
        if !(1..=CPUS_MAX).contains(&self.cpus) {
            return Err(MachineError::Cpus(self.cpus));
        }
        if self.icount && self.accelerator != Accelerator::Tcg {
            return Err(MachineError::IcountNeedsTcg);
        }
        if self.accelerator == Accelerator::Tcg && self.processor.as_ref().is_some_and(Processor::needs_host) {
            return Err(MachineError::HostNeedsKvm);
        }
        if self.serial == Serial::Stdio && self.qmp == QmpChannel::Stdio {
            return Err(MachineError::StdioTwice);
        }
        let remote = self.nic.iter().map(|nic| nic.remote.clone());
        match self.leftovers().into_iter().chain(remote).find(|path| path.as_os_str().len() > 107) {
            Some(path) => Err(MachineError::SocketPath(path)),
            None => Ok(()),
        }
    }

    /// Memory, with a slot for the region. QEMU itself adds to that what aligning it takes.
    fn memory(&self) -> String {
        let size = self.memory_bytes / MIB;
        match &self.region {
            Some(region) => format!("size={size}M,slots=1,maxmem={}M", size + region.bytes / MIB),
            None => format!("size={size}M"),
        }
    }

    fn processor(&self, arguments: &mut Arguments) {
        // graphics stays on, though there is no display: off makes the BIOS write to the serial line.
        arguments.option(
            "-machine",
            "q35,usb=off,sata=off,smbus=off,smm=off,vmport=off,pit=off,hpet=off,dump-guest-core=off",
        );
        match self.accelerator {
            Accelerator::Tcg => {
                // A thread for each processor, unless they are to count instructions, which one thread does for all.
                let threads = if self.cpus > 1 && !self.icount { "multi" } else { "single" };
                let cache = self.translation_cache_mib;
                arguments.option("-accel", format!("tcg,thread={threads},tb-size={cache}"));
            }
            Accelerator::Kvm => {
                arguments.option("-accel", "kvm");
            }
        }
        let processor = self.processor.clone().unwrap_or_else(|| match self.accelerator {
            Accelerator::Tcg => Processor::everything(),
            Accelerator::Kvm => Processor::host(),
        });
        arguments.option("-cpu", processor.to_string());
        if self.icount {
            arguments.option("-icount", "shift=0");
        }
        let listed = self.cpus_listed.map(|listed| format!(",maxcpus={listed}")).unwrap_or_default();
        arguments.option("-smp", format!("cpus={}{listed}", self.cpus));
    }

    fn channels(&self, arguments: &mut Arguments) {
        match &self.serial {
            Serial::Null => {
                arguments.option("-serial", "null");
            }
            Serial::Stdio => {
                arguments.option("-chardev", "stdio,id=serial,signal=off").option("-serial", "chardev:serial");
            }
            Serial::File { path, append } => {
                let append = if *append { "on" } else { "off" };
                arguments.option(
                    "-chardev",
                    Value::text("file,id=serial,path=").path(path).and(&format!(",append={append}")),
                );
                arguments.option("-serial", "chardev:serial");
            }
        }
        if let Some(path) = &self.debugger {
            let socket = Value::text("socket,id=debugger,path=").path(path).and(",server=on,wait=off");
            arguments.option("-chardev", socket).option("-gdb", "chardev:debugger").flag("-S");
        }
        match &self.qmp {
            QmpChannel::None => return,
            QmpChannel::Stdio => arguments.option("-chardev", "stdio,id=qmp,signal=off"),
            QmpChannel::Socket(path) => {
                arguments.option("-chardev", Value::text("socket,id=qmp,path=").path(path).and(",server=on,wait=off"))
            }
        };
        arguments.option("-mon", "chardev=qmp,mode=control");
    }
}

impl Nic {
    fn arguments(&self, arguments: &mut Arguments) {
        let wire = Value::text("dgram,id=wire,local.type=unix,local.path=").path(&self.local);
        arguments.option("-netdev", wire.and(",remote.type=unix,remote.path=").path(&self.remote));
        let [a, b, c, d, e, f] = self.mac;
        let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        // romfile= : no boot ROM to load. host_mtu tells the guest how long its frames may be.
        let mtu = self.mtu;
        arguments.option("-device", format!("virtio-net-pci,netdev=wire,mac={mac},romfile=,host_mtu={mtu}"));
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn node() -> Machine {
        let mut machine = Machine::new("node 3", "/lib/node.elf", 64 * MIB, Accelerator::Tcg);
        machine.initrd = Some("/run/a,b/personality".into());
        machine.nic = Some(Nic {
            mac: [2, 0, 10, 64, 0, 4],
            mtu: 9000,
            local: "/run/a,b/n3.sock".into(),
            remote: "/run/a,b/n3.sw".into(),
        });
        machine.serial = Serial::File { path: "/var/n3.log".into(), append: true };
        machine.qmp = QmpChannel::Socket("/run/n3.qmp".into());
        machine
    }

    /// One option per line.
    fn text(machine: &Machine) -> String {
        let arguments = machine.arguments().unwrap();
        let words = arguments.iter().map(|word| word.to_str().unwrap());
        words.fold(String::new(), |text, word| {
            let separator = if word.starts_with('-') { '\n' } else { ' ' };
            format!("{text}{separator}{word}")
        })
    }

    #[test]
    fn a_compute_node() {
        insta::assert_snapshot!(text(&node()));
    }

    #[test]
    fn a_counting_machine_with_qmp_on_stdio() {
        let mut machine = Machine::new("count", "k", 16 * MIB, Accelerator::Tcg);
        (machine.icount, machine.sandbox, machine.qmp) = (true, false, QmpChannel::Stdio);
        insta::assert_snapshot!(text(&machine));
    }

    #[test]
    fn several_processors_have_threads_of_their_own_unless_they_count() {
        let accelerator = |cpus, icount| {
            let mut machine = Machine::new("wide", "k", 64 * MIB, Accelerator::Tcg);
            (machine.cpus, machine.icount) = (cpus, icount);
            let text = text(&machine);
            assert!(text.contains(&format!("-smp cpus={cpus}\n")), "{text}");
            text.lines().find_map(|line| Some(line.strip_prefix("-accel ")?.to_owned())).unwrap()
        };
        assert_eq!(accelerator(1, false), "tcg,thread=single,tb-size=32");
        assert_eq!(accelerator(2, false), "tcg,thread=multi,tb-size=32");
        assert_eq!(accelerator(CPUS_MAX, true), "tcg,thread=single,tb-size=32");
    }

    #[test]
    fn a_kvm_machine() {
        let mut machine = Machine::new("fast", "k", 1024 * MIB, Accelerator::Kvm);
        (machine.cpus, machine.serial) = (2, Serial::Stdio);
        insta::assert_snapshot!(text(&machine));
    }

    #[test]
    fn a_machine_with_a_region() {
        let mut machine = node();
        machine.region = Some(Region { path: "/var/a,b/3".into(), bytes: 129 * MIB });
        insta::assert_snapshot!(text(&machine));
    }

    #[test]
    fn a_machine_with_a_processor_of_its_own() {
        let mut machine = node();
        (machine.processor, machine.idle_registers_bytes) = ("Haswell,-xsave".parse().ok(), Some(8192 * MIB));
        let text = text(&machine);
        assert!(text.contains("\n-cpu Haswell,-xsave\n"), "{text}");
        assert!(text.contains("-device pci-testdev,membar=8589934592"), "{text}");
    }

    #[test]
    fn a_machine_in_a_debugger_with_processors_that_are_not_there() {
        let mut machine = node();
        (machine.cpus, machine.cpus_listed, machine.debugger) = (2, Some(4), Some("/run/debugger".into()));
        let text = text(&machine);
        for part in
            ["-smp cpus=2,maxcpus=4\n", "socket,id=debugger,path=/run/debugger,server", "\n-gdb chardev", "\n-S\n"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(machine.leftovers().contains(&"/run/debugger".into()));
    }

    #[test]
    fn paths_are_any_bytes_and_only_commas_mean_something() {
        let mut machine = node();
        machine.serial = Serial::File { path: OsStr::from_bytes(b"/a,b\n\xff").into(), append: true };
        let arguments = machine.arguments().unwrap();
        let expected = OsStr::from_bytes(b"file,id=serial,path=/a,,b\n\xff,append=on");
        assert!(arguments.iter().any(|argument| argument == expected), "{arguments:?}");
    }

    #[test]
    fn machines_that_cannot_be() {
        let refused = |change: fn(&mut Machine)| {
            let mut machine = node();
            change(&mut machine);
            machine.arguments().unwrap_err()
        };
        assert_eq!(refused(|machine| machine.memory_bytes = 8 * MIB), MachineError::Memory(8 * MIB));
        assert_eq!(refused(|machine| machine.memory_bytes += 1), MachineError::Memory(64 * MIB + 1));
        assert_eq!(refused(|machine| machine.memory_bytes = u64::MAX), MachineError::Memory(u64::MAX));
        let region = |bytes| {
            let machine = Machine { region: Some(Region { path: "/3".into(), bytes }), ..node() };
            machine.arguments().map(drop)
        };
        for bytes in [0, MIB - 1, MIB + 1, REGION_BYTES_MAX + MIB, u64::MAX] {
            assert_eq!(region(bytes), Err(MachineError::Region(bytes)));
        }
        assert_eq!((region(MIB), region(REGION_BYTES_MAX)), (Ok(()), Ok(())));
        assert_eq!(refused(|machine| machine.cpus = 0), MachineError::Cpus(0));
        let counting_kvm = |machine: &mut Machine| (machine.icount, machine.accelerator) = (true, Accelerator::Kvm);
        assert_eq!(refused(counting_kvm), MachineError::IcountNeedsTcg);
        let host = |machine: &mut Machine| machine.processor = Some(Processor::host());
        assert_eq!(refused(host), MachineError::HostNeedsKvm);
        let twice = |machine: &mut Machine| (machine.serial, machine.qmp) = (Serial::Stdio, QmpChannel::Stdio);
        assert_eq!(refused(twice), MachineError::StdioTwice);
        let long = PathBuf::from("x".repeat(108));
        let long_path = |machine: &mut Machine| machine.qmp = QmpChannel::Socket("x".repeat(108).into());
        assert_eq!(refused(long_path), MachineError::SocketPath(long));
    }
}
