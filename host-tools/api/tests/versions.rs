//! A client that meets a service node of another version.

use coppice_api::version::VERSION;
use coppice_api::{ApiError, Client, ClusterPaths};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

/// A client of somebody who answers everybody with this status, these further lines of a head, and nothing else.
fn client(home: &tempfile::TempDir, status: &'static str, head: String) -> Client {
    let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| home.path().as_os_str().to_owned());
    let paths = ClusterPaths::find_with("test".parse().expect("a name"), variable, 0).expect("paths");
    paths.create().expect("directories");
    let listener = UnixListener::bind(paths.api_socket()).expect("a socket");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = format!("HTTP/1.1 {status}\r\n{head}content-length: 4\r\nconnection: close\r\n\r\nnull");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Client::new(paths)
}

#[tokio::test]
async fn another_version_is_told_in_one_line_and_can_be_ended() {
    let (major, minor) = (VERSION.major, VERSION.minor);
    for (told, words) in [
        (Some(format!("{}.0", major + 1)), format!("coppiced speaks version {}.0 of its API", major + 1)),
        (Some("nonsense".to_owned()), "coppiced speaks an older version of its API".to_owned()),
        (None, "coppiced speaks an older version of its API".to_owned()),
    ] {
        let head = told.map(|version| format!("coppice-api-version: {version}\r\n")).unwrap_or_default();
        // Also a refusal, which another version may mean in another way.
        for status in ["200 OK", "404 Not Found"] {
            let home = tempfile::tempdir().expect("a directory");
            let client = client(&home, status, head.clone());
            let error = client.nodes().await.expect_err("not understood");
            assert!(matches!(error, ApiError::Version { .. }), "{error:?}");
            let error = error.to_string();
            assert!(error.starts_with(&words) && !error.contains('\n'), "{error}");
            assert!(error.contains("`coppice down`") && error.contains(&VERSION.to_string()), "{error}");
            assert!(matches!(client.wait(1).await, Err(ApiError::Version { .. })));
            assert_eq!(client.down().await.is_ok(), status == "200 OK");
        }
    }
    // A newer one with the same MAJOR has all that is known here.
    let home = tempfile::tempdir().expect("a directory");
    let head = format!("coppice-api-version: {major}.{}\r\n", minor + 1);
    assert!(client(&home, "200 OK", head).reboot(1).await.is_ok());
}
