//! The command line of `link`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use coppice_api::link::{self, LinkChange, Stations};

use super::Listing;
use crate::units::{parse_latency, parse_link_bandwidth, parse_loss};

#[derive(Debug, Args)]
#[command(after_help = "\
A link connects a node, named by its number, or the I/O node of a pset, io0, io1 and so on, to the cluster's switch. \
Without options its shape is shown, and what passed on it and was dropped. Options change what they name and leave the \
rest as it is; that stays until it is changed again or the cluster goes down, also when nodes are booted anew or the \
switch is replaced. `coppice up --bandwidth`, `--latency` and `--loss` say how links begin.\n\n\
A link that stays cut for more than some seconds loses its node; `coppice ras` lists cuts, and the node's end names \
them. Files that are staged (`coppice run --stage`) are sent as fast as the links of the job's nodes were when it \
started.\n\n\
A recording is written by the cluster's switch, with the rights of whoever brought the cluster up; it ends with \
--pcap-stop, at 1 GiB, or with the switch. Frames for which the disk is too slow are counted as missed.\n\n\
Examples:\n  \
    coppice link 2                              what it is like, and what passed on it\n  \
    coppice link 0-3,io0 --bandwidth 100M       a slow network\n  \
    coppice link 2 --loss 1% --direction to     node 2 does not get every frame\n  \
    coppice link 2 --cut                        and `--mend` later\n  \
    coppice link io0 --pcap traffic.pcap        for Wireshark or tcpdump -r")]
pub(crate) struct Link {
    /// Nodes and I/O nodes, such as 2, 0,3-5 or io0
    #[arg(value_name = "LIST", value_parser = parse_stations)]
    pub(crate) links: Stations,
    /// Bits per second, each way, such as 1G or 100M, or `none` for as fast as the host can
    #[arg(long, value_name = "RATE", value_parser = parse_link_bandwidth, help_heading = "Shape")]
    pub(crate) bandwidth: Option<link::Bandwidth>,
    /// How long a frame takes over it, each way, such as 50us or 2ms, at most 60s
    #[arg(long, value_name = "TIME", value_parser = parse_latency, help_heading = "Shape")]
    pub(crate) latency: Option<std::time::Duration>,
    /// Frames it loses, each way, such as 1% or 0.05%
    #[arg(long, value_name = "SHARE", value_parser = parse_loss, help_heading = "Shape")]
    pub(crate) loss: Option<u32>,
    /// Let nothing pass
    #[arg(long, conflicts_with = "mend", help_heading = "Shape")]
    pub(crate) cut: bool,
    /// Let frames pass again; bandwidth, latency and loss are as they were
    #[arg(long, help_heading = "Shape")]
    pub(crate) mend: bool,
    /// Change one way only: `to` the node or `from` it
    #[arg(long, value_enum, default_value_t = Direction::Both, help_heading = "Shape")]
    pub(crate) direction: Direction,
    /// Record what one node sends and what reaches it in this file; one that exists is replaced
    #[arg(long, value_name = "FILE", conflicts_with = "pcap_stop", help_heading = "Recording")]
    pub(crate) pcap: Option<PathBuf>,
    /// End the recording; the file has all of it when this is done
    #[arg(long, help_heading = "Recording")]
    pub(crate) pcap_stop: bool,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

/// Which way on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    /// To the node
    To,
    /// From the node
    From,
    /// Both ways
    Both,
}

impl Link {
    /// What is to be different about the links.
    pub(crate) fn change(&self) -> LinkChange {
        LinkChange {
            direction: match self.direction {
                Direction::To => link::Direction::To,
                Direction::From => link::Direction::From,
                Direction::Both => link::Direction::Both,
            },
            bandwidth: self.bandwidth,
            latency_ns: self.latency.map(|latency| u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)),
            loss_ppm: self.loss,
            cut: (self.cut || self.mend).then_some(self.cut),
        }
    }
}

fn parse_stations(text: &str) -> Result<Stations, String> {
    text.parse().map_err(|error: link::StationError| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use coppice_api::link::{Bandwidth, Direction, LinkChange};

    use super::Link;
    use crate::arguments::{Arguments, Command};

    fn link(arguments: &[&str]) -> Result<Link, String> {
        let all = ["coppice", "link"].iter().chain(arguments);
        match Arguments::try_parse_from(all).map_err(|error| error.to_string())?.command {
            Command::Link(link) => Ok(link),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_is_named_is_changed() {
        let change = |arguments: &[&str]| link(&[&["0"], arguments].concat()).expect("valid").change();
        let none = LinkChange::default();
        assert!(
            change(&[]).is_nothing() && change(&["--pcap", "x"]).is_nothing() && change(&["--pcap-stop"]).is_nothing()
        );
        assert_eq!(change(&["--cut"]), LinkChange { cut: Some(true), ..none });
        assert_eq!(change(&["--mend"]), LinkChange { cut: Some(false), ..none });
        assert_eq!(change(&["--bandwidth", "none"]), LinkChange { bandwidth: Some(Bandwidth::Unlimited), ..none });
        let all = ["--bandwidth", "10M", "--latency", "2ms", "--loss", "1%", "--direction", "from"];
        let expected = LinkChange {
            direction: Direction::From,
            bandwidth: Some(Bandwidth::BitsPerSecond(10_000_000)),
            latency_ns: Some(2_000_000),
            loss_ppm: Some(10_000),
            cut: None,
        };
        assert_eq!(change(&all), expected);
    }

    #[test]
    fn links_are_named_as_lists() {
        assert_eq!(link(&["0,3-4,io0"]).expect("valid").links.to_string(), "0,3,4,io0");
        for bad in [&["x"][..], &[], &["0", "1"], &["0,0"], &["-1"]] {
            assert!(link(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let cases: [(&[&str], &str); 6] = [
            (&["0", "--cut", "--mend"], "cannot be used with"),
            (&["0", "--pcap", "x", "--pcap-stop"], "cannot be used with"),
            (&["0", "--loss", "101%"], "give a share"),
            (&["0", "--latency", "61s"], "at most 60s"),
            (&["0", "--bandwidth", "0"], "bits per second"),
            (&["0", "--direction", "up"], "possible values"),
        ];
        for (arguments, words) in cases {
            let error = link(arguments).expect_err(words);
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
    }
}
