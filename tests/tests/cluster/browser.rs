//! The dashboard in a browser, as people see and use it.

mod live;
mod looked_into;
mod looks;
mod named;
mod pages;
mod strangers;
mod told;

use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::browser::Browser;
use coppice_tests::cluster::wait_until;
use coppice_tests::dashboard::Dashboard;
use coppice_tests::guests::{Toolchain, program};

/// How long a job may take to be so far.
const STATE_TIME_MAX: Duration = Duration::from_secs(60);

/// A cluster, and a browser that its dashboard has let in.
struct Visit {
    // Dropped in this order: nobody asks for what is gone.
    browser: Browser,
    dashboard: Dashboard,
    cluster: Cluster,
}

#[track_caller]
fn wait_for_state(cluster: &Cluster, job: &str, state: &str) {
    wait_until("the job to be so far", STATE_TIME_MAX, || {
        let view = cluster.json(&["job", job]);
        if view["state"] == state { Ok(()) } else { Err(view.to_string()) }
    });
}

impl Visit {
    #[track_caller]
    fn begin(nodes: u32) -> Self {
        let cluster = Cluster::up(nodes);
        let dashboard = Dashboard::start(&cluster);
        let browser = Browser::start();
        browser.open(dashboard.address());
        assert_eq!(browser.address(), dashboard.page("/"));
        Self { browser, dashboard, cluster }
    }

    #[track_caller]
    fn open(&self, path: &str) {
        self.browser.open(&self.dashboard.page(path));
    }

    /// Runs a job of which there is all that a page can show, to its end.
    #[track_caller]
    fn run_profiled(&self) -> String {
        let path = program("profiled", Toolchain::Glibc);
        let run = ["--overlay=5", "--sample", "200", "--keep-output", "-n", "2", &path.to_string_lossy(), "1500"];
        let _ = self.cluster.run(&run).success();
        self.cluster.last_job()["job"].to_string()
    }

    /// Starts one that goes on by itself, on that many nodes, and writes a line each 100 ms.
    #[track_caller]
    fn start_endless(&self, ranks: u32) -> String {
        let path = program("goes_on", Toolchain::Glibc);
        let (path, ranks) = (path.to_string_lossy(), ranks.to_string());
        let run = ["run", "--detach", "--overlay=5", "-n", &ranks, &path, "1000000", "/lines.txt", "100"];
        self.cluster.coppice(&run).success().text().trim().to_owned()
    }

    /// No script failed, nothing was tried that pages may not, and nothing came from elsewhere; gives the addresses
    /// that were asked for.
    #[track_caller]
    fn assert_nothing_strange(&self) -> Vec<String> {
        assert_eq!(self.browser.complaints(), []);
        let own = self.dashboard.page("/");
        let requests = self.browser.requests();
        let elsewhere: Vec<_> =
            requests.iter().filter(|address| !address.starts_with(&own) && !address.starts_with("data:")).collect();
        assert!(!requests.is_empty() && elsewhere.is_empty(), "{elsewhere:?}");
        requests
    }
}
