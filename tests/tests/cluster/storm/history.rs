//! What clients were told and what is recorded: the same, and what was once so stays so.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use coppice_tests::Cluster;
use serde_json::Value;

use super::Storm;

/// Rows of a look at the history, and of the one at all of it.
const LOOK_ROWS: &str = "200";
const ALL_ROWS: &str = "100000";

/// What a client knows of its job.
#[derive(Debug)]
pub(super) struct Told {
    /// It was begun, so it has a record.
    pub(super) has_run: bool,
    /// The exit status that it was told the job had.
    pub(super) status: Option<i32>,
    /// The reason that it was told.
    pub(super) reason: Option<String>,
}

/// All of it.
#[derive(Default)]
pub(super) struct History {
    told: Mutex<BTreeMap<String, Told>>,
    refused: Mutex<u64>,
    /// How jobs ended, as it was first seen.
    ended: Mutex<BTreeMap<u64, (Value, Value)>>,
}

/// The newest jobs' records, if the cluster answers.
fn newest(cluster: &Cluster, rows: &str) -> Option<Vec<Value>> {
    let ran = cluster.coppice(&["jobs", "--limit", rows, "--json"]);
    if ran.status != 0 {
        return None;
    }
    serde_json::from_slice::<Value>(&ran.stdout).ok()?.as_array().cloned()
}

/// All jobs' records, if the cluster answers.
pub(super) fn jobs(cluster: &Cluster) -> Option<Vec<Value>> {
    newest(cluster, ALL_ROWS)
}

fn tag(job: &Value) -> &str {
    job["arguments"][0].as_str().unwrap_or_default()
}

impl History {
    /// A client says what it was told.
    pub(super) fn told(&self, tag: String, told: Told, refused: bool) {
        *self.refused.lock().expect("no panic") += u64::from(refused);
        self.told.lock().expect("no panic").insert(tag, told);
    }

    /// Looks whether the newest records are what they were before.
    pub(super) fn look(&self, storm: &Storm) {
        newest(&storm.cluster, LOOK_ROWS).iter().flatten().for_each(|job| self.see(storm, job));
    }

    fn see(&self, storm: &Storm, job: &Value) {
        let number = job["job"].as_u64().expect("a number");
        let now = (job["exit_status"].clone(), job["reason"].clone());
        let mut ended = self.ended.lock().expect("no panic");
        match ended.get(&number) {
            Some(before) if job["state"] != "ended" || *before != now => {
                storm.fail(format!("job {number} had ended with {before:?}, and now it is {job}"));
            }
            None if job["state"] == "ended" => drop(ended.insert(number, now)),
            _ => {}
        }
    }

    /// Holds all that was told against all that is recorded.
    pub(super) fn check(&self, storm: &Storm) {
        let Some(jobs) = jobs(&storm.cluster) else { return storm.fail("no history".into()) };
        jobs.iter().for_each(|job| self.see(storm, job));
        let mut records = BTreeMap::new();
        for job in &jobs {
            if let Some(other) = records.insert(tag(job), job) {
                storm.fail(format!("submitted once, recorded twice: {job} and {other}"));
            }
            if job["exit_status"].is_null() {
                storm.fail(format!("no exit status: {job}"));
            }
        }
        for number in self.ended.lock().expect("no panic").keys() {
            if jobs.iter().all(|job| job["job"] != *number) {
                storm.fail(format!("job {number} had ended, and is not recorded any more"));
            }
        }
        for (tag, told) in &*self.told.lock().expect("no panic") {
            let Some(record) = records.get(&**tag) else {
                if told.has_run || told.status.is_some() {
                    storm.fail(format!("{tag} is not recorded; its client knows {told:?}"));
                }
                continue;
            };
            let status_differs = told.status.is_some_and(|status| record["exit_status"] != status);
            let reason_differs = told.reason.as_ref().is_some_and(|reason| record["reason"] != **reason);
            if status_differs || reason_differs {
                storm.fail(format!("the client of {tag} was told {told:?}, recorded is {record}"));
            }
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.told.lock().expect("no panic");
        let ended = told.values().filter(|told| told.status.is_some()).count();
        let (refused, recorded) = (self.refused.lock().expect("no panic"), self.ended.lock().expect("no panic").len());
        write!(formatter, "clients saw the end of {ended} and were refused or left alone {refused} times, ")?;
        write!(formatter, "{recorded} are recorded")
    }
}
