//! How many communication processes run on which node of a job, where none are set apart for them.

mod average;
mod comprehensive;

pub use self::average::best_effort_average;
pub use self::comprehensive::{Factor, GRADES, Host, Standing, comprehensive, memberships};
