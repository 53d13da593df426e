//! The command line of `dashboard`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
It prints an address to go to with a browser on this host, and goes on until it is interrupted; the cluster may go and \
come. The address has a token in it, which lets whoever has it see and do what this tool can: it is new each time, \
and of no use afterwards. On another host, have ssh bring the port along.\n\nExamples:\n  \
    coppice dashboard --open        in the browser of this desktop\n  \
    coppice dashboard --port 8080   at an address that stays the same but for its token")]
pub(crate) struct Dashboard {
    /// Port of loopback; 0 is one that is free
    #[arg(long, value_name = "P", default_value_t = 0)]
    pub(crate) port: u16,
    /// Have the desktop's browser go there
    #[arg(long)]
    pub(crate) open: bool,
}
