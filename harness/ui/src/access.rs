//! Who may see a page: the server listens on the loopback interface alone, with a token in the link,
//! which becomes a cookie. Requests that change something need a header that other sites cannot
//! send.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use tokio::net::TcpListener;

const COOKIE: &str = "schedlab-ui";

/// The header that requests with effects must have. Another site cannot send it without the
/// permission of this server, which gives none.
pub(crate) const CHANGE_HEADER: &str = "x-schedlab-ui";

/// A listener on the loopback interface, and the token of its links.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) listener: TcpListener,
    pub(crate) token: Token,
}

/// The secret that a link has.
#[derive(Clone, Debug)]
pub(crate) struct Token(pub(crate) Arc<str>);

impl Access {
    /// Listens on this port of the loopback interface; port 0 picks a free one.
    ///
    /// # Errors
    /// The port is taken.
    pub(crate) async fn bind(port: u16) -> anyhow::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        Ok(Self { listener, token: Token::new()? })
    }

    /// The link to the page, with its token.
    ///
    /// # Errors
    /// The operating system does not tell the address.
    pub(crate) fn url(&self) -> anyhow::Result<String> {
        Ok(format!("http://{}/?token={}", self.listener.local_addr()?, self.token.0))
    }
}

impl Token {
    fn new() -> anyhow::Result<Self> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
        Ok(Self(Arc::from(format!("{:032x}", u128::from_ne_bytes(bytes)))))
    }
}

/// Protects the routes of a router, and adds the headers of security to all responses.
/// `open_routes` have no secret and need no token.
pub(crate) fn protect(
    routes: Router,
    open_routes: Router,
    token: Token,
    policy: &'static str,
) -> Router {
    let add_headers = move |response| async move { add_security_headers(response, policy) };
    routes
        .layer(middleware::from_fn_with_state(token, authenticate))
        .merge(open_routes)
        .layer(middleware::map_response(add_headers))
}

fn add_security_headers(mut response: Response<Body>, policy: &'static str) -> Response<Body> {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[derive(Deserialize)]
struct TokenQuery {
    token: Option<String>,
}

/// Lets requests pass that have the token, in the link or as a cookie, and a host name of the
/// loopback interface.
async fn authenticate(
    State(token): State<Token>,
    Query(query): Query<TokenQuery>,
    request: Request,
    next: Next,
) -> Response {
    if !is_local_host(request.headers()) {
        return (StatusCode::FORBIDDEN, "the host must be localhost or 127.0.0.1").into_response();
    }
    if query.token.as_deref() == Some(&*token.0) {
        let cookie = format!("{COOKIE}={}; HttpOnly; SameSite=Strict; Path=/", token.0);
        return ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response();
    }
    if !has_cookie(request.headers(), &token.0) {
        let message = "the token is wrong or missing: open the link that schedlab printed";
        return (StatusCode::UNAUTHORIZED, message).into_response();
    }
    let changes = request.method() != axum::http::Method::GET;
    if changes && !request.headers().contains_key(CHANGE_HEADER) {
        let message = format!("the header {CHANGE_HEADER} is missing");
        return (StatusCode::FORBIDDEN, message).into_response();
    }
    next.run(request).await
}

/// Whether the request names this machine, so that no other name can be made to point here.
fn is_local_host(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "localhost" | "127.0.0.1")
}

fn has_cookie(headers: &HeaderMap, token: &str) -> bool {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).map(str::trim);
    pairs.any(|pair| {
        pair.strip_prefix(COOKIE).and_then(|rest| rest.strip_prefix('=')) == Some(token)
    })
}
