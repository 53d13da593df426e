//! Asks over the real socket, and holds all of it against the description.

use std::collections::BTreeSet;
use std::path::PathBuf;

use coppice_api::body::{BYTES_TYPE, JSON_TYPE};
use coppice_api::stream::{StreamDecoder, StreamFrame};
use coppice_api::version::{HEADER, VERSION};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::Decoder;

use super::description::Description;

/// Whoever asks, and what he has asked for.
pub(crate) struct Caller {
    socket: PathBuf,
    pub(crate) description: Description,
    /// Requests that were done, by name.
    pub(crate) done: BTreeSet<String>,
    /// Those that were refused.
    pub(crate) refused: BTreeSet<String>,
}

/// An answer that goes on.
pub(crate) struct Going {
    method: &'static str,
    path: String,
    content_type: String,
    body: Incoming,
}

impl Caller {
    pub(crate) fn new(socket: PathBuf, description: &str) -> Self {
        let description = Description::new(description);
        Self { socket, description, done: BTreeSet::new(), refused: BTreeSet::new() }
    }

    /// Asks; the answer begins with this status, is of a type that is described, and says which version it is of.
    async fn begin(&mut self, method: &'static str, path: &str, order: Body<'_>, status: u16) -> Going {
        let operation = self.description.operation(method, path);
        let (content_type, bytes) = match order {
            Body::None => (JSON_TYPE, Vec::new()),
            Body::Json(order) => (JSON_TYPE, order.to_string().into_bytes()),
            Body::Raw(bytes) => (BYTES_TYPE, bytes.to_vec()),
        };
        // What makes no sense need not be as is described.
        if status != 400 {
            operation.check_order(content_type, if let Body::Json(order) = order { Some(order) } else { None });
        }
        let response = self.exchange(method, path, content_type, bytes).await;
        let got = response.status().as_u16();
        let headers = response.headers();
        assert_eq!(headers[HEADER], VERSION.to_string(), "{method} {path}");
        let content_type = headers["content-type"].to_str().expect("text").to_owned();
        let going = Going { method, path: path.to_owned(), content_type, body: response.into_body() };
        if got != status {
            panic!("{method} {path}: {got} and not {status}: {}", String::from_utf8_lossy(&going.bytes().await));
        }
        operation.check_answer(status, &going.content_type, &[]);
        let asked = if status == 200 { &mut self.done } else { &mut self.refused };
        asked.insert(operation.name());
        going
    }

    async fn exchange(&self, method: &str, path: &str, content_type: &str, body: Vec<u8>) -> Response<Incoming> {
        let stream = UnixStream::connect(&self.socket).await.expect("a socket");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("connected");
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header("host", "coppice");
        let request = request.header("content-type", content_type).body(Full::new(Bytes::from(body)));
        sender.send_request(request.expect("a request")).await.expect("an answer")
    }

    /// Asks, and gives the whole answer, which is JSON.
    async fn json(&mut self, method: &'static str, path: &str, order: Body<'_>, status: u16) -> Value {
        let going = self.begin(method, path, order, status).await;
        assert_eq!(going.content_type, JSON_TYPE, "{method} {path}");
        self.rest_as_json(going, status).await
    }

    async fn rest_as_json(&self, going: Going, status: u16) -> Value {
        let (method, path, content_type) = (going.method, going.path.clone(), going.content_type.clone());
        let value: Value = serde_json::from_slice(&going.bytes().await).expect("JSON");
        let operation = self.description.operation(method, &path);
        operation.check_answer(status, &content_type, std::slice::from_ref(&value));
        if status != 200 {
            let line = value["error"].as_str().expect("why");
            assert!(!line.is_empty() && !line.contains('\n'), "{line}");
        }
        value
    }

    pub(crate) async fn get(&mut self, path: &str) -> Value {
        self.json("GET", path, Body::None, 200).await
    }

    /// Gives an order.
    pub(crate) async fn post(&mut self, path: &str, order: &Value) -> Value {
        self.json("POST", path, Body::Json(order), 200).await
    }

    /// Gives one that has nothing in it.
    pub(crate) async fn post_nothing(&mut self, path: &str) -> Value {
        self.json("POST", path, Body::None, 200).await
    }

    pub(crate) async fn get_refused(&mut self, path: &str, status: u16) {
        self.json("GET", path, Body::None, status).await;
    }

    pub(crate) async fn post_refused(&mut self, path: &str, order: &Value, status: u16) {
        let order = if order.is_null() { Body::None } else { Body::Json(order) };
        self.json("POST", path, order, status).await;
    }

    /// Sends standard input.
    pub(crate) async fn put(&mut self, path: &str, bytes: &[u8], status: u16) -> Value {
        self.json("PUT", path, Body::Raw(bytes), status).await
    }

    /// Asks for what comes piece by piece.
    pub(crate) async fn open(&mut self, path: &str) -> Going {
        self.begin("GET", path, Body::None, 200).await
    }

    /// The same, with an order.
    pub(crate) async fn open_post(&mut self, path: &str, order: &Value) -> Going {
        self.begin("POST", path, Body::Json(order), 200).await
    }

    /// All lines that come.
    pub(crate) async fn lines(&self, going: Going) -> Vec<Value> {
        let (method, path, content_type) = (going.method, going.path.clone(), going.content_type.clone());
        let bytes = going.bytes().await;
        let lines =
            bytes.split_inclusive(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).expect("JSON"));
        let lines: Vec<Value> = lines.collect();
        self.description.operation(method, &path).check_answer(200, &content_type, &lines);
        lines
    }

    /// All frames that come.
    pub(crate) async fn frames(&self, going: Going) -> Vec<StreamFrame> {
        let mut bytes = BytesMut::from(&going.bytes().await[..]);
        let mut frames = Vec::new();
        while let Some(frame) = StreamDecoder.decode_eof(&mut bytes).expect("whole frames") {
            if let StreamFrame::Event(event) = &frame {
                let event = serde_json::to_value(event).expect("plain data");
                self.description.check("JobEvent", &event).expect("as is described");
            }
            frames.push(frame);
        }
        frames
    }
}

/// What is sent.
#[derive(Clone, Copy)]
enum Body<'a> {
    None,
    Json(&'a Value),
    Raw(&'a [u8]),
}

impl Going {
    /// All that comes.
    pub(crate) async fn bytes(self) -> Bytes {
        self.body.collect().await.expect("all of it").to_bytes()
    }
}
