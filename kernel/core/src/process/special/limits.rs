//! `/proc/self/limits`.

use alloc::format;
use alloc::string::String;

use crate::process::Process;
use crate::process::resources::{INFINITY, Limit};

/// What the limits are, a line each.
pub(super) fn text(process: &Process) -> String {
    const ROWS: [(&str, &str); 16] = [
        ("Max cpu time", "seconds"),
        ("Max file size", "bytes"),
        ("Max data size", "bytes"),
        ("Max stack size", "bytes"),
        ("Max core file size", "bytes"),
        ("Max resident set", "bytes"),
        ("Max processes", "processes"),
        ("Max open files", "files"),
        ("Max locked memory", "bytes"),
        ("Max address space", "bytes"),
        ("Max file locks", "locks"),
        ("Max pending signals", "signals"),
        ("Max msgqueue size", "bytes"),
        ("Max nice priority", ""),
        ("Max realtime priority", ""),
        ("Max realtime timeout", "us"),
    ];
    let value = |value: u64| if value == INFINITY { String::from("unlimited") } else { format!("{value}") };
    let row = |(resource, (name, unit)): (usize, &(&str, &str))| {
        let limit = process.limits.get(resource as u32).unwrap_or(Limit { soft: 0, hard: 0 });
        format!("{name:<25} {:<20} {:<20} {unit:<10}\n", value(limit.soft), value(limit.hard))
    };
    let head = format!("{:<25} {:<20} {:<20} {:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    ROWS.iter().enumerate().map(row).fold(head, |all, row| all + &row)
}
