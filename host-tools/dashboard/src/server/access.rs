//! Who may see pages: whoever has the token that was printed when the dashboard began, from a browser that went there
//! itself.
//!
//! The token comes with the first address once and is a cookie from then on, which no script sees and no other site's
//! page brings along. A name that leads to loopback but is not its own is refused, so that no page of another site can
//! have the browser take the dashboard for that site's (DNS rebinding); so is an order that comes from a page of
//! another site. Pages may load nothing of other hosts.

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;

/// Bytes of a token, which nobody guesses.
const TOKEN_BYTES: usize = 32;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of all answers.
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // With less a browser would not say of an order which page it is from.
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
];

const REFUSAL: &str = "This is no address of this dashboard, or its token is not (any more). Use the one that `coppice \
                       dashboard` printed when it began.\n";

/// Whom a dashboard lets in.
#[derive(Clone, Debug)]
pub struct Access {
    port: u16,
    token: String,
}

impl Access {
    /// With a new token, for a dashboard at that port of loopback.
    ///
    /// # Errors
    /// The host has no random numbers.
    pub fn new(port: u16) -> std::io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self { port, token: bytes.iter().map(|byte| format!("{byte:02x}")).collect() })
    }

    /// One whose token is known.
    #[cfg(test)]
    pub(super) fn of(port: u16, token: &str) -> Self {
        Self { port, token: token.to_owned() }
    }

    /// Where a browser is to go first.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// Cookies are of a host, whatever its port: each dashboard has one of its own.
    fn cookie(&self) -> String {
        format!("coppice-{}", self.port)
    }

    fn is_token(&self, given: &str) -> bool {
        let differs = |sum, (one, other): (u8, u8)| sum | (one ^ other);
        // As long for one that is wrong in the end as for one that is wrong at once.
        given.len() == self.token.len() && given.bytes().zip(self.token.bytes()).fold(0, differs) == 0
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie() && self.is_token(value))
    }

    fn names(&self) -> [String; 2] {
        ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port))
    }

    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        host.is_some_and(|host| self.names().iter().any(|name| name == host))
    }

    /// An order says where its page is from; that there is none is no page of ours.
    fn is_own_page(&self, headers: &HeaderMap) -> bool {
        let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
        origin.is_some_and(|origin| self.names().iter().any(|name| origin.strip_prefix("http://") == Some(name)))
    }
}

/// The token in an address, and the address without it.
fn taken_from(request: &Request) -> Option<(String, String)> {
    let query = request.uri().query()?;
    let token = query.split('&').find_map(|pair| pair.strip_prefix("token="))?;
    let rest: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("token=")).collect();
    // With two strokes in front it would be the address of another host.
    let path = format!("/{}", request.uri().path().trim_start_matches('/'));
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Some((token.to_owned(), format!("{path}{query}")))
}

/// Lets through what may be, and says with each answer what a page may load.
pub(super) async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let access = &shared.access;
    let is_order = ![Method::GET, Method::HEAD].contains(request.method());
    let mut response = if !access.is_own_host(request.headers()) {
        (StatusCode::MISDIRECTED_REQUEST, REFUSAL).into_response()
    } else if is_order && !(access.has_cookie(request.headers()) && access.is_own_page(request.headers())) {
        (StatusCode::FORBIDDEN, REFUSAL).into_response()
    } else if let Some((token, address)) = taken_from(&request) {
        if access.is_token(&token) { enter(access, &address) } else { (StatusCode::FORBIDDEN, REFUSAL).into_response() }
    } else if access.has_cookie(request.headers()) {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, REFUSAL).into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Makes the token a cookie, and goes on without it in the address, where it would be seen and kept.
fn enter(access: &Access, address: &str) -> Response {
    let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", access.cookie(), access.token);
    (StatusCode::SEE_OTHER, [(SET_COOKIE, cookie), (LOCATION, address.to_owned())]).into_response()
}
