//! `cargo xtask figures`: draws the pictures in docs/figures that have a source in the tree. Those that show
//! measurements are drawn by what measures (`cargo xtask bench GROUP --plot`).

mod recording;

use anyhow::{Context, Result, bail};

use crate::command::{command, output, root};
use crate::{build, setup};

/// The picture of the whole: its source, and what is drawn from it.
const SOURCE: &str = "docs/figures/whole.dot";
const WHOLE: &str = "docs/figures/whole.svg";

/// The quick start: what a terminal showed of it, as a player has it and as a picture that moves.
const CAST: &str = "docs/figures/quick-start.cast";
const QUICK_START: &str = "docs/figures/quick-start.svg";

/// Draws all of them.
///
/// # Errors
/// If something is missing that cannot be installed, or something cannot be drawn.
pub(crate) fn run() -> Result<()> {
    setup::for_figures()?;
    setup::for_run()?;
    whole()?;
    let built = build::everything()?;
    let recorded = recording::record(&built)?;
    std::fs::write(root().join(CAST), recorded.cast()?)?;
    std::fs::write(root().join(QUICK_START), recorded.svg())?;
    eprintln!("wrote {WHOLE}, {CAST} and {QUICK_START}");
    Ok(())
}

/// Draws the whole. The picture has its source in it, so that it is seen when it is not drawn from that.
fn whole() -> Result<()> {
    let source = std::fs::read_to_string(root().join(SOURCE)).context(SOURCE)?;
    let drawn = output(&mut command("dot", &["-Tsvg", SOURCE]))?;
    let (_, picture) = drawn.split_once("<svg").context("dot drew no SVG")?;
    std::fs::write(root().join(WHOLE), format!("<!--\n{source}-->\n<svg{picture}\n")).context(WHOLE)
}

/// What is not as it should be: a picture that was drawn from another source.
pub(crate) fn complaints() -> Result<Vec<String>> {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).with_context(|| name.to_owned());
    let (source, picture) = (read(SOURCE)?, read(WHOLE)?);
    if source.contains("--") {
        bail!("{SOURCE}: `--` may not be in what the picture has in it as a comment");
    }
    let is_of = picture.strip_prefix("<!--\n").is_some_and(|rest| rest.starts_with(&source));
    Ok(if is_of { vec![] } else { vec![format!("{WHOLE} is not drawn from {SOURCE}: cargo xtask figures")] })
}
