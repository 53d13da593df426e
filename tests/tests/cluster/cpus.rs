//! Processors that nodes may have: with and without what the kernel uses if it is there, and without what it needs.
//!
//! QEMU's translator has no PCID, x2APIC or invariant time-stamp counter: it leaves them away with a warning. The
//! others are there and not there at least once below. `COPPICE_TEST_CPUS=all` runs every model with every feature
//! added and taken away, which takes minutes.

use coppice_protocol::control::{ToIoNode, ToNode};
use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::rig::{self, Rig};

use crate::boot::boot_on;
use crate::guests::compare;

/// Models and features such that each of [`FEATURES`] is there and is not, and with it what depends on it.
const PAIRS: [&str; 8] = [
    // Neither XSAVE nor SMEP, SMAP, UMIP, FSGSBASE.
    "qemu64",
    "Nehalem,+pcid,+invtsc,+x2apic",
    // Fewer leaves of CPUID than any feature's.
    "Opteron_G1,level=5",
    "Haswell,-xsave,-pcid,-x2apic",
    "Skylake-Server,-fsgsbase,-umip",
    "EPYC,-smep,+umip",
    // The kernel cannot tell that it is emulated: SMAP is on.
    "max,-hypervisor,+smap",
    "max,-smap,-invtsc,-avx2",
];

/// QEMU's names of models that a node may be asked to have.
const MODELS: [&str; 6] = ["qemu64", "Nehalem", "Haswell", "Skylake-Server", "EPYC", "max"];

/// What the kernel uses if it is there.
const FEATURES: [&str; 8] = ["xsave", "fsgsbase", "smep", "smap", "umip", "invtsc", "x2apic", "pcid"];

/// A core of what nodes are for: real programs, files, threads, signals whose frames have vector registers, and vector
/// registers across page faults and waits.
fn runs_programs(processor: &str) {
    let cluster = Cluster::up_with(&["--nodes", "1", "--cores", "2", "--cpu", processor]);
    std::fs::write(cluster.root().join("data"), "thirteen byte").expect("a file");
    let ran = cluster.run(&["/bin/busybox", "sha256sum", "data"]).success();
    assert!(ran.text().starts_with("ca42efac"), "{processor}: {}", ran.text());
    for name in ["vectors", "signals", "threads_posix", "steps"] {
        compare(&cluster, name, Toolchain::Glibc, &[]);
    }
    // Not compared with the host: under some hypervisors the instruction never ends.
    let ran = cluster.run(&[program("int1", Toolchain::Glibc)]).success();
    assert_eq!(ran.text(), "signal 5 code 1 trap 1 behind 1\nwent on\n", "{processor}");
}

#[test]
fn programs_run_on_every_kind_of_processor() {
    if std::env::var_os("COPPICE_TEST_CPUS").is_none_or(|which| which != "all") {
        PAIRS.iter().for_each(|processor| runs_programs(processor));
        return;
    }
    for model in MODELS {
        runs_programs(model);
        for feature in FEATURES {
            runs_programs(&format!("{model},+{feature}"));
            runs_programs(&format!("{model},-{feature}"));
        }
    }
}

#[test]
fn what_a_processor_lacks_is_said() {
    let lacking = [
        ("max,-syscall", "SYSCALL"),
        ("max,-sse2", "SSE2"),
        ("max,-fxsr", "FXSR"),
        ("max,-apic", "APIC"),
        ("max,-tsc,-pat", "TSC, PAT"),
        ("max,-nx", "no-execute pages"),
        ("max,-lm", "64-bit mode"),
    ];
    for (processor, what) in lacking {
        let ran = boot_on(processor, "64M", None);
        assert!(ran.status > 2 && ran.status % 2 == 1, "{processor}: {ran:?}");
        assert!(ran.text().contains(what) && ran.text().contains("--cpu"), "{processor}: {}", ran.text());
        assert!(!ran.text().contains("fault"), "{processor}: {}", ran.text());
    }
}

#[test]
fn a_user_is_told_what_is_wrong_with_a_processor() {
    for (processor, why) in [
        ("max,-syscall", "the processor lacks SYSCALL"),
        ("NoSuchModel", "NoSuchModel"),
        ("max,+nosuchfeature", "nosuchfeature"),
        ("host", "needs kvm"),
        ("max,nonsense", "no feature"),
    ] {
        let cluster = Cluster::home();
        let ran = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1", "--cpu", processor]);
        assert_ne!(ran.status, 0, "{processor}: {ran:?}");
        assert!(ran.stderr.contains(why), "{processor}: {}", ran.stderr);
    }
}

/// Firmware puts registers with addresses of 64 bits above all memory if they do not fit below, and newer firmware if
/// there is memory above 4 GiB.
#[test]
fn a_card_with_registers_above_all_memory_works() {
    rig::run(async {
        let mut rig = Rig::boot_with_high_registers();
        let (control, _) = rig.connected().await;
        assert!(rig.registers().iter().any(|address| *address >= 4 << 30), "{:x?}", rig.registers());
        let hello = rig.add_program(&program("worked_p0", Toolchain::Bare));
        control.order(&ToNode::Launch(rig.launch(1, hello, false, &["7"]))).await;
        match control.next().await {
            Some(ToIoNode::Launched { .. }) => rig.wait_for_output("ready\n").await,
            other => panic!("{other:?} for a launch"),
        }
    });
}
