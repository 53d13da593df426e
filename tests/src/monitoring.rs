//! A Prometheus that scrapes a cluster, and what is asked over HTTP on loopback.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::cluster::{binaries, wait_until};

/// How long one answer may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long it may take until Prometheus has seen something.
const SEEN_TIME_MAX: Duration = Duration::from_secs(60);

/// How often it looks. What is older than a few of these it does not show.
const SCRAPE_INTERVAL: &str = "200ms";

/// What it says in front of the address that it listens at.
const LISTENS: &str = "msg=\"Listening on\" address=127.0.0.1:";

/// What a server on loopback answers to a request: status and body.
///
/// # Errors
/// There is none, or it does not answer.
pub fn get(port: u16, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let cut_short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut_short)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut_short)?;
    Ok((status, body.to_owned()))
}

/// A Prometheus of its own, with nothing on the disk when it is dropped.
pub struct Prometheus {
    child: Child,
    port: u16,
    _home: TempDir,
}

impl Prometheus {
    /// One that scrapes what is served at a port of loopback.
    ///
    /// # Panics
    /// If it is not there, or does not start.
    #[must_use]
    pub fn start(port: u16) -> Self {
        let program = binaries().join("../prometheus/usr/bin/prometheus");
        assert!(program.exists(), "no {}: set up first with `cargo xtask setup`", program.display());
        let home = tempfile::tempdir().expect("directory");
        let settings = format!(
            "global: {{scrape_interval: {SCRAPE_INTERVAL}, scrape_timeout: {SCRAPE_INTERVAL}}}\n\
             scrape_configs:\n- job_name: coppice\n  static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n"
        );
        std::fs::write(home.path().join("settings.yml"), settings).expect("written");
        // It ends with the thread that has it started, whatever becomes of that.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&program);
        command
            .args(["--config.file=settings.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0"])
            .current_dir(home.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("setpriv");
        let said = child.stderr.take().expect("piped");
        let port = listens_at(home.path(), said);
        let Some(port) = port else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("Prometheus does not listen; it said: {}", said_before(home.path()));
        };
        Self { child, port, _home: home }
    }

    /// What it answers to a query: the first value there is.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn value(&self, query: &str) -> Option<String> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let asked = get(self.port, &format!("/api/v1/query?query={escaped}"));
        let (status, body) = asked.unwrap_or_else(|error| panic!("Prometheus does not answer: {error}"));
        assert!(matches!(status, 200 | 503), "{query}: {status} {body}");
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        answer["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
    }

    /// Waits until a query has this value.
    ///
    /// # Panics
    /// If it never has.
    #[track_caller]
    pub fn wait_for(&self, query: &str, value: &str) {
        wait_until(query, SEEN_TIME_MAX, || {
            let found = self.value(query);
            if found.as_deref() == Some(value) { Ok(()) } else { Err(format!("{found:?}, not {value}")) }
        });
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port that it says it listens at; all that it says goes into a file, also what comes later.
fn listens_at(home: &Path, said: impl Read + Send + 'static) -> Option<u16> {
    let mut said = BufReader::new(said);
    let mut log = std::fs::File::create(home.join("log")).expect("a file");
    let mut line = String::new();
    while said.read_line(&mut line).ok()? > 0 {
        let _ = log.write_all(line.as_bytes());
        if let Some((_, port)) = line.split_once(LISTENS) {
            let port = port.trim_end().parse().ok();
            // It must not have to wait for somebody who reads.
            std::thread::spawn(move || io::copy(&mut said, &mut log));
            return port;
        }
        line.clear();
    }
    None
}

fn said_before(home: &Path) -> String {
    std::fs::read_to_string(home.join("log")).unwrap_or_default()
}
