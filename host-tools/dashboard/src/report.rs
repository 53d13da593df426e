//! One file with all that is known of a job.

use askama::Template;
use coppice_api::show::show_time;

use crate::charts::ChartError;
use crate::job::Job;
use crate::matter::Matter;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A chart cannot be drawn.
    #[error(transparent)]
    Chart(#[from] ChartError),
    /// The page cannot be made.
    #[error("cannot make the page: {0}")]
    Page(#[from] askama::Error),
}

#[derive(Template)]
#[template(path = "report.html")]
struct Report<'a> {
    style: &'a str,
    job: &'a Job,
    version: &'a str,
    made: &'a str,
}

/// The page, HTML. Version `version` of the tool made it.
///
/// # Errors
/// [`ReportError`].
pub fn report(matter: &Matter, version: &str) -> Result<String, ReportError> {
    let job = Job::of(matter)?;
    let made = show_time(matter.evidence.now_ns);
    let page = Report { style: include_str!("../templates/style.css"), job: &job, version, made: &made };
    let mut text = page.render()?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::report;
    use crate::tests::{hostile, matter};

    #[test]
    fn all_that_is_known_is_on_the_page() {
        insta::assert_snapshot!(report(&matter(), "0.1.0").expect("made"));
    }

    /// Whatever programs and users name, there is no element of theirs on the page, no attribute and no script.
    #[test]
    fn nothing_that_a_program_names_is_more_than_text() {
        let page = report(&hostile(), "0.1.0").expect("made");
        for bad in ["<script", "<img src=x", "\u{1b}", "\u{202e}", "onerror=\"", "</pre><", "\0"] {
            assert!(!page.contains(bad), "{bad:?} in {page}");
        }
        assert!(page.contains("&#60;script"), "{page}");
    }
}
