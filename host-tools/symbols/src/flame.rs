//! Flame graphs.

use std::io;

use inferno::flamegraph::{Options, from_lines};

use crate::profile::Profile;

impl Profile<'_> {
    /// A flame graph as SVG, which is the same for the same stacks.
    ///
    /// # Errors
    /// There is nothing to be drawn.
    pub fn flame_graph(&self, title: &str, subtitle: &str) -> io::Result<Vec<u8>> {
        let mut options = Options::default();
        options.title = title.to_owned();
        options.subtitle = Some(subtitle.to_owned());
        options.deterministic = true;
        let mut svg = Vec::new();
        from_lines(&mut options, self.folded().lines(), &mut svg)?;
        Ok(svg)
    }
}
