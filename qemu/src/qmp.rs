//! Talking to a running QEMU in its machine protocol, QMP: JSON lines with a greeting, ids and events between.
//!
//! One client, one command at a time. Every call may be dropped while it waits: what was read or not yet written
//! stays in the client, and a reply that comes too late is recognised by its id and dropped.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};

/// Longest line QEMU may send, bytes; a longer one ends the conversation.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Events kept until somebody asks; then the oldest go.
pub const EVENTS_MAX: usize = 64;

/// How long an ordinary command may take.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// How long QEMU may take to offer its socket and to greet: it may just be starting, with thirty others.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(20);

/// How often a socket that is not there yet is tried.
const CONNECT_INTERVAL: Duration = Duration::from_millis(10);

/// Why a conversation failed.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// The machine offers no QMP, or somebody has it already.
    #[error("the machine offers no QMP")]
    None,
    /// The connection failed.
    #[error("QMP connection failed: {0}")]
    Io(#[from] io::Error),
    /// QEMU closed it.
    #[error("QEMU closed the QMP connection")]
    Closed,
    /// No answer in time.
    #[error("QEMU did not answer {0} in time")]
    TimedOut(String),
    /// A line too long.
    #[error("QEMU sent a line of more than {LINE_BYTES_MAX} bytes")]
    LineTooLong,
    /// A line that is not QMP.
    #[error("QEMU sent a line that is not QMP: {0}")]
    NotQmp(String),
    /// The command was refused.
    #[error("QEMU refused {command}: {description}")]
    Refused {
        /// The command.
        command: String,
        /// QEMU's reason.
        description: String,
    },
}

/// A client.
pub struct Qmp {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    input: Vec<u8>,
    output: Vec<u8>,
    events: VecDeque<QmpEvent>,
    last_id: u64,
}

/// Something that happened in QEMU by itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct QmpEvent {
    /// What, as QEMU names it: `STOP`, `RESUME`, `SHUTDOWN`, …
    #[serde(rename = "event")]
    pub name: String,
    /// More about it.
    #[serde(default)]
    pub data: Value,
}

/// Whether a machine's processors run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Status {
    /// They do.
    pub running: bool,
    /// Why not, or `running`.
    pub status: String,
}

/// One line from QEMU.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Event(QmpEvent),
    Return {
        #[serde(rename = "return")]
        value: Value,
        id: Option<u64>,
    },
    Error {
        error: ErrorBody,
        id: Option<u64>,
    },
    Greeting {
        #[serde(rename = "QMP")]
        _qmp: Value,
    },
}

#[derive(Deserialize)]
struct ErrorBody {
    desc: String,
}

