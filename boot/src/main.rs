//! PVH loader: from QEMU's `-kernel` to a `bootloader_api` entry point.
//!
//! QEMU enters at [`entry`] in 32-bit mode, with the address of a structure that says what the machine has
//! ([`start_info`]). The loader carries the kernel, an ELF file whose segments it maps where they lie ([`kernel`]); it
//! builds the page tables that the kernel's configuration asks for ([`tables`], [`layout`]), writes down what it did
//! ([`boot_info`]), and jumps ([`handover`]). Nothing of it is needed afterwards, so its memory is the kernel's too.
//!
//! All memory is used at its physical address while the loader runs: the first 4 GiB are mapped so.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod boot_info;
#[cfg(target_os = "none")]
mod console;
#[cfg(target_os = "none")]
mod entry;
#[cfg(target_os = "none")]
mod error;
#[cfg(target_os = "none")]
mod handover;
#[cfg(target_os = "none")]
mod kernel;
#[cfg(target_os = "none")]
mod layout;
#[cfg(target_os = "none")]
mod load;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod start_info;
#[cfg(target_os = "none")]
mod tables;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the loader runs on nodes: see `cargo xtask build`");
}
