//! Which format whoever scrapes wants.

use prometheus_client::encoding::prometheus_text;

/// How the text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' own, 0.0.4.
    Classic,
}

impl Format {
    /// What is wanted most by these lists of what is accepted; OpenMetrics unless the other one is wanted more.
    pub fn accepted<'a>(lists: impl IntoIterator<Item = &'a str>) -> Self {
        let ranges: Vec<Range<'_>> = lists.into_iter().flat_map(|list| list.split(',')).map(Range::parse).collect();
        let open = quality(&ranges, "application", "openmetrics-text");
        if quality(&ranges, "text", "plain") > open { Self::Classic } else { Self::OpenMetrics }
    }

    /// What it is called in HTTP.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// One item of such a list.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f32,
}

impl<'a> Range<'a> {
    fn parse(item: &'a str) -> Self {
        let mut parts = item.split(';').map(str::trim);
        let (kind, subtype) = parts.next().and_then(|name| name.split_once('/')).unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        Self { kind, subtype, quality: weight.and_then(|weight| weight.parse().ok()).unwrap_or(1.0) }
    }

    /// How closely it names a type, if it means it at all.
    fn closeness(&self, kind: &str, subtype: &str) -> Option<u8> {
        let is_kind = self.kind.eq_ignore_ascii_case(kind);
        match (self.kind, self.subtype) {
            ("*", "*") => Some(0),
            (_, "*") if is_kind => Some(1),
            (_, named) if is_kind && named.eq_ignore_ascii_case(subtype) => Some(2),
            _ => None,
        }
    }
}

/// How much a type is wanted: as what names it most closely says; of several, the one that wants it most.
fn quality(ranges: &[Range<'_>], kind: &str, subtype: &str) -> f32 {
    let meant = ranges.iter().filter_map(|range| Some((range.closeness(kind, subtype)?, range.quality)));
    meant.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map_or(0.0, |(_, quality)| quality)
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn the_older_format_is_for_those_who_want_it_more() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for list in ["", "*/*", prometheus, "text/*;q=0.2,application/*", "text/plain;q=0", "nonsense", ";q=x,/,,"] {
            assert_eq!(Format::accepted([list]), Format::OpenMetrics, "{list}");
        }
        let older = "text/plain;version=0.0.4;q=1,*/*;q=0.1";
        for list in ["text/plain", "Text/Plain; charset=utf-8", older, "text/*, application/openmetrics-text; q=0.3"] {
            assert_eq!(Format::accepted([list]), Format::Classic, "{list}");
        }
        assert_eq!(Format::accepted(["text/html", "text/plain"]), Format::Classic);
        assert_eq!(Format::accepted([]), Format::OpenMetrics);
    }
}
