//! How failures are told: one line on standard error, and an exit status that programs do not use by accident.

use std::process::ExitCode;

use clap::error::ErrorKind;
use coppice_api::in_one_line;
use coppice_api::job::EXIT_COPPICE;

use crate::show::harmless;

/// Says what went wrong.
pub(crate) fn explain(error: &anyhow::Error) -> ExitCode {
    say(&in_one_line(error.as_ref()));
    ExitCode::from(EXIT_COPPICE)
}

/// Prints one line on standard error, with our name in front.
pub(crate) fn say(text: &str) {
    let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    let line = harmless(&line);
    // If standard error is gone nobody can be told.
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("coppice: {line}\n"));
}

/// Says what is wrong with the command line, or prints the help that was asked for.
pub(crate) fn explain_usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(EXIT_COPPICE)
        }
        _ => {
            say(&usage_line(&error.to_string()));
            ExitCode::from(EXIT_COPPICE)
        }
    }
}

/// The gist of clap's many lines.
fn usage_line(text: &str) -> String {
    let mut gist: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        if !line.is_empty() {
            gist.push(line.trim_start_matches("error: "));
        }
    }
    format!("{}; see `coppice --help`", gist.join(" "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::usage_line;
    use crate::arguments::Arguments;

    fn line(arguments: &[&str]) -> String {
        let error = Arguments::try_parse_from(["coppice"].iter().chain(arguments)).expect_err("wrong");
        usage_line(&error.to_string())
    }

    #[test]
    fn usage_errors_are_one_line_that_says_what_is_wrong() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["up", "--nodes", "0"], &["--nodes", "0", "1..=16384"]),
            (&["up", "--memory", "3"], &["--memory", "64M"]),
            (&["up", "--accel", "xen"], &["--accel", "auto", "tcg", "kvm"]),
            (&["runn"], &["runn", "run"]),
            (&["run"], &["PROGRAM"]),
            (&["run", "--bogus", "p"], &["--bogus"]),
            (&["run", "-n", "x", "p"], &["--ranks", "x"]),
            (&["run", "--nodes-list", "1,1", "p"], &["--nodes-list", "node 1 is named twice"]),
            (&["run", "--estimate", "0", "p"], &["--estimate", "0.001"]),
            (&["forget", "a", "b"], &["b"]),
            (&["kill", "x"], &["JOB", "x"]),
            (&["kill", "1", "--signal", "NO"], &["TERM"]),
            (&["--cluster", "a/b", "down"], &["a/b", "name"]),
        ];
        for (arguments, words) in cases {
            let line = line(arguments);
            assert!(!line.contains('\n'), "{line}");
            for word in *words {
                assert!(line.contains(word), "no {word} in: {line}");
            }
        }
    }
}
