//! Who answers without an end is given up with one line, and takes no more memory than the limits say.

use std::ffi::OsString;

use coppice_api::limits::{ANSWER_BYTES_MAX, STATE_BYTES_MAX, STREAM_FRAME_BYTES_MAX};
use coppice_api::stream::output_header;
use coppice_api::version::{HEADER, VERSION};
use coppice_api::{ApiError, Client, ClusterPaths};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;

/// A service node that answers every request with `start` and then says `x` for ever.
async fn answers(start: Vec<u8>) -> (tempfile::TempDir, Client) {
    let home = tempfile::tempdir().expect("directory");
    let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| OsString::from(home.path()));
    let paths = ClusterPaths::find_with("c".parse().expect("a name"), variable, 1000).expect("paths");
    std::fs::create_dir_all(paths.runtime()).expect("made");
    let listener = UnixListener::bind(paths.api_socket()).expect("bound");
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let mut connection = BufReader::new(connection);
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                connection.read_line(&mut line).await.expect("a request");
            }
            let head = format!("HTTP/1.1 200 OK\r\n{HEADER}: {VERSION}\r\ncontent-type: application/json\r\n\r\n");
            let mut said = connection.write_all(&[head.as_bytes(), &start].concat()).await;
            let more = vec![b'x'; 1 << 20];
            while said.is_ok() {
                said = connection.write_all(&more).await;
            }
        }
    });
    (home, Client::new(paths))
}

fn damaged<T: std::fmt::Debug>(result: Result<T, ApiError>, limit: usize) {
    let Err(ApiError::Damaged(what)) = result else { panic!("{result:?}") };
    assert!(what.contains(&limit.to_string()) && !what.contains('\n'), "{what}");
}

#[tokio::test]
async fn answers_states_and_frames_have_limits() {
    let (_home, client) = answers(Vec::new()).await;
    damaged(client.nodes().await, ANSWER_BYTES_MAX);
    damaged(client.watch().await.expect("a stream").next_state().await, STATE_BYTES_MAX);
    let longer = STREAM_FRAME_BYTES_MAX + 1;
    let (_home, client) = answers(
        output_header(0, coppice_protocol::ship::Stream::Output, u32::try_from(longer).expect("short")).to_vec(),
    )
    .await;
    damaged(client.stream(1).await.expect("a stream").next_frame().await, longer);
}
