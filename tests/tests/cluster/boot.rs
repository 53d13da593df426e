//! The boot image by itself: a machine that cannot be a node says why and ends with a status.

use std::process::Command;

use coppice_tests::cluster::{binaries, finish};

/// Boots the image as `coppiced` does, without a network and with this ramdisk.
fn boot(ramdisk: Option<&[u8]>) -> coppice_tests::Ran {
    boot_on("max", "64M", ramdisk)
}

/// The same on this processor, with so much memory.
pub(crate) fn boot_on(processor: &str, memory: &str, ramdisk: Option<&[u8]>) -> coppice_tests::Ran {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args(["-machine", "q35,accel=tcg", "-cpu", processor, "-m", memory, "-nodefaults", "-display", "none"])
        .args(["-no-reboot", "-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-kernel"])
        .arg(binaries().join("coppice-node.elf"))
        .stdin(std::process::Stdio::null());
    if let Some(bytes) = ramdisk {
        std::fs::write(file.path(), bytes).expect("write");
        command.arg("-initrd").arg(file.path());
    }
    finish(command)
}

#[test]
fn memory_above_4_gib_is_no_obstacle() {
    let ran = boot_on("max", "5G", None);
    assert!(ran.text().contains("personality") && !ran.text().contains("panic"), "{}", ran.text());
}

#[test]
fn no_personality_is_said_and_ends_the_machine() {
    for ramdisk in [None, Some(&b"not a personality"[..]), Some(b"COPPICE\x01\xff\xff")] {
        let ran = boot(ramdisk);
        // The exit device turns a status v into 2 v + 1.
        assert!(ran.status > 2 && ran.status % 2 == 1, "{ran:?}");
        assert!(ran.text().contains("cannot be a node"), "{}", ran.text());
        assert!(ran.text().contains("personality"), "{}", ran.text());
    }
}
