//! A cluster of very many nodes that answers on its socket as a real one does, so that tools can be looked at: the real
//! controller, its database and its API, with as many ended jobs behind it as are wanted.
//!
//! Time passes as it does outside. The API has a thread of its own, as it would be in the way of all the nodes'
//! otherwise.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coppice_api::ClusterPaths;
use coppice_api::job::Submission;
use coppice_protocol::ids::ProgramId;
use coppice_service_node::connections::Connections;
use coppice_service_node::controller::Event;
use coppice_service_node::database::{Database, JobRow};
use coppice_service_node::http::Api;
use coppice_storage::Storage;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Options;
use super::world::World;

/// Connections to the API.
const CONNECTIONS_MAX: usize = 100;

/// Requests that wait for the controller.
const REQUESTS_MAX: usize = 256;

/// From one job that has ended to the next, ns.
const STEP_NS: u64 = 1_000_000_000;

/// Of a job that was to be ended.
const SIGTERM_STATUS: u8 = 143;

/// Serves a cluster in that home of clusters, until SIGINT or SIGTERM. `past` jobs have ended, and one runs on all of
/// its nodes. `is_up` is called when it can be asked.
///
/// # Errors
/// What cannot be made, or went wrong, one line.
pub fn serve(options: &Options, past: u64, home: &Path, is_up: impl FnOnce()) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let name = "default".parse().map_err(|_| "no name".to_owned())?;
    let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| home.as_os_str().to_owned());
    let paths = ClusterPaths::find_with(name, variable, 0).map_err(|error| said(&error))?;
    paths.create().map_err(|error| said(&error))?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    let mut database = Database::open(&paths.database()).map_err(|error| said(&error))?;
    remember(&mut database, options, past, now_ns).map_err(|error| said(&error))?;
    drop(database);
    let mut world = World::at(options, paths.clone(), now_ns)?;
    world.come_up()?;
    let _ = world.submit()?;
    let (events, queue) = mpsc::channel(REQUESTS_MAX);
    let storage = Storage::open(home.join("checkpoints")).map_err(|error| said(&error))?;
    let connections = Connections::new(CONNECTIONS_MAX);
    let api = Api::new(events, world.store(), connections.clone(), Arc::new(storage));
    let runtime = || Builder::new_current_thread().enable_all().build();
    let of_api = runtime().map_err(|error| said(&error))?;
    let listener = {
        let _entered = of_api.enter();
        UnixListener::bind(paths.api_socket()).map_err(|error| said(&error))?
    };
    // It ends with this process: nobody but it has to do with it.
    thread::Builder::new()
        .name("api".to_owned())
        .spawn(move || answer(&of_api, api, &connections, listener))
        .map_err(|error| said(&error))?;
    is_up();
    runtime().map_err(|error| said(&error))?.block_on(live(&mut world, queue))
}

/// Records jobs as if they had run, one on each node in turn.
fn remember(
    database: &mut Database,
    options: &Options,
    past: u64,
    now_ns: u64,
) -> Result<(), coppice_service_node::database::DatabaseError> {
    for number in 0..past {
        let job = Submission {
            arguments: vec!["--case".into(), number.to_string().into()],
            ..Submission::plain("/home/me/solve".into(), "./solve".into(), 1 + u32::try_from(number).unwrap_or(0) % 64)
        };
        let at_ns = now_ns.saturating_sub((past - number).saturating_mul(STEP_NS));
        let id = database.add_job(&job, ProgramId([3; 32]), &[], at_ns)?;
        let was_ended = number % 97 == 0;
        let end = JobRow {
            exit_status: if was_ended { SIGTERM_STATUS } else { 0 },
            reason: was_ended.then(|| "ended by SIGTERM on request".to_owned()),
            retention: None,
            pages_touched: None,
            continued_as: None,
        };
        database.end_job(id, &end, at_ns.saturating_add(STEP_NS / u64::from(options.nodes.max(1))))?;
    }
    Ok(())
}

fn answer(runtime: &Runtime, api: Api, connections: &Connections, listener: UnixListener) {
    // It never ends.
    let _ = runtime.block_on(async { axum::serve(connections.bound(listener), api.router()).await });
}

/// Has time pass in the world, and requests answered.
async fn live(world: &mut World, mut queue: mpsc::Receiver<Event>) -> Result<(), String> {
    let [mut interrupted, mut terminated] = [
        signal(SignalKind::interrupt()).map_err(|error| error.to_string())?,
        signal(SignalKind::terminate()).map_err(|error| error.to_string())?,
    ];
    let (begin, begin_ns) = (Instant::now(), world.now_ns());
    loop {
        let due = world.due_ns().map(|due_ns| begin + Duration::from_nanos(due_ns.saturating_sub(begin_ns)));
        let passed_to = || begin_ns + u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        tokio::select! {
            _ = interrupted.recv() => return Ok(()),
            _ = terminated.recv() => return Ok(()),
            event = queue.recv() => {
                let Some(event) = event else { return Ok(()) };
                world.pass_to(passed_to())?;
                world.take(event)?;
            }
            () = sleep_until(due.unwrap_or_else(|| begin + Duration::from_secs(3600))) => world.pass_to(passed_to())?,
        }
    }
}
