//! What front ends of overlays and nodes say to each other.

use coppice_protocol::control::OverlayOrder;
use coppice_protocol::overlay::{Above, Child, Down, Source};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use super::control::ranks;
use super::{job, node};

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![any::<u32>().prop_map(Source::Process), node().prop_map(Source::BackEnds)]
}

fn above() -> impl Strategy<Value = Above> {
    let process = (any::<u32>(), node()).prop_map(|(index, node)| Above::Process { index, node });
    prop_oneof![Just(Above::FrontEnd), process]
}

fn children() -> impl Strategy<Value = Vec<Child>> {
    vec((source(), ranks()).prop_map(|(source, ranks)| Child { source, ranks }), 0..4)
}

pub(super) fn down() -> impl Strategy<Value = Down> {
    let numbers = any::<[u32; 3]>;
    prop_oneof![
        any::<([u32; 2], [u64; 2])>().prop_map(|([generation, size], [period_ns, sample_period_ns])| Down::Announce {
            generation,
            period_ns,
            sample_period_ns,
            size
        }),
        (numbers(), above(), children()).prop_map(|([generation, index, height], above, children)| Down::Begin {
            generation,
            index,
            above,
            height,
            children
        }),
        (any::<u32>(), ranks(), above()).prop_map(|(generation, ranks, above)| Down::Attach {
            generation,
            ranks,
            above
        }),
        (numbers(), above()).prop_map(|([generation, index, _], above)| Down::Move { generation, index, above }),
        (numbers(), option::of(source()), children())
            .prop_map(|([generation, index, _], without, with)| { Down::Below { generation, index, without, with } }),
        any::<u32>().prop_map(|generation| Down::End { generation }),
    ]
}

pub(super) fn order() -> impl Strategy<Value = OverlayOrder> {
    (job(), any::<u32>(), down()).prop_map(|(job, number, order)| OverlayOrder { job, number, order })
}
