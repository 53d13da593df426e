//! What shows that something takes its time: on standard error, and only if that is a terminal.

pub(crate) mod staging;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often a spinner turns.
const TURN: Duration = Duration::from_millis(100);

/// A bar that counts up to `total`.
pub(crate) fn bar(total: u64, what: String) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(what);
    bar.set_style(style("{spinner} {msg} {wide_bar} {pos}/{len} {elapsed}"));
    bar.enable_steady_tick(TURN);
    bar
}

/// A bar that counts bytes up to `total`.
pub(crate) fn bytes(total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    bar.set_style(style("{spinner} {msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {elapsed}"));
    bar.enable_steady_tick(TURN);
    bar
}

/// A spinner with a text.
pub(crate) fn spinner(what: String) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(what);
    spinner.set_style(style("{spinner} {msg} {elapsed}"));
    spinner.enable_steady_tick(TURN);
    spinner
}

fn style(template: &str) -> ProgressStyle {
    // The templates above are valid; the default would do as well.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
