//! What comes piece by piece: jobs' streams, standard input, lines.

use std::io;

use futures_util::StreamExt;
use http_body_util::combinators::MapErr;
use http_body_util::{BodyDataStream, BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Response};
use serde::de::DeserializeOwned;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::io::StreamReader;

use super::{Client, read_json};
use crate::body::{BYTES_TYPE, ChannelBody};
use crate::cluster::ClusterView;
use crate::error::ApiError;
use crate::limits::ANSWER_TIME_MAX;
use crate::output::LogQuery;
use crate::stream::{StreamDecoder, StreamError, StreamFrame};

/// Pieces of standard input that wait between reader and connection.
const INPUT_PIECES_MAX: usize = 2;

impl Client {
    /// Opens a job's stream. Dropping it before the job ended kills the job.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn stream(&self, job: u64) -> Result<JobStream, ApiError> {
        self.frames(&format!("/v1/jobs/{job}/stream")).await
    }

    /// Opens the stream of a job that somebody else started, from now on. Dropping it changes nothing for the job.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such job or it has ended.
    pub async fn attach(&self, job: u64) -> Result<JobStream, ApiError> {
        self.frames(&format!("/v1/jobs/{job}/attach")).await
    }

    /// What is kept of a job's output.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such job, its output is not kept, or not any more.
    pub async fn log(&self, job: u64, query: &LogQuery) -> Result<JobStream, ApiError> {
        let mut path = format!("/v1/jobs/{job}/log?follow={}", query.follow);
        if let Some(rank) = query.rank {
            path += &format!("&rank={rank}");
        }
        if let Some(stream) = query.stream {
            path += &format!("&stream={}", stream.as_str());
        }
        self.frames(&path).await
    }

    async fn frames(&self, path: &str) -> Result<JobStream, ApiError> {
        let sent = self.send(Method::GET, path, Full::default());
        let response = self.within(ANSWER_TIME_MAX, sent).await?;
        Ok(JobStream(FramedRead::new(reader(response), StreamDecoder)))
    }

    /// What the ranks of a job do, or one of them, from now on: frames of [`StreamFrame::Trace`] until it ends.
    ///
    /// # Errors
    /// [`ApiError`]: there is no such job or rank, it has ended, or somebody traces it.
    pub async fn trace(&self, job: u64, rank: Option<u32>) -> Result<JobStream, ApiError> {
        let query = rank.map(|rank| format!("?rank={rank}")).unwrap_or_default();
        let path = format!("/v1/jobs/{job}/trace{query}");
        self.frames(&path).await
    }

    /// Sends standard input as it comes out of `feed`'s sender; done when the job has it all or takes no more.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn input(&self, job: u64, feed: ChannelBody) -> Result<(), ApiError> {
        let path = format!("/v1/jobs/{job}/input");
        read_json(self.deliver(Method::PUT, &path, BYTES_TYPE, feed).await?).await
    }

    /// A body for [`Client::input`] and the sender that feeds it.
    #[must_use]
    pub fn input_feed() -> (tokio::sync::mpsc::Sender<Bytes>, ChannelBody) {
        ChannelBody::new(INPUT_PIECES_MAX)
    }
}

/// The bytes of an answer as they come.
pub(super) type Reader = StreamReader<BodyDataStream<MapErr<Incoming, fn(hyper::Error) -> io::Error>>, Bytes>;

pub(super) fn reader(response: Response<Incoming>) -> Reader {
    let failed: fn(hyper::Error) -> io::Error = io::Error::other;
    StreamReader::new(BodyDataStream::new(response.into_body().map_err(failed)))
}

/// The stream of a running job.
#[derive(Debug)]
pub struct JobStream(FramedRead<Reader, StreamDecoder>);

impl JobStream {
    /// The next frame; nothing when the stream is over. Cancel-safe.
    ///
    /// # Errors
    /// [`ApiError::Connection`] if the stream broke off, [`ApiError::Damaged`].
    pub async fn next_frame(&mut self) -> Result<Option<StreamFrame>, ApiError> {
        self.0.next().await.transpose().map_err(|error| match error {
            StreamError::Broken(_) => ApiError::Connection(error.to_string()),
            damaged => ApiError::Damaged(damaged.to_string()),
        })
    }
}

/// A cluster's states, one after the other.
#[derive(Debug)]
pub struct Watch(pub(super) FramedRead<Reader, LinesCodec>);

impl Watch {
    /// The next state; nothing when the service node is gone. Cancel-safe.
    ///
    /// # Errors
    /// [`ApiError::Connection`], [`ApiError::Damaged`].
    pub async fn next_state(&mut self) -> Result<Option<ClusterView>, ApiError> {
        next_line(&mut self.0).await
    }
}

/// What the next line of an answer says; nothing when the answer is over. Cancel-safe.
pub(super) async fn next_line<T: DeserializeOwned>(
    lines: &mut FramedRead<Reader, LinesCodec>,
) -> Result<Option<T>, ApiError> {
    let line = lines.next().await.transpose().map_err(|error| match error {
        LinesCodecError::Io(error) => ApiError::Connection(error.to_string()),
        LinesCodecError::MaxLineLengthExceeded => {
            ApiError::Damaged(format!("a line of more than {} bytes", lines.decoder().max_length()))
        }
    })?;
    line.map(|line| serde_json::from_str(&line)).transpose().map_err(|error| ApiError::Damaged(error.to_string()))
}
