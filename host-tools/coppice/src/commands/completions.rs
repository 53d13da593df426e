//! `coppice completions`.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::arguments::Arguments;
use crate::show::print;

pub(crate) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "coppice", &mut script);
    print(&String::from_utf8_lossy(&script))
}
