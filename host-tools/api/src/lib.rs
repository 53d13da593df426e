//! Types, paths and client of the service node's HTTP API.
