//! The links of a cluster, looked at and changed without a command's being started for it: a node that a test has cut
//! off is lost after some seconds, however long that test is kept waiting by its host.

use std::time::Duration;

use coppice_api::link::{LinkChange, LinkOrder, LinkView, LinksQuery, LinksView};
use coppice_api::{ApiError, Client, ClusterName, ClusterPaths};

use crate::cluster::{Cluster, wait_until};

/// How long something may take to pass a link.
const PASSES_TIME_MAX: Duration = Duration::from_secs(300);

impl Cluster {
    /// Links as `coppice link` names them, and what passed on each until now.
    ///
    /// # Panics
    /// If there is no such link, or nobody says it.
    #[must_use]
    #[track_caller]
    pub fn links(&self, links: &str) -> Vec<LinkView> {
        let links = Some(links.parse().expect("links"));
        self.ask(async |client| client.links(&LinksQuery { links }).await).links
    }

    /// Bytes of frames that a node's link has carried to it.
    ///
    /// # Panics
    /// As [`Self::links`].
    #[must_use]
    #[track_caller]
    pub fn bytes_to(&self, node: u32) -> u64 {
        self.links(&node.to_string())[0].to.counters.bytes
    }

    /// Waits until a node's link has carried so many bytes to it.
    ///
    /// # Panics
    /// As [`Self::links`], and if it never has.
    #[track_caller]
    pub fn wait_for_bytes_to(&self, node: u32, bytes: u64) {
        wait_until("a link has carried a part of a file", PASSES_TIME_MAX, || {
            let carried = self.bytes_to(node);
            if carried >= bytes { Ok(()) } else { Err(format!("{carried} of {bytes} bytes")) }
        });
    }

    /// Cuts links until a frame to each of them was lost by that, and mends them then.
    ///
    /// # Panics
    /// As [`Self::links`], and if none is sent.
    #[track_caller]
    pub fn cut_until_missed(&self, links: &str) {
        let order = |cut: bool| LinkOrder {
            links: links.parse().expect("links"),
            change: LinkChange { cut: Some(cut), ..LinkChange::default() },
            recording: None,
        };
        let before: Vec<u64> = self.links(links).iter().map(missed).collect();
        let _: LinksView = self.ask(async |client| client.change_links(&order(true)).await);
        wait_until("frames are lost by a cut", PASSES_TIME_MAX, || {
            let now: Vec<u64> = self.links(links).iter().map(missed).collect();
            let is_more = now.iter().zip(&before).all(|(now, before)| now > before);
            if is_more { Ok(()) } else { Err(format!("{now:?} frames, {before:?} before")) }
        });
        let _: LinksView = self.ask(async |client| client.change_links(&order(false)).await);
    }

    /// Asks the service node, as `coppice` does.
    ///
    /// # Panics
    /// If it refuses, or is not there.
    #[track_caller]
    pub fn ask<T>(&self, request: impl AsyncFnOnce(Client) -> Result<T, ApiError>) -> T {
        let name: ClusterName = "default".parse().expect("a name");
        let home = self.home_path();
        let variable = |name: &str| (name == "COPPICE_HOME").then(|| home.clone().into_os_string());
        let paths = ClusterPaths::find_with(name, variable, 0).expect("a cluster's directories");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(request(Client::new(paths))).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Frames to a station that were lost as its link was cut.
fn missed(link: &LinkView) -> u64 {
    link.to.counters.dropped.cut
}
