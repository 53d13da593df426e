//! Sizes, times and shares as people write and read them.

use std::time::Duration;

use coppice_api::limits::{
    CHECKPOINT_INTERVAL_MS_MIN, LINK_LATENCY_NS_MAX, NODE_MEMORY_BYTES_MAX, NODE_MEMORY_BYTES_MIN, NODE_MTBF_MS_MAX,
    NODE_MTBF_MS_MIN, NODE_REGION_BYTES_MAX, NODE_REGION_BYTES_MIN, OUTPUT_LOG_BYTES_MAX, OUTPUT_LOG_BYTES_MIN,
    SAMPLE_HZ_MAX, SAMPLE_HZ_MIN,
};
use coppice_api::link::Bandwidth;
pub(crate) use coppice_api::show::{show_bytes, show_loss, show_ns, show_ranges, show_rate, show_time};

/// `64M`, `1G`, `512MiB`: bytes, in powers of 1024, a whole number of MiB.
pub(crate) fn parse_memory(text: &str) -> Result<u64, String> {
    let error = || {
        let (min, max) = (NODE_MEMORY_BYTES_MIN >> 20, NODE_MEMORY_BYTES_MAX >> 20);
        format!("give a size from {min}M to {max}M, such as 64M or 1G")
    };
    let bytes = parse_bytes(text).ok_or_else(error)?;
    let fits = (NODE_MEMORY_BYTES_MIN..=NODE_MEMORY_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(1 << 20);
    if fits { Ok(bytes) } else { Err(error()) }
}

/// `256M`, `1G`, or `0` for none: a node's region, bytes, a whole number of MiB.
pub(crate) fn parse_region(text: &str) -> Result<u64, String> {
    let fits =
        |bytes: &u64| (NODE_REGION_BYTES_MIN..=NODE_REGION_BYTES_MAX).contains(bytes) && bytes.is_multiple_of(1 << 20);
    let error = || {
        let (min, max) = (NODE_REGION_BYTES_MIN >> 20, NODE_REGION_BYTES_MAX >> 30);
        format!("give a whole number of MiB from {min}M to {max}G, such as 256M or 1G, or 0 for none")
    };
    if text == "0" { Ok(0) } else { parse_bytes(text).filter(fits).ok_or_else(error) }
}

/// `64K`, `1G`: room for output that is kept, bytes.
pub(crate) fn parse_output_size(text: &str) -> Result<u64, String> {
    let (min, max) = (OUTPUT_LOG_BYTES_MIN >> 10, OUTPUT_LOG_BYTES_MAX >> 30);
    let fits = |bytes: &u64| (OUTPUT_LOG_BYTES_MIN..=OUTPUT_LOG_BYTES_MAX).contains(bytes);
    parse_bytes(text).filter(fits).ok_or_else(|| format!("give a size from {min}K to {max}G, such as 64M"))
}

/// `100`: how often a second ranks are sampled.
pub(crate) fn parse_sample_rate(text: &str) -> Result<u32, String> {
    let fits = |hz: &u32| (SAMPLE_HZ_MIN..=SAMPLE_HZ_MAX).contains(hz);
    let error = || format!("give a whole number from {SAMPLE_HZ_MIN} to {SAMPLE_HZ_MAX}, times a second");
    text.parse().ok().filter(fits).ok_or_else(error)
}

/// A number of bytes with its unit, in powers of 1024.
fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "G" | "g" => 1 << 30,
        "M" | "m" => 1 << 20,
        "K" | "k" => 1 << 10,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// `1%`, `0.05%`: a share in millionths.
pub(crate) fn parse_loss(text: &str) -> Result<u32, String> {
    let error = || "give a share from 0% to 100%, such as 1%".to_owned();
    let percent: f64 = text.strip_suffix('%').and_then(|number| number.parse().ok()).ok_or_else(error)?;
    if !(0.0..=100.0).contains(&percent) {
        return Err(error());
    }
    // Exact enough: within the range of u32 by the check above.
    format!("{:.0}", percent * 10_000.0).parse().map_err(|_| error())
}

/// `50us`, `2ms`, `1s`, `100ns`, `10m`, `1h`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let error = || "give a time such as 50us or 2ms".to_owned();
    let (number, unit) = split(text).ok_or_else(error)?;
    let number: u64 = number.parse().map_err(|_| error())?;
    match unit {
        "ns" => Ok(Duration::from_nanos(number)),
        "us" | "µs" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs).ok_or_else(error),
        "h" => number.checked_mul(3600).map(Duration::from_secs).ok_or_else(error),
        _ => Err(error()),
    }
}

/// `12h`, `90d`: how long a node lasts on average, ms.
pub(crate) fn parse_mtbf(text: &str) -> Result<u64, String> {
    let hours = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()?.checked_mul(24));
    let time = match hours {
        Some(hours) => hours.checked_mul(3600).map(Duration::from_secs),
        None => parse_duration(text).ok(),
    };
    let ms = time.and_then(|time| u64::try_from(time.as_millis()).ok());
    let fits = |ms: &u64| (NODE_MTBF_MS_MIN..=NODE_MTBF_MS_MAX).contains(ms);
    ms.filter(fits).ok_or_else(|| "give a time from 1s to 36600d, such as 12h or 90d".to_owned())
}

