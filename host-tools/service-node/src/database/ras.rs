//! RAS events.

use coppice_api::limits::{LISTING_ROWS_DEFAULT, LISTING_ROWS_MAX};
use coppice_api::ras::{RasQuery, RasView};
use coppice_protocol::ids::NodeId;
use coppice_protocol::limits::RAS_TEXT_BYTES_MAX;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use rusqlite::params;

use super::{Database, DatabaseError, from_sql, to_sql};
use crate::limits::{RAS_EVENTS_KEPT_MAX, ROWS_BETWEEN_TRIMS};

impl Database {
    /// Records an event, of a node or of none.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn add_ras(&mut self, node: Option<NodeId>, event: &RasEvent, at_ns: u64) -> Result<(), DatabaseError> {
        let sql = "INSERT INTO ras_events (at_ns, severity, kind, node, job, rank, address, instruction, text)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        self.connection.prepare_cached(sql)?.execute(params![
            to_sql(at_ns),
            severity_name(event.severity),
            kind_name(event.kind),
            node.map(|node| node.0),
            event.job.map(|job| to_sql(job.0)),
            event.rank.map(|rank| rank.0),
            event.address.map(to_sql),
            event.instruction.map(to_sql),
            one_line(&event.text),
        ])?;
        self.events_since_trim += 1;
        if self.events_since_trim >= ROWS_BETWEEN_TRIMS {
            self.events_since_trim = 0;
            let sql = "DELETE FROM ras_events WHERE event <= (SELECT max(event) FROM ras_events) - ?1";
            self.connection.prepare_cached(sql)?.execute([to_sql(RAS_EVENTS_KEPT_MAX)])?;
        }
        Ok(())
    }

    /// The newest events, the newest last.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn ras(&self, query: &RasQuery) -> Result<Vec<RasView>, DatabaseError> {
        let sql = "SELECT event, at_ns, severity, kind, node, job, rank, address, instruction, text FROM ras_events
                   WHERE (?1 IS NULL OR node = ?1) AND (?2 IS NULL OR job = ?2) ORDER BY event DESC LIMIT ?3";
        let limit = query.limit.unwrap_or(LISTING_ROWS_DEFAULT).min(LISTING_ROWS_MAX);
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![query.node, query.job.map(to_sql), limit], |row| {
            let number = |column| row.get::<_, Option<i64>>(column).map(|value| value.map(from_sql));
            Ok(RasView {
                event: from_sql(row.get("event")?),
                at_ns: from_sql(row.get("at_ns")?),
                severity: row.get("severity")?,
                kind: row.get("kind")?,
                node: row.get("node")?,
                job: number("job")?,
                rank: row.get("rank")?,
                address: number("address")?,
                instruction: number("instruction")?,
                text: row.get("text")?,
            })
        })?;
        let mut events = rows.collect::<Result<Vec<_>, _>>()?;
        events.reverse();
        Ok(events)
    }
}

/// How bad an event is, in a word.
pub(crate) fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warn => "warn",
        Severity::Error => "error",
        Severity::Fatal => "fatal",
    }
}

/// The name tools search for.
pub(crate) fn kind_name(kind: RasKind) -> &'static str {
    match kind {
        RasKind::ProgramFault => "program-fault",
        RasKind::UnknownSyscall => "unknown-syscall",
        RasKind::OutOfMemory => "out-of-memory",
        RasKind::KernelPanic => "kernel-panic",
        RasKind::NodeLost => "node-lost",
        RasKind::NodeReady => "node-ready",
        RasKind::IoNodeLost => "io-node-lost",
        RasKind::BadPeer => "bad-peer",
        RasKind::EventsLost => "events-lost",
        RasKind::Recovery => "recovery",
        RasKind::DamagedPiece => "damaged-piece",
        RasKind::DamagedProgram => "damaged-program",
        RasKind::Undelivered => "undelivered",
        RasKind::LeaseKept => "lease-kept",
        RasKind::LinkCut => "link-cut",
        RasKind::LinkMended => "link-mended",
        RasKind::RecordingEnded => "recording-ended",
        RasKind::OutputCut => "output-cut",
        RasKind::CheckpointFailed => "checkpoint-failed",
        RasKind::RestartFailed => "restart-failed",
        RasKind::Overlay => "overlay",
    }
}

/// The text on one line without control characters, cut to its limit: it comes from a node and goes to a terminal.
fn one_line(text: &str) -> String {
    let mut line: String = text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() > RAS_TEXT_BYTES_MAX {
        line.truncate(line.floor_char_boundary(RAS_TEXT_BYTES_MAX));
    }
    line
}

#[cfg(test)]
mod tests {
    use coppice_api::ras::RasQuery;
    use coppice_protocol::ids::{JobId, NodeId, Rank};
    use coppice_protocol::ras::{RasEvent, RasKind, Severity};

    use crate::database::Database;

    fn event(job: u64, text: &str) -> RasEvent {
        RasEvent {
            severity: Severity::Error,
            kind: RasKind::ProgramFault,
            job: Some(JobId(job)),
            rank: Some(Rank(1)),
            address: Some(u64::MAX),
            instruction: Some(0x40_1000),
            text: text.into(),
        }
    }

    #[test]
    fn events_come_back_by_node_and_job_in_order() {
        let mut database = Database::in_memory().expect("open");
        for number in 0..5u32 {
            database.add_ras(Some(NodeId(number % 2)), &event(u64::from(number), "x"), 10).expect("added");
        }
        let all = database.ras(&RasQuery::default()).expect("all");
        assert_eq!(all.iter().map(|event| event.job).collect::<Vec<_>>(), (0..5).map(Some).collect::<Vec<_>>());
        assert_eq!(all[0].address, Some(u64::MAX));
        assert_eq!((all[0].kind.as_str(), all[0].severity.as_str()), ("program-fault", "error"));
        let of_node = database.ras(&RasQuery { node: Some(1), ..RasQuery::default() }).expect("node");
        assert_eq!(of_node.len(), 2);
        let newest = database.ras(&RasQuery { limit: Some(1), ..RasQuery::default() }).expect("newest");
        assert_eq!(newest[0].job, Some(4));
    }

    #[test]
    fn text_is_one_short_line() {
        let mut database = Database::in_memory().expect("open");
        database.add_ras(None, &event(1, &format!("a\n\x1b[31m{}", "é".repeat(1000))), 10).expect("added");
        let text = database.ras(&RasQuery::default()).expect("all")[0].text.clone();
        assert!(text.len() <= 512 && !text.contains(char::is_control), "{text}");
    }
}
