//! A browser as people have it: Debian's Chromium, without a window, driven over WebDriver, with a profile of its own.
//!
//! A page is waited for by its own events: a script in the page looks again whenever the page has changed
//! ([`Browser::until`]). Names of other hosts lead nowhere; that a page asks for one is seen all the same
//! ([`Browser::requests`]).

mod accessibility;
mod commands;
mod driver;

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::error::CmdError;
use fantoccini::wd::{Locator, WindowHandle};
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use self::driver::Driver;

pub use fantoccini::key::Key;

pub use self::commands::{Complaint, Look};

const CHROMIUM: &str = "/usr/bin/chromium";

/// How long anything may take that is waited for, also beside another cluster on two cores.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How much later it is said here that something has taken too long than in the browser, which knows more.
const SLACK: Duration = Duration::from_secs(30);

/// A name that leads to this host, as any site may have one.
pub const OTHER_SITE: &str = "site.example";

/// Which names lead where.
const HOSTS: &str = "MAP site.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost";

/// What the driver says when a page goes in which a script waits.
const UNLOADED: &str = "document unloaded while waiting for result";

/// Whether a script waits no more because its page has gone. If the next one is another site's, the driver calls it a
/// timeout before the time is up.
fn is_cut_off(error: &CmdError) -> bool {
    error.is_script_timeout() || error.is_javascript_error() && error.to_string().contains(UNLOADED)
}

/// Looks at what is wanted now and whenever the page has changed.
const UNTIL: &str = "
    const done = arguments[arguments.length - 1];
    const wanted = () => (WANTED);
    let observer;
    const look = () => {
        const found = wanted();
        if (found) {
            observer.disconnect();
            done(found);
        }
    };
    observer = new MutationObserver(look);
    observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    look();";

/// See this module. Both it and its driver end when this is dropped.
pub struct Browser {
    // Dropped in this order: nobody asks a driver that is gone.
    client: Client,
    runtime: Runtime,
    driver: Driver,
}

