//! The service node of one cluster: database, scheduler, machines and API.
//!
//! ```text
//!  http ──requests──► controller ──orders──► plant: fabric, I/O nodes, machines (processes)
//!                         ▲   │                  │
//!                         │   └──► database      │
//!                         └───────events─────────┘
//! ```
//! Everything that is decided is decided in [`controller`], one event at a time, with the time as an argument and the
//! processes behind the trait [`plant::Plant`]: the same code runs in tests without a process in sight. What must
//! survive is in the [`database`] before anybody hears of it; while that cannot be written, it waits in [`records`].

pub mod checkpoints;
pub mod connections;
pub mod controller;
pub mod daemon;
pub mod database;
pub mod feed;
pub mod host_files;
pub mod http;
pub mod limits;
pub mod metrics;
pub mod options;
pub mod output;
pub mod plant;
pub mod processes;
pub mod profiles;
pub mod records;
pub mod scheduler;
pub mod store;
pub mod time;
