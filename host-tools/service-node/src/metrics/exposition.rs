//! Families of metrics as text.
//!
//! The library's registry is made anew for each scrape and has one collector, which writes a snapshot: no value is kept
//! twice, and none can be of another moment than the others.

use std::fmt;

use coppice_protocol::text::Shown;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, GaugeValueEncoder, NoLabelSet,
    prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::accept::Format;
use super::seen::{BOUNDS_S, Distribution};
use crate::limits::METRICS_LABEL_CHARACTERS_MAX;

/// What all names begin with.
const PREFIX: &str = "coppice";

/// What tells the metrics of a family from each other.
pub(super) type Labels<const N: usize> = [(&'static str, String); N];

/// A family before its metrics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family<'a> {
    /// Its name without [`PREFIX`] and unit.
    pub(super) name: &'a str,
    /// What is measured, for people.
    pub(super) help: &'a str,
    /// What it is measured in, if that has a name.
    pub(super) unit: Option<&'a Unit>,
}

impl<'a> Family<'a> {
    /// A number of things.
    pub(super) fn of(name: &'a str, help: &'a str) -> Self {
        Self { name, help, unit: None }
    }

    /// A time.
    pub(super) fn seconds(name: &'a str, help: &'a str) -> Self {
        Self { name, help, unit: Some(&Unit::Seconds) }
    }

    /// Room.
    pub(super) fn bytes(name: &'a str, help: &'a str) -> Self {
        Self { name, help, unit: Some(&Unit::Bytes) }
    }
}

/// A number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// A whole one.
    Whole(u64),
    /// Any.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Whole(value as u64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl EncodeGaugeValue for Value {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeGaugeValue::encode(value, encoder),
            Self::Real(value) => EncodeGaugeValue::encode(value, encoder),
        }
    }
}

impl EncodeCounterValue for Value {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeCounterValue::encode(value, encoder),
            Self::Real(value) => EncodeCounterValue::encode(value, encoder),
        }
    }
}

/// Where families are written. One without metrics is there all the same: so whoever looks knows what there is.
pub(super) struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    /// What may rise and fall.
    pub(super) fn gauges<const N: usize, V: Into<Value>>(
        &mut self,
        family: Family<'_>,
        metrics: impl IntoIterator<Item = (Labels<N>, V)>,
    ) -> fmt::Result {
        let Family { name, help, unit } = family;
        let mut encoder = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in metrics {
            encoder.encode_family(&labels)?.encode_gauge(&value.into())?;
        }
        Ok(())
    }

    /// One that is alone.
    pub(super) fn gauge(&mut self, family: Family<'_>, value: impl Into<Value>) -> fmt::Result {
        self.gauges(family, [([], value)])
    }

    /// What only grows until the service node ends. Their names get `_total`.
    pub(super) fn counters<const N: usize, V: Into<Value>>(
        &mut self,
        family: Family<'_>,
        metrics: impl IntoIterator<Item = (Labels<N>, V)>,
    ) -> fmt::Result {
        let Family { name, help, unit } = family;
        let mut encoder = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        for (labels, value) in metrics {
            encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value.into(), None)?;
        }
        Ok(())
    }

    /// One that is alone.
    pub(super) fn counter(&mut self, family: Family<'_>, value: impl Into<Value>) -> fmt::Result {
        self.counters(family, [([], value)])
    }

    /// What is told by its labels. Their names get `_info`.
    pub(super) fn infos<const N: usize>(
        &mut self,
        family: Family<'_>,
        metrics: impl IntoIterator<Item = Labels<N>>,
    ) -> fmt::Result {
        let Family { name, help, unit } = family;
        let mut encoder = self.0.encode_descriptor(name, help, unit, MetricType::Info)?;
        metrics.into_iter().try_for_each(|labels| encoder.encode_info(&labels))
    }

    /// Times, by how long they were.
    pub(super) fn histogram(&mut self, family: Family<'_>, times: &Distribution) -> fmt::Result {
        let Family { name, help, unit } = family;
        let bounds = BOUNDS_S.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(times.counts).collect();
        let mut encoder = self.0.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        encoder.encode_histogram::<NoLabelSet>(times.sum_s, times.count(), &buckets, None)
    }

    /// Which one of some states each of some things is in: 1 for that, 0 for the others.
    pub(super) fn states<const N: usize>(
        &mut self,
        family: Family<'_>,
        states: &[&'static str],
        things: impl IntoIterator<Item = (Labels<N>, &'static str)>,
    ) -> fmt::Result {
        let Family { name, help, unit } = family;
        let mut encoder = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, state) in things {
            for one in states {
                let labels = (&labels[..], [("state", *one)]);
                encoder.encode_family(&labels)?.encode_gauge(&u64::from(*one == state))?;
            }
        }
        Ok(())
    }
}

/// Text that may have come from anywhere, as a label has it: one short line. The library escapes what is left.
pub(super) fn label(text: &[u8]) -> String {
    let shown = Shown(text).to_string();
    match shown.char_indices().nth(METRICS_LABEL_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

/// The text that something writes.
pub(super) fn text<W>(format: Format, write: W) -> Result<String, fmt::Error>
where
    W: Fn(&mut Families<'_>) -> fmt::Result + Send + Sync + 'static,
{
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Writer(write)));
    let mut written = String::new();
    match format {
        Format::OpenMetrics => text::encode(&mut written, &registry)?,
        Format::Classic => prometheus_text::encode(&mut written, &registry)?,
    }
    Ok(written)
}

/// What writes all families.
struct Writer<W>(W);

impl<W> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

impl<W> Collector for Writer<W>
where
    W: Fn(&mut Families<'_>) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0(&mut Families(encoder))
    }
}
