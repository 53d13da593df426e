//! What ChromeDriver can do that WebDriver has no command for.

use fantoccini::wd::WebDriverCompatibleCommand;
use http::Method;
use serde_json::{Value, json};
use url::{ParseError, Url};

use super::Browser;

/// What pages look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The user wants light text on dark ground.
    pub is_dark: bool,
    /// Width of the page.
    pub width: u32,
}

/// Something that the browser complains of.
#[derive(Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What part of it: `security`, `network`, `javascript`, and others.
    pub source: String,
    /// In words.
    pub text: String,
}

/// A request to one of its own addresses.
#[derive(Debug)]
struct Command {
    path: &'static str,
    body: Value,
}

impl Command {
    /// What was logged since it was last asked for that, of one kind.
    fn log(kind: &str) -> Self {
        Self { path: "se/log", body: json!({ "type": kind }) }
    }

    /// A command of the protocol for developers' tools.
    fn tools(method: &str, parameters: &Value) -> Self {
        Self { path: "goog/cdp/execute", body: json!({ "cmd": method, "params": parameters }) }
    }
}

impl WebDriverCompatibleCommand for Command {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    #[track_caller]
    fn command(&self, command: Command) -> Value {
        self.wait("a command of the driver's own", self.client.issue_cmd(command))
    }

    /// Has pages look so from now on.
    #[track_caller]
    pub fn set_look(&self, look: Look) {
        let scheme = if look.is_dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        let _ = self.command(Command::tools("Emulation.setEmulatedMedia", &features));
        let size = json!({ "width": look.width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        let _ = self.command(Command::tools("Emulation.setDeviceMetricsOverride", &size));
    }

    /// All of the page as an image, PNG.
    #[must_use]
    #[track_caller]
    pub fn image(&self) -> Vec<u8> {
        use base64::Engine;
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.command(Command::tools("Page.captureScreenshot", &whole));
        let encoded = answer["data"].as_str().expect("an image");
        base64::engine::general_purpose::STANDARD.decode(encoded).expect("as it says")
    }

    #[track_caller]
    fn logged(&self, kind: &str) -> Vec<Value> {
        match self.command(Command::log(kind)) {
            Value::Array(entries) => entries,
            other => panic!("no log: {other}"),
        }
    }

    /// What it has complained of since it was last asked: errors of scripts, what a page may not load and tried to,
    /// what was refused.
    #[must_use]
    #[track_caller]
    pub fn complaints(&self) -> Vec<Complaint> {
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let entries = self.logged("browser");
        entries.iter().map(|entry| Complaint { source: text(entry, "source"), text: text(entry, "message") }).collect()
    }

    /// The addresses that pages have asked for since that was last asked.
    #[must_use]
    #[track_caller]
    pub fn requests(&self) -> Vec<String> {
        let message = |entry: &Value| -> Value {
            let text = entry["message"].as_str().expect("a message");
            serde_json::from_str::<Value>(text).expect("JSON")["message"].clone()
        };
        let messages = self.logged("performance");
        let asked = messages.iter().map(message).filter(|message| message["method"] == "Network.requestWillBeSent");
        asked.map(|message| message["params"]["request"]["url"].as_str().expect("an address").to_owned()).collect()
    }
}