impl Browser {
    /// One with an empty page.
    ///
    /// # Panics
    /// If there is none, or it does not start.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        let driver = Driver::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut arguments = vec![
            "--headless".to_owned(),
            "--remote-debugging-pipe".to_owned(),
            // Where tests run there may be little room for shared memory.
            "--disable-dev-shm-usage".to_owned(),
            // All of a page's width is its own, as where they lie over it.
            "--hide-scrollbars".to_owned(),
            format!("--user-data-dir={}", driver.profile().display()),
            format!("--host-resolver-rules={HOSTS}"),
        ];
        // Its sandbox is made by an unprivileged user for himself.
        if rustix::process::geteuid().is_root() {
            arguments.push("--no-sandbox".to_owned());
        }
        let limit_ms = u64::try_from(TIME_MAX.as_millis()).expect("not as long");
        let wanted = json!({
            "goog:chromeOptions": { "binary": CHROMIUM, "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "timeouts": { "script": limit_ms, "pageLoad": limit_ms, "implicit": 0 },
        });
        let Value::Object(wanted) = wanted else { unreachable!("it is one") };
        let address = format!("http://127.0.0.1:{}", driver.port);
        let connecting = async {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            tokio::time::timeout(TIME_MAX, builder.capabilities(wanted).connect(&address)).await
        };
        let client = match runtime.block_on(connecting) {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => panic!("{CHROMIUM} does not start: {error}: {}", driver.log()),
            Err(late) => panic!("{CHROMIUM} does not start: {late}: {}", driver.log()),
        };
        let browser = Self { client, runtime, driver };
        // The page that it begins with is its own, and so is what that asks for.
        browser.open("about:blank");
        let _ = browser.requests();
        browser
    }

    #[track_caller]
    fn wait<T, E: Display>(&self, what: &str, future: impl Future<Output = Result<T, E>>) -> T {
        match self.runtime.block_on(async { tokio::time::timeout(TIME_MAX + SLACK, future).await }) {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => panic!("{what}: {error}; the driver says: {}", self.driver.log()),
            Err(late) => panic!("{what}: {late}; the driver says: {}", self.driver.log()),
        }
    }

    /// Goes to an address.
    ///
    /// # Panics
    /// As all of these: if it does not come about, within a time.
    #[track_caller]
    pub fn open(&self, address: &str) {
        self.wait(address, self.client.goto(address));
    }

    /// Loads the page again.
    #[track_caller]
    pub fn reload(&self) {
        self.wait("reload", self.client.refresh());
    }

    /// Where it is.
    #[must_use]
    #[track_caller]
    pub fn address(&self) -> String {
        self.wait("address", self.client.current_url()).into()
    }

    /// Clicks on an element that leads to a page, and waits for that, also if it is at the same address.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let _ = self.run("window.isLeft = true;");
        self.wait(selector, async { self.client.find(Locator::Css(selector)).await?.click().await });
        // A click is over before the page is left that a form is on.
        let _ = self.until("!window.isLeft");
    }

    /// Presses a key and lets it go.
    #[track_caller]
    pub fn press(&self, key: Key) {
        let value = char::from(key);
        let pressed = KeyActions::new("keys".to_owned()).then(KeyAction::Down { value }).then(KeyAction::Up { value });
        self.wait("press a key", self.client.perform_actions(pressed));
    }

    /// What the body of a function in the page returns.
    #[track_caller]
    pub fn run(&self, body: &str) -> Value {
        self.wait(body, self.client.execute(body, Vec::new()))
    }

    /// What an expression in the page is.
    #[must_use]
    #[track_caller]
    pub fn value(&self, expression: &str) -> Value {
        self.run(&format!("return ({expression});"))
    }

    /// What a promise in the page comes to.
    #[must_use]
    #[track_caller]
    pub fn promised(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1];
             ({expression}).then(value => done({{ value }}), error => done({{ error: String(error) }}));"
        );
        self.wait(expression, self.client.execute_async(&script, Vec::new()))
    }

    /// The text of an element, as it is seen.
    #[must_use]
    #[track_caller]
    pub fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({})?.innerText", json!(selector)));
        text.as_str().unwrap_or_else(|| panic!("no {selector} at {}", self.address())).to_owned()
    }

    /// Waits until an expression is true in the page, or something that counts as that, and gives what it is.
    #[track_caller]
    pub fn until(&self, expression: &str) -> Value {
        let script = UNTIL.replace("WANTED", expression);
        let waiting = async {
            let since = Instant::now();
            loop {
                match self.client.execute_async(&script, Vec::new()).await {
                    // Another page has come, in which it is waited for as well.
                    Err(error) if is_cut_off(&error) && since.elapsed() < TIME_MAX => {}
                    other => return other,
                }
            }
        };
        match self.runtime.block_on(async { tokio::time::timeout(TIME_MAX + SLACK, waiting).await }) {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => panic!("not true: {expression}: {error}; the page says: {}", self.text("body")),
            Err(late) => panic!("not true: {expression}: {late}; the page says: {}", self.text("body")),
        }
    }

    /// Waits until an element has this text in it.
    #[track_caller]
    pub fn until_text(&self, selector: &str, text: &str) {
        self.until(&format!("document.querySelector({})?.innerText.includes({})", json!(selector), json!(text)));
    }

    /// The rows of a table: the texts of their cells.
    #[must_use]
    #[track_caller]
    pub fn rows(&self, table: &str) -> Vec<Vec<String>> {
        let rows = format!("[...document.querySelectorAll({} + ' tbody tr')]", json!(table));
        let rows = self.value(&format!("{rows}.map(row => [...row.cells].map(cell => cell.innerText))"));
        serde_json::from_value(rows).expect("texts")
    }

    /// Opens another window, in which all goes on; gives the one before.
    #[must_use]
    #[track_caller]
    pub fn open_window(&self) -> WindowHandle {
        let before = self.wait("the window", self.client.window());
        let opened = self.wait("a window", self.client.new_window(true));
        self.wait("the new window", self.client.switch_to_window(opened.handle));
        before
    }

    /// Goes on in a window.
    #[track_caller]
    pub fn go_to_window(&self, window: WindowHandle) {
        self.wait("the window", self.client.switch_to_window(window));
    }
}
