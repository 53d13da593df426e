//! What is said of programs that are made here, and of what is left of them when they are damaged.

mod build;
mod damaged;
mod files;
mod profiles;
