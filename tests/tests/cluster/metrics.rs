//! Metrics of a cluster: a real Prometheus scrapes it, from its beginning to its end.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use coppice_tests::Cluster;
use coppice_tests::guests::BUSYBOX;
use coppice_tests::monitoring::{Prometheus, get};
use coppice_tests::talk::detach;

/// A name of a program that nobody should give, but may. Busybox does what its arguments say if its own name begins so.
const ODD_NAME: &str = "busybox \"odd\"\\\n{x=\"y\"} 1";

/// The port that a cluster has for metrics.
#[track_caller]
fn port(cluster: &Cluster) -> u16 {
    let url = cluster.coppice(&["metrics", "--url"]).success().text();
    let port = url.strip_prefix("http://127.0.0.1:").and_then(|url| url.strip_suffix("/metrics\n"));
    port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{url}"))
}

/// A port that nobody has, for now.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("bound").port()
}

#[test]
fn prometheus_sees_nodes_and_jobs_come_and_go() {
    let cluster = Cluster::up_with(&["--nodes", "2", "--metrics-port", "0"]);
    let prometheus = Prometheus::start(port(&cluster));
    prometheus.wait_for("up", "1");
    prometheus.wait_for("coppice_nodes{state=\"ready\"}", "2");
    prometheus.wait_for("sum(coppice_node_state{state=\"ready\"})", "2");
    prometheus.wait_for("coppice_node_memory_free_bytes{node=\"1\"} > bool 1000000", "1");
    std::fs::copy(BUSYBOX, cluster.root().join(ODD_NAME)).expect("copied");
    let program = Path::new(".").join(ODD_NAME).display().to_string();
    let arguments = ["--nodes-list", "1", &program, "sleep", "1000"].map(str::to_owned);
    let job = detach(&cluster, &arguments);
    prometheus.wait_for(&format!("coppice_job_state{{job_id=\"{job}\", state=\"running\"}}"), "1");
    prometheus.wait_for("coppice_nodes{state=\"busy\"}", "1");
    // It is shown as people are, on one line.
    prometheus.wait_for(r#"count(coppice_job_info{name=~"\\./busybox \"odd\".*x=\"y\".*"})"#, "1");
    prometheus.wait_for("coppice_process_resident_memory_bytes{process=\"coppiced\"} > bool 1000000", "1");
    prometheus.wait_for("coppice_process_resident_memory_bytes{process=\"io-node\"} > bool 1000000", "1");
    let _ = cluster.coppice(&["kill", &job.to_string()]).success();
    prometheus.wait_for("coppice_jobs_ended_total{how=\"ended\"}", "1");
    prometheus.wait_for("count(coppice_job_info) or vector(0)", "0");
    let _ = cluster.coppice(&["reboot", "1"]).success();
    prometheus.wait_for("coppice_node_boots_total{node=\"1\"}", "2");
    cluster.kill_process("coppice-fabric");
    prometheus.wait_for("coppice_process_restarts_total{process=\"fabric\"}", "1");
    prometheus.wait_for("coppice_ras_events_total{kind=\"io-node-lost\", severity=\"error\"} > bool 0", "1");
    let _ = cluster.coppice(&["down"]).success();
    prometheus.wait_for("up", "0");
}

#[test]
fn every_answer_is_whole_while_a_cluster_comes_up_and_goes_down() {
    let cluster = Cluster::home();
    let port = free_port();
    let mut texts = 0;
    std::thread::scope(|scope| {
        let life = scope.spawn(|| {
            let up = ["up", "--accel", "tcg", "--nodes", "4", "--metrics-port", &port.to_string()];
            let _ = cluster.coppice(&up).success();
            let _ = cluster.run(&["-n", "4", BUSYBOX, "true"]).success();
            let _ = cluster.coppice(&["down"]).success();
        });
        while !life.is_finished() {
            // One that is cut off by the cluster's end is seen as such.
            match get(port, "/metrics") {
                Ok((200, text)) => {
                    assert!(text.starts_with("# HELP ") && text.ends_with("\n# EOF\n"), "{text}");
                    texts += 1;
                }
                Ok((status, text)) => assert_eq!(status, 503, "{text}"),
                Err(_) => std::thread::yield_now(),
            }
        }
    });
    assert!(texts > 0, "it was never answered");
    cluster.assert_no_process_left();
}

#[test]
fn a_port_that_somebody_has_is_an_error_of_up() {
    let cluster = Cluster::home();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    let up = ["up", "--nodes", "1", "--accel", "tcg", "--metrics-port", &port];
    let _ = cluster.coppice(&up).refused(&[&port, "Address already in use", "--metrics-port"]);
    cluster.assert_no_process_left();
    drop(listener);
    let up = cluster.coppice(&up).success().text();
    assert!(up.ends_with(&format!(", metrics at http://127.0.0.1:{port}/metrics\n")), "{up}");
}

#[test]
fn metrics_are_printed_without_a_port_and_served_on_loopback_alone() {
    let silent = Cluster::up(1);
    let text = silent.coppice(&["metrics"]).success().text();
    assert!(text.contains("\ncoppice_nodes{state=\"ready\"} 1\n") && text.ends_with("\n# EOF\n"), "{text}");
    let _ = silent.coppice(&["metrics", "--url"]).refused(&["no port for metrics", "up --metrics-port 0"]);
    let cluster = Cluster::up_with(&["--nodes", "1", "--metrics-port", "0"]);
    let port = port(&cluster);
    assert_eq!(get(port, "/metrics").expect("served").0, 200);
    assert_eq!(get(port, "/v1/cluster").expect("served").0, 404);
    // Addresses and ports in hexadecimal; a socket that listens has state 0A.
    let listens = |table: &str| {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let ours = rows.filter(|row| row.len() > 3 && row[3] == "0A" && row[1].ends_with(&format!(":{port:04X}")));
        ours.map(|row| row[1].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listens("/proc/net/tcp"), [format!("0100007F:{port:04X}")]);
    assert_eq!(listens("/proc/net/tcp6"), Vec::<String>::new());
}
