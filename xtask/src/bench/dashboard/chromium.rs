//! Debian's Chromium without a window, told what to do through its pipe for developers' tools: messages in JSON, each
//! ended by a zero byte. It ends when the pipe does, so also when this process is killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

const CHROMIUM: &str = "/usr/bin/chromium";

/// How long it may take for anything: longer than it takes to give up on a page.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(120);

/// It reads from its third and writes to its fourth descriptor.
const AS_IT_WANTS_THEM: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// What a page says once it was painted and is all there; it gives up after a minute.
const PAINTED: &str = "
    new Promise((done, fail) => {
        setTimeout(() => fail(new Error('nothing was painted in a minute')), 60000);
        const look = () => {
            const [page] = performance.getEntriesByType('navigation');
            const [paint] = performance.getEntriesByName('first-contentful-paint');
            if (!page || !page.loadEventEnd || !paint) {
                return setTimeout(look, 5);
            }
            done({ status: page.responseStatus, paint: paint.startTime, loaded: page.loadEventEnd });
        };
        look();
    })";

/// See this module.
pub(super) struct Chromium {
    orders: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
    child: Child,
    session: Option<String>,
    orders_given: u64,
}

/// How long after it was asked for a page was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Painted {
    /// The first of it that is text or a picture.
    pub(super) first: Duration,
    /// Loaded, with its styles and scripts; what was loaded last may be painted later.
    pub(super) loaded: Duration,
}

/// Why there is none, in a word.
pub(super) fn missing() -> Option<&'static str> {
    (!Path::new(CHROMIUM).exists()).then_some("absent")
}

impl Chromium {
    /// One with an empty page, and its files in that directory.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(home: &Path) -> Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", AS_IT_WANTS_THEM, "chromium", CHROMIUM]);
        command.args(["--headless", "--remote-debugging-pipe", "--disable-dev-shm-usage", "--window-size=1280,800"]);
        command.arg(format!("--user-data-dir={}", home.join("chromium").display()));
        // Its sandbox is made by an unprivileged user for himself.
        if rustix::process::geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        command.env("HOME", home).env("TMPDIR", home).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start /bin/sh")?;
        let said = BufReader::new(child.stdout.take().context("it has an output")?);
        let orders = child.stdin.take();
        let mut chromium = Self { orders, said, child, session: None, orders_given: 0 };
        let page = chromium.order("Target.createTarget", &json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let session = chromium.order("Target.attachToTarget", &attach)?;
        chromium.session = Some(session["sessionId"].as_str().context("Chromium has no session")?.to_owned());
        Ok(chromium)
    }

    /// Goes to an address, and says when what is there was seen.
    ///
    /// # Errors
    /// If it does not come there, or the page is no answer but an error.
    pub(super) fn painted(&mut self, address: &str) -> Result<Painted> {
        self.go("about:blank")?;
        self.go(address)?;
        let asked = json!({ "expression": PAINTED, "awaitPromise": true, "returnByValue": true });
        let said = self.order("Runtime.evaluate", &asked)?;
        let page = &said["result"]["value"];
        let after = |what: &str| page[what].as_f64().map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1e3));
        match (page["status"].as_u64(), after("paint"), after("loaded")) {
            (Some(200), Some(first), Some(loaded)) => Ok(Painted { first, loaded }),
            _ => bail!("{address} was not seen: {said}"),
        }
    }

    fn go(&mut self, address: &str) -> Result<()> {
        let gone = self.order("Page.navigate", &json!({ "url": address }))?;
        match gone["errorText"].as_str() {
            Some(error) => bail!("{address}: {error}"),
            None => Ok(()),
        }
    }

    /// Has it do something, and waits for what comes of it.
    fn order(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.orders_given += 1;
        let mut order = json!({ "id": self.orders_given, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let orders = self.orders.as_mut().context("Chromium has ended")?;
        write!(orders, "{order}\0").and_then(|()| orders.flush()).context("Chromium has ended")?;
        let end = Instant::now() + ANSWER_TIME_MAX;
        loop {
            let mut message = Vec::new();
            while message.pop_if(|last| *last == 0).is_none() {
                self.wait_until(end).with_context(|| format!("Chromium does not do {method}"))?;
                let said = self.said.fill_buf()?;
                let count = said.iter().position(|byte| *byte == 0).map_or(said.len(), |end| end + 1);
                if count == 0 {
                    bail!("Chromium ended at {method}");
                }
                message.extend_from_slice(&said[..count]);
                self.said.consume(count);
            }
            let mut message: Value = serde_json::from_slice(&message).context("Chromium says no JSON")?;
            if message["id"] == self.orders_given {
                if !message["error"].is_null() {
                    bail!("Chromium does not do {method}: {}", message["error"]);
                }
                return Ok(message["result"].take());
            }
        }
    }

    /// Waits until it has said something, or has ended.
    fn wait_until(&self, end: Instant) -> Result<()> {
        if self.said.buffer().is_empty() {
            let left = Timespec::try_from(end.saturating_duration_since(Instant::now()))?;
            let mut said = [PollFd::new(self.said.get_ref(), PollFlags::IN)];
            if poll(&mut said, Some(&left))? == 0 {
                bail!("it has not answered for {} s", ANSWER_TIME_MAX.as_secs());
            }
        }
        Ok(())
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // With this its other processes end, which a signal to the first would leave.
        self.session = None;
        if self.order("Browser.close", &json!({})).is_err() {
            let _ = self.child.kill();
        }
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}
