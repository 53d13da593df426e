//! A world that is looked at while time passes as it does outside.

use coppice_service_node::controller::Event;
use coppice_service_node::store::ProgramStore;

use super::World;

impl World {
    /// What time it is, ns since it began.
    pub(in crate::crowd) const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// It is that time now, or later already: does what is due, and all that follows from it.
    pub(in crate::crowd) fn pass_to(&mut self, now_ns: u64) -> Result<(), String> {
        self.now_ns = self.now_ns.max(now_ns);
        self.advance();
        while self.step()? {}
        Ok(())
    }

    /// Has the controller take something in, and all happen that follows from it.
    pub(in crate::crowd) fn take(&mut self, event: Event) -> Result<(), String> {
        self.handle(event);
        while self.step()? {}
        Ok(())
    }

    /// Where programs lie.
    pub(in crate::crowd) fn store(&self) -> ProgramStore {
        self.store.clone()
    }
}