impl Qmp {
    /// Connects to a QMP socket, waiting for it to appear, and greets.
    ///
    /// # Errors
    /// It does not appear or answer within [`GREETING_TIMEOUT`].
    pub async fn connect(path: &Path) -> Result<Self, QmpError> {
        let deadline = Instant::now() + GREETING_TIMEOUT;
        loop {
            match UnixStream::connect(path).await {
                Ok(stream) => {
                    let (reader, writer) = stream.into_split();
                    return Self::over(reader, writer).await;
                }
                Err(error) if Instant::now() >= deadline => return Err(error.into()),
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock => {
                        tokio::time::sleep(CONNECT_INTERVAL).await;
                    }
                    _ => return Err(error.into()),
                },
            }
        }
    }

    /// Greets over a connection.
    ///
    /// # Errors
    /// The other side does not answer within [`GREETING_TIMEOUT`] or is no QEMU.
    pub async fn over(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Self, QmpError> {
        let mut qmp = Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
            input: Vec::new(),
            output: Vec::new(),
            events: VecDeque::new(),
            last_id: 0,
        };
        let deadline = Instant::now() + GREETING_TIMEOUT;
        let late = || QmpError::TimedOut("the greeting".into());
        match timeout_at(deadline, qmp.line()).await.map_err(|_| late())?? {
            Line::Greeting { .. } => {}
            _ => return Err(QmpError::NotQmp("no greeting".into())),
        }
        qmp.execute_within("qmp_capabilities", Value::Null, GREETING_TIMEOUT).await?;
        Ok(qmp)
    }

    /// Executes a command with `arguments` (an object, or null for none) within [`COMMAND_TIMEOUT`].
    ///
    /// # Errors
    /// QEMU refuses it, or the conversation fails.
    pub async fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        self.execute_within(command, arguments, COMMAND_TIMEOUT).await
    }

    /// As [`Self::execute`], with a time of its own.
    ///
    /// # Errors
    /// QEMU refuses it, or the conversation fails.
    pub async fn execute_within(
        &mut self,
        command: &str,
        arguments: Value,
        limit: Duration,
    ) -> Result<Value, QmpError> {
        self.last_id += 1;
        let mut request = json!({ "execute": command, "id": self.last_id });
        if !arguments.is_null() {
            request["arguments"] = arguments;
        }
        self.output.extend_from_slice(request.to_string().as_bytes());
        self.output.push(b'\n');
        let deadline = Instant::now() + limit;
        timeout_at(deadline, self.exchange(command)).await.map_err(|_| QmpError::TimedOut(command.to_owned()))?
    }

    async fn exchange(&mut self, command: &str) -> Result<Value, QmpError> {
        while !self.output.is_empty() {
            match self.writer.write(&self.output).await? {
                0 => return Err(QmpError::Closed),
                written => self.output.drain(..written),
            };
        }
        self.writer.flush().await?;
        loop {
            match self.line().await? {
                Line::Return { value, id } if id == Some(self.last_id) => return Ok(value),
                Line::Error { error, id } if id.is_none_or(|id| id == self.last_id) => {
                    return Err(QmpError::Refused { command: command.to_owned(), description: error.desc });
                }
                Line::Event(event) => self.keep(event),
                // The answer to a command whose caller has gone.
                Line::Return { .. } | Line::Error { .. } | Line::Greeting { .. } => {}
            }
        }
    }

    fn keep(&mut self, event: QmpEvent) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The next event, waiting for it if none is there. Set your own time limit.
    ///
    /// # Errors
    /// The conversation fails.
    pub async fn event(&mut self) -> Result<QmpEvent, QmpError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            if let Line::Event(event) = self.line().await? {
                return Ok(event);
            }
        }
    }

    async fn line(&mut self) -> Result<Line, QmpError> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.input[searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=searched + at).collect();
                return serde_json::from_slice(&line)
                    .map_err(|_| QmpError::NotQmp(String::from_utf8_lossy(&line).trim().chars().take(120).collect()));
            }
            searched = self.input.len();
            if searched > LINE_BYTES_MAX {
                return Err(QmpError::LineTooLong);
            }
            if self.reader.read_buf(&mut self.input).await? == 0 {
                return Err(QmpError::Closed);
            }
        }
    }

    /// Whether the machine runs.
    ///
    /// # Errors
    /// See [`Self::execute`].
    pub async fn query_status(&mut self) -> Result<Status, QmpError> {
        let value = self.execute("query-status", Value::Null).await?;
        serde_json::from_value(value).map_err(|error| QmpError::NotQmp(error.to_string()))
    }

    /// Ends QEMU. The connection is of no use afterwards.
    ///
    /// # Errors
    /// See [`Self::execute`]. That QEMU closes before it answers is none.
    pub async fn quit(&mut self) -> Result<(), QmpError> {
        match self.execute("quit", Value::Null).await {
            Ok(_) | Err(QmpError::Closed) => Ok(()),
            Err(QmpError::Io(error)) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Halts the machine's processors.
    ///
    /// # Errors
    /// See [`Self::execute`].
    pub async fn stop(&mut self) -> Result<(), QmpError> {
        self.execute("stop", Value::Null).await.map(drop)
    }

    /// Lets the machine's processors go on.
    ///
    /// # Errors
    /// See [`Self::execute`].
    pub async fn cont(&mut self) -> Result<(), QmpError> {
        self.execute("cont", Value::Null).await.map(drop)
    }

    /// Writes `bytes` of the machine's memory from physical `address` on into `file`. Takes up to `limit`.
    ///
    /// # Errors
    /// See [`Self::execute`].
    pub async fn save_memory(
        &mut self,
        address: u64,
        bytes: u64,
        file: &Path,
        limit: Duration,
    ) -> Result<(), QmpError> {
        let arguments = json!({ "val": address, "size": bytes, "filename": file });
        self.execute_within("pmemsave", arguments, limit).await.map(drop)
    }

    /// What the accelerator counts per machine (`vm`) or processor (`vcpu`); TCG counts nothing.
    ///
    /// # Errors
    /// See [`Self::execute`].
    pub async fn query_stats(&mut self, target: &str) -> Result<Value, QmpError> {
        self.execute("query-stats", json!({ "target": target })).await
    }
}

impl std::fmt::Debug for Qmp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Qmp").field("last_id", &self.last_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, duplex, split};

    use super::*;

    /// A QEMU that greets and then says `lines`, whatever it is told.
    async fn against(lines: &[&str]) -> (Qmp, DuplexStream) {
        let (near, far) = duplex(64 * 1024);
        let greeting = r#"{"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": ["oob"]}}"#;
        let text = [&[greeting, r#"{"return": {}, "id": 1}"#], lines].concat().join("\r\n");
        let mut far = BufReader::new(far);
        far.write_all(text.as_bytes()).await.unwrap();
        far.write_all(b"\r\n").await.unwrap();
        let (reader, writer) = split(near);
        let qmp = Qmp::over(reader, writer).await.unwrap();
        let mut line = String::new();
        far.read_line(&mut line).await.unwrap();
        assert_eq!(line, "{\"execute\":\"qmp_capabilities\",\"id\":1}\n");
        (qmp, far.into_inner())
    }

    #[tokio::test]
    async fn events_come_between() {
        let (mut qmp, _far) = against(&[
            r#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "STOP"}"#,
            r#"{"event": "SHUTDOWN", "data": {"guest": true}}"#,
            r#"{"return": {"status": "running", "running": true}, "id": 2}"#,
        ])
        .await;
        assert_eq!(qmp.query_status().await.unwrap(), Status { running: true, status: "running".into() });
        assert_eq!(qmp.event().await.unwrap().name, "STOP");
        assert_eq!(qmp.event().await.unwrap().data["guest"], true);
    }

    #[tokio::test]
    async fn a_late_reply_is_dropped() {
        let (mut qmp, mut far) = against(&[]).await;
        let none = qmp.execute_within("slow", Value::Null, Duration::from_millis(20)).await;
        assert!(matches!(none, Err(QmpError::TimedOut(command)) if command == "slow"));
        far.write_all(b"{\"return\": 1, \"id\": 2}\n{\"return\": 2, \"id\": 3}\n").await.unwrap();
        assert_eq!(qmp.execute("quick", json!({"x": 1})).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn half_a_line_survives_a_dropped_call() {
        let (mut qmp, mut far) = against(&[]).await;
        far.write_all(b"{\"event\": \"ST").await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), qmp.event()).await.is_err());
        far.write_all(b"OP\"}\n").await.unwrap();
        assert_eq!(qmp.event().await.unwrap().name, "STOP");
    }

    #[tokio::test]
    async fn refusals_and_nonsense() {
        let (mut qmp, far) = against(&[
            r#"{"error": {"class": "GenericError", "desc": "no such thing"}, "id": 2}"#,
            r#"{"error": {"class": "GenericError", "desc": "bad JSON"}}"#,
            "what?",
        ])
        .await;
        let error = qmp.stop().await.unwrap_err().to_string();
        assert_eq!(error, "QEMU refused stop: no such thing");
        assert!(matches!(qmp.cont().await, Err(QmpError::Refused { .. })));
        assert!(matches!(qmp.cont().await, Err(QmpError::NotQmp(line)) if line == "what?"));
        drop(far);
        assert!(matches!(qmp.stop().await, Err(QmpError::Closed | QmpError::Io(_))));
    }

    #[tokio::test]
    async fn events_and_lines_are_bounded() {
        let events: Vec<_> = (0..2 * EVENTS_MAX).map(|number| format!(r#"{{"event": "E{number}"}}"#)).collect();
        let mut lines: Vec<_> = events.iter().map(String::as_str).collect();
        lines.push(r#"{"return": {}, "id": 2}"#);
        let (mut qmp, mut far) = against(&lines).await;
        qmp.stop().await.unwrap();
        assert_eq!(qmp.event().await.unwrap().name, format!("E{EVENTS_MAX}"));
        let writer = tokio::spawn(async move { while far.write_all(&[b'x'; 4096]).await.is_ok() {} });
        assert!(matches!(qmp.cont().await, Err(QmpError::LineTooLong)));
        drop(qmp);
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn what_is_no_qemu_is_noticed() {
        let (near, mut far) = duplex(1024);
        far.write_all(b"SSH-2.0-OpenSSH\n").await.unwrap();
        let (reader, writer) = split(near);
        assert!(matches!(Qmp::over(reader, writer).await, Err(QmpError::NotQmp(_))));
        let absent = Qmp::connect(Path::new("/dev/null/socket")).await;
        assert!(absent.is_err());
    }
}