/// `30s`, `10m`: the time from one checkpoint to the next, ms.
pub(crate) fn parse_checkpoint_interval(text: &str) -> Result<u64, String> {
    let interval = parse_duration(text).ok().and_then(|interval| u64::try_from(interval.as_millis()).ok());
    let least = Duration::from_millis(CHECKPOINT_INTERVAL_MS_MIN);
    interval
        .filter(|ms| *ms >= CHECKPOINT_INTERVAL_MS_MIN)
        .ok_or_else(|| format!("give a time of at least {} s, such as 30s or 10m", least.as_secs_f64()))
}

/// `10`, `0.5`, `10Hz`: how often a second, as the time between, ms.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    let rate: Option<f64> = text.strip_suffix("Hz").unwrap_or(text).parse().ok();
    // What is out of range the service node says.
    let period_ms = rate.filter(|rate| *rate > 0.0).map(|rate| (1000.0 / rate).round());
    let fits = period_ms.filter(|ms| (1.0..1e15).contains(ms)).map(|ms| ms as u64);
    fits.ok_or_else(|| "give how often a second, such as 1, 10 or 0.5".to_owned())
}

/// A time that a link may take.
pub(crate) fn parse_latency(text: &str) -> Result<Duration, String> {
    let latency = parse_duration(text)?;
    let most = Duration::from_nanos(LINK_LATENCY_NS_MAX);
    if latency > most { Err(format!("a link takes at most {}s", most.as_secs())) } else { Ok(latency) }
}

/// A bandwidth, or `none` for a link without limit.
pub(crate) fn parse_link_bandwidth(text: &str) -> Result<Bandwidth, String> {
    if text == "none" { Ok(Bandwidth::Unlimited) } else { parse_bandwidth(text).map(Bandwidth::BitsPerSecond) }
}

/// `1G`, `100M`: bits per second, in powers of 1000.
pub(crate) fn parse_bandwidth(text: &str) -> Result<u64, String> {
    let error = || "give bits per second such as 100M or 1G".to_owned();
    let (number, unit) = split(text).ok_or_else(error)?;
    let factor = match unit {
        "" => 1,
        "K" | "k" => 1_000,
        "M" | "m" => 1_000_000,
        "G" | "g" => 1_000_000_000,
        _ => return Err(error()),
    };
    let bits = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(error)?;
    if bits == 0 { Err(error()) } else { Ok(bits) }
}

fn split(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory() {
        assert_eq!(parse_memory("64M"), Ok(64 << 20));
        assert_eq!(parse_memory("1GiB"), Ok(1 << 30));
        assert_eq!(parse_memory("65536K"), Ok(64 << 20));
        for bad in ["", "M", "64", "1M", "64T", "-64M", "1.5G", "99999999999999999999G", "65537K", "4G"] {
            assert!(parse_memory(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn regions() {
        assert_eq!(parse_region("0"), Ok(0));
        assert_eq!(parse_region("2M"), Ok(2 << 20));
        assert_eq!(parse_region("64G"), Ok(64 << 30));
        for bad in ["", "0M", "1M", "2049K", "65G", "64", "-2M", "99999999999999999999G"] {
            assert!(parse_region(bad).is_err_and(|error| error.contains("or 0 for none")), "{bad}");
        }
    }

    #[test]
    fn network() {
        assert_eq!(parse_loss("1%"), Ok(10_000));
        assert_eq!(parse_loss("0.05%"), Ok(500));
        assert_eq!(parse_loss("100%"), Ok(1_000_000));
        for bad in ["1", "-1%", "101%", "x%", "NaN%", "%"] {
            assert!(parse_loss(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(parse_duration("10m"), Ok(Duration::from_secs(600)));
        assert!(parse_duration("50").is_err() && parse_duration("us").is_err());
        assert!(parse_duration("18446744073709551615h").is_err());
        assert_eq!(parse_checkpoint_interval("1s"), Ok(1000));
        assert_eq!(parse_checkpoint_interval("2h"), Ok(7_200_000));
        for bad in ["999ms", "0s", "30", "s", "-1s", "1d", ""] {
            assert!(parse_checkpoint_interval(bad).is_err_and(|error| error.contains("at least 1 s")), "{bad}");
        }
        assert_eq!(parse_mtbf("90d"), Ok(90 * 86_400_000));
        assert_eq!(parse_mtbf("1s"), Ok(1000));
        assert_eq!(parse_mtbf("36600d"), Ok(NODE_MTBF_MS_MAX));
        for bad in ["", "d", "0d", "999ms", "36601d", "-1d", "1.5d", "18446744073709551615d", "30"] {
            assert!(parse_mtbf(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_bandwidth("1G"), Ok(1_000_000_000));
        assert!(parse_bandwidth("0").is_err() && parse_bandwidth("1T").is_err());
        assert_eq!(parse_link_bandwidth("none"), Ok(Bandwidth::Unlimited));
        assert_eq!(parse_link_bandwidth("9600"), Ok(Bandwidth::BitsPerSecond(9600)));
        assert!(parse_link_bandwidth("0").is_err() && parse_link_bandwidth("None").is_err());
        assert_eq!(parse_latency("60s"), Ok(Duration::from_secs(60)));
        assert!(parse_latency("60001ms").is_err() && parse_latency("1h").is_err());
    }

    #[test]
    fn showing() {
        assert_eq!(show_time(0), "1970-01-01 00:00:00Z");
        assert_eq!(show_time(951_827_696_000_000_000), "2000-02-29 12:34:56Z");
        assert_eq!(show_time(1_798_761_599_999_999_999), "2026-12-31 23:59:59Z");
        assert_eq!(show_time(u64::MAX), "2554-07-21 23:34:33Z");
    }
}
