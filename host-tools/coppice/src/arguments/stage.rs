//! The command line of `stage`.

use std::path::PathBuf;

use clap::Args;

use super::Listing;
use super::run::{NodesList, parse_nodes};

#[derive(Debug, Args)]
#[command(after_help = "\
FILE is sent to the nodes as it is now, from node to node, and stays in their memory without a job, until that is \
wanted for something else: then what was used longest ago goes first, programs' pages and files alike. A job that \
names the same bytes with `run --stage` finds them there, wherever its FILE lies and whatever it is called; as long as \
it runs they are its memory, and stay. `programs` shows which nodes have it, `forget` has it given back, and a reboot \
ends it.\n\n\
A bar shows how far it is if it takes long and standard error is a terminal. Ctrl-C gives it up: nodes \
that have all of FILE keep it, others keep nothing of it.\n\n\
Exit status: 0 if all of the nodes have it, 125 if one does not; one line on standard error says which and why.\n\n\
Examples:\n  \
    coppice stage table.bin                      on all nodes that are up\n  \
    coppice stage table.bin --nodes 0,4-7        on these\n  \
    coppice run -n 4 --stage table.bin ./solve   finds it there\n  \
    coppice forget table.bin                     has it given back")]
pub(crate) struct Stage {
    /// The file, of this host
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Nodes that are to have it, such as 0,3-5, or `all` that are up
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = parse_stage_nodes)]
    pub(crate) nodes: StageNodes,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

/// Which nodes are to have a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StageNodes {
    /// All that are up.
    All,
    /// These.
    Listed(Vec<u32>),
}

fn parse_stage_nodes(text: &str) -> Result<StageNodes, String> {
    if text == "all" {
        return Ok(StageNodes::All);
    }
    parse_nodes(text).map(|NodesList(nodes)| StageNodes::Listed(nodes))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Stage, StageNodes};
    use crate::arguments::{Arguments, Command};

    fn stage(arguments: &[&str]) -> Stage {
        match Arguments::try_parse_from(["coppice", "stage"].iter().chain(arguments)).expect("valid").command {
            Command::Stage(stage) => stage,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nodes_are_all_or_those_that_are_named() {
        assert_eq!(stage(&["f"]).nodes, StageNodes::All);
        assert_eq!(stage(&["--nodes", "all", "f"]).nodes, StageNodes::All);
        assert_eq!(stage(&["f", "--nodes", "3,0-1"]).nodes, StageNodes::Listed(vec![3, 0, 1]));
        for bad in ["", "some", "1,1", "3-1"] {
            assert!(Arguments::try_parse_from(["coppice", "stage", "f", "--nodes", bad]).is_err(), "{bad}");
        }
    }
}
