//! A stack's ends in the networks it is in: always the cluster's, and that of the job that is on the node.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::net::Ipv4Addr;

use coppice_protocol::ids::JOB_NETWORK_PREFIX;
use coppice_protocol::world::{NetworkTag, NodeRange};
use smoltcp::iface::{self, Interface};
use smoltcp::phy::Device;
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Cidr};

use super::stack_time;
use crate::ethernet::{Framed, Realm};
use crate::job::JobNetwork;

/// An end in a network.
pub(crate) struct Side {
    pub(crate) interface: Interface,
    /// Address and prefix.
    pub(crate) network: Ipv4Cidr,
    /// Largest IP packet, bytes.
    pub(crate) mtu: usize,
}

impl Side {
    /// In the realm that `device` is set to.
    fn new<D: Device>(network: Ipv4Cidr, seed: u64, device: &mut Framed<D>, now_ns: u64) -> Self {
        let mut config = iface::Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, device, stack_time(now_ns));
        interface.update_ip_addrs(|addresses| {
            // The list is empty and holds at least one.
            let _ = addresses.push(IpCidr::Ipv4(network));
        });
        Self { interface, network, mtu: device.capabilities().max_transmission_unit }
    }
}

/// The end in a job's network.
pub(crate) struct JobSide {
    pub(crate) side: Side,
    pub(crate) network: Arc<JobNetwork>,
}

impl JobSide {
    /// Whether `address` stands for all nodes of the job.
    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        address.is_broadcast() || self.side.network.broadcast() == Some(address)
    }
}

/// All ends of a stack.
pub(crate) struct Sides {
    pub(crate) cluster: Side,
    pub(crate) job: Option<JobSide>,
}

impl Sides {
    /// In the cluster's network alone.
    pub(crate) fn new<D: Device>(network: Ipv4Cidr, seed: u64, device: &mut Framed<D>, now_ns: u64) -> Self {
        device.realm = Realm::Cluster;
        Self { cluster: Side::new(network, seed, device, now_ns), job: None }
    }

    /// The end in a network, if there is one.
    pub(crate) fn get_mut(&mut self, realm: Realm) -> Option<&mut Side> {
        match (realm, &mut self.job) {
            (Realm::Cluster, _) => Some(&mut self.cluster),
            (Realm::Job, Some(job)) => Some(&mut job.side),
            (Realm::Job, None) => None,
        }
    }

    /// In that job's network too from now on.
    pub(crate) fn enter<D: Device>(&mut self, job: JobNetwork, seed: u64, device: &mut Framed<D>, now_ns: u64) {
        let network = Arc::new(job);
        let cidr = Ipv4Cidr::new(network.own().address(), JOB_NETWORK_PREFIX);
        device.realm = Realm::Job;
        device.set_job(Some(Arc::clone(&network)));
        self.job = Some(JobSide { side: Side::new(cidr, seed, device, now_ns), network });
    }

    /// Nodes have come to this job's network, as [`JobNetwork::join`] has it. `None`: another job is here, or none.
    pub(crate) fn join<D>(
        &mut self,
        tag: NetworkTag,
        (first, nodes): (u32, &[NodeRange]),
        kept: Box<dyn Send + Sync>,
        device: &mut Framed<D>,
    ) -> Option<u32> {
        let network = &mut self.job.as_mut().filter(|job| job.network.tag() == tag)?.network;
        // Nobody else has it.
        device.set_job(None);
        let count = Arc::get_mut(network).map(|network| network.join(first, nodes, kept));
        device.set_job(Some(Arc::clone(network)));
        count
    }

    /// In no job's network any more; in which until now.
    pub(crate) fn leave<D>(&mut self, device: &mut Framed<D>) -> Option<JobSide> {
        device.set_job(None);
        self.job.take()
    }
}
