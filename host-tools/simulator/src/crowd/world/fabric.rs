//! The network, on whose links nothing passes: what nodes say goes another way.

use coppice_service_node::plant::{
    FabricOrder, FabricOutcome, FromFabric, HelperEvent, LinkCount, LinkCounts, PlantEvent,
};

use super::{Event, World};

impl World {
    /// Does what it is told about links.
    pub(super) fn tell_fabric(&mut self, request: u64, orders: &[FabricOrder]) {
        for order in orders {
            let outcome = Ok(self.done_by_fabric(order));
            self.of_fabric(HelperEvent::Said(FromFabric::Answer { request, outcome }));
        }
    }

    fn done_by_fabric(&self, order: &FabricOrder) -> FabricOutcome {
        match order {
            FabricOrder::Count => {
                let count = LinkCount { up: true, ..LinkCount::default() };
                let links = self.stations.iter().map(|station| (*station, count)).collect();
                FabricOutcome::Counted(LinkCounts { at_ns: self.now_ns, links })
            }
            FabricOrder::Shape(..) | FabricOrder::Record(..) | FabricOrder::EndRecording(_) => FabricOutcome::Done,
        }
    }

    pub(super) fn of_fabric(&mut self, event: HelperEvent<FromFabric>) {
        self.events.push_back(Event::Plant(PlantEvent::Fabric { incarnation: self.fabric, event }));
    }
}
