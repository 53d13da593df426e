//! The description that lies in `docs/`.

use std::path::Path;

use coppice_api::version::VERSION;
use serde_json::Value;

use crate::support::Cluster;
use crate::support::served::Served;

/// Set by whoever wants the description written anew.
const WRITE: &str = "COPPICE_WRITE_OPENAPI";

#[tokio::test]
async fn the_description_is_kept_as_the_code_says() {
    let served = Served::new(Cluster::up(1, 1));
    let made = served.client.description().await.expect("answered");
    served.down().await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &made).expect("write docs/openapi.json");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    // Not as texts: the order of keys is nobody's promise.
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    assert!(
        read(&kept) == read(&made),
        "docs/openapi.json is not what the code says: `cargo xtask openapi` writes it. If something that was released \
         has changed, the version in host-tools/api/src/version.rs, {VERSION}, grows as is said there"
    );
}
