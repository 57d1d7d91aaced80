//! The HTTP server of the page of a cluster.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Form, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream::{self, Stream};
use maud::Markup;
use schedlab_api::{Value, annotations, json, labels, resources};
use schedlab_lab::commands::objects_of_manifest;
use serde::Deserialize;
use tokio::sync::{Semaphore, watch};

use schedlab_view::drawing;
use schedlab_view::events::ClusterEvent;

use crate::access::{self, Access, Token};
use crate::lesson::{self, LessonPage};
use crate::page;
use crate::session::{Session, quota_patch};

/// How often a playing clock advances.
const PLAY_INTERVAL: Duration = Duration::from_millis(250);

/// How often the page takes note of the time that its owner lets pass.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);

/// Number of events that the page lists.
const EVENTS_MAX: usize = 300;

/// The page may load nothing but its own files, and nobody may frame it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct PageServer {
    access: Access,
    state: PageState,
}

/// The sessions of a page: the current one, which is replaced when a lesson starts again.
pub type Sessions = watch::Receiver<Arc<Session>>;

#[derive(Clone, Debug)]
struct PageState {
    sessions: Sessions,
    /// Seconds of cluster time in a second of real time; 0 while the clock stands still.
    speed: watch::Sender<u32>,
    /// One permit: only one page at a time may step the clock.
    stepping: Arc<Semaphore>,
    lesson: Option<LessonPage>,
}

impl PageState {
    fn new(sessions: Sessions, speed: watch::Sender<u32>, lesson: Option<LessonPage>) -> Self {
        Self { sessions, speed, stepping: Arc::new(Semaphore::new(1)), lesson }
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.sessions.borrow())
    }

    /// The namespace of objects that name none.
    fn namespace(&self) -> &str {
        self.lesson.as_ref().map_or("default", |lesson| &lesson.text.namespace)
    }
}

impl PageServer {
    /// Listens on this port of the loopback interface; port 0 picks a free one.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn bind(session: Session, port: u16) -> anyhow::Result<Self> {
        let (_, sessions) = watch::channel(Arc::new(session));
        let state = PageState::new(sessions, watch::Sender::new(0), None);
        Ok(Self { access: Access::bind(port).await?, state })
    }

    /// Like [`PageServer::bind`], with a lesson beside its cluster. The owner of the lesson lets time
    /// pass with `speed`.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn bind_lesson(
        lesson: LessonPage,
        sessions: Sessions,
        speed: watch::Sender<u32>,
        port: u16,
    ) -> anyhow::Result<Self> {
        let state = PageState::new(sessions, speed, Some(lesson));
        Ok(Self { access: Access::bind(port).await?, state })
    }

    /// The link to the page, with its token.
    ///
    /// # Errors
    /// The operating system does not tell the address.
    pub fn url(&self) -> anyhow::Result<String> {
        self.access.url()
    }

    /// Serves the page until the future is dropped.
    ///
    /// # Errors
    /// Connections can no longer be accepted.
    pub async fn serve(self) -> anyhow::Result<()> {
        let playing = play(self.state.clone());
        let Access { listener, token } = self.access;
        let serving = axum::serve(listener, router(self.state, token));
        tokio::select! {
            ended = serving => Ok(ended?),
            ended = playing => ended,
        }
    }
}

/// Lets time pass while the clock plays. The owner of a lesson does so by itself.
async fn play(state: PageState) -> anyhow::Result<()> {
    let mut speed = state.speed.subscribe();
    loop {
        let factor = *speed.wait_for(|speed| *speed > 0).await?;
        let session = state.session();
        if !session.is_time_controlled() {
            return futures::future::pending().await;
        }
        if state.lesson.is_some() {
            tokio::time::sleep(OBSERVE_INTERVAL).await;
            session.observe_time().await?;
        } else {
            tokio::time::sleep(PLAY_INTERVAL).await;
            session.advance(PLAY_INTERVAL * factor).await?;
        }
    }
}

fn router(state: PageState, token: Token) -> Router {
    let lesson = state.lesson.clone().map(lesson::routes).unwrap_or_default();
    let routes = Router::new()
        .route("/", get(show_page))
        .route("/view", get(show_view))
        .route("/events", get(list_events))
        .route("/details/{*object}", get(show_details))
        .route("/changes", get(stream_changes))
        .route("/advance", post(advance))
        .route("/play", post(set_speed))
        .route("/submit", post(submit_job))
        .route("/quota", post(set_quota))
        .route("/node", post(change_node))
        .route("/yaml", post(apply_yaml))
        .with_state(state)
        .merge(lesson);
    let script = "text/javascript";
    let assets = Router::new()
        .route("/cluster.css", get(|| async { asset("text/css", drawing::STYLES) }))
        .route("/page.css", get(|| async { asset("text/css", include_str!("assets/page.css")) }))
        .route(
            "/page.js",
            get(move || async move { asset(script, include_str!("assets/page.js")) }),
        )
        .route(
            "/lesson.js",
            get(move || async move { asset(script, include_str!("assets/lesson.js")) }),
        );
    access::protect(routes, assets, token, CONTENT_SECURITY_POLICY)
}

fn asset(content_type: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, content_type)], text)
}

/// An error that the page shows as text.
#[derive(Debug)]
struct PageError(StatusCode, String);

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

impl From<anyhow::Error> for PageError {
    fn from(error: anyhow::Error) -> Self {
        Self(StatusCode::UNPROCESSABLE_ENTITY, format!("{error:#}"))
    }
}

type PageResult<T> = Result<T, PageError>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct ViewQuery {
    /// The revision to show; the latest one without it.
    revision: Option<u64>,
    /// The block of nodes whose boxes are shown.
    block: usize,
    /// A text; instead of a block, boxes of nodes with the text are shown.
    find: String,
    /// The parts that the browser shows, as `id:hash,id:hash`.
    shown: String,
}

fn view(state: &PageState, query: &ViewQuery) -> page::View {
    let session = state.session();
    let status = *session.status().borrow();
    let latest = status.revision;
    let revision = query.revision.unwrap_or(latest).min(latest);
    let cluster = session.state_at(revision);
    let past = session.time_at(revision).filter(|_| revision < latest);
    let time = past.unwrap_or_else(|| session.now());
    let (start, speed) = (session.start_time(), *state.speed.borrow());
    let moment = page::Moment { time, start, revision, latest, speed };
    let choice = page::NodeChoice { block: query.block, find: query.find.clone() };
    page::View::new(&cluster, &moment, &choice)
}

async fn show_page(State(state): State<PageState>) -> Markup {
    let is_controlled = state.session().is_time_controlled();
    let time = if is_controlled { page::TimeControls::All } else { page::TimeControls::History };
    let lesson = state.lesson.as_ref().map(|lesson| lesson::panel(&lesson.text));
    page::document(&view(&state, &ViewQuery::default()).whole(), time, lesson.as_ref())
}

async fn show_view(State(state): State<PageState>, Query(query): Query<ViewQuery>) -> Markup {
    view(&state, &query).changed(&query.shown)
}

#[derive(Deserialize)]
struct EventQuery {
    revision: Option<u64>,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    text: String,
}

async fn list_events(State(state): State<PageState>, Query(query): Query<EventQuery>) -> Markup {
    let keep = |event: &ClusterEvent| {
        (query.kind.is_empty() || event.kind.as_str() == query.kind)
            && (query.text.is_empty() || event.name.contains(&query.text))
    };
    let revision = query.revision.unwrap_or(u64::MAX);
    let session = state.session();
    let events = session.events_until(revision, EVENTS_MAX, keep);
    page::event_items(&events, session.start_time())
}

async fn show_details(
    State(state): State<PageState>,
    Path(object): Path<String>,
) -> PageResult<Markup> {
    let session = state.session();
    let start = session.start_time();
    let parts: Vec<&str> = object.split('/').collect();
    let events = |name: &str, kind: &str| {
        session.events_until(u64::MAX, EVENTS_MAX, |event| {
            &*event.name == name && event.object_kind == kind
        })
    };
    match parts.as_slice() {
        ["pod", namespace, name] => {
            let why = session.explain_workload((*namespace).to_owned(), (*name).to_owned()).await;
            let why = why.unwrap_or_else(|error| format!("{error:#}"));
            Ok(page::details(&format!("Pod {namespace}/{name}"), &why, &events(name, "pod"), start))
        }
        ["workload", namespace, name] => {
            let why = session.explain_workload((*namespace).to_owned(), (*name).to_owned()).await?;
            let of_group = session.events_of_group(namespace, name, EVENTS_MAX);
            Ok(page::details(&format!("Workload {namespace}/{name}"), &why, &of_group, start))
        }
        ["queue", name] => {
            let why = session.explain_queue((*name).to_owned()).await?;
            Ok(page::details(&format!("Queue {name}"), &why, &events(name, "queue"), start))
        }
        ["node", name] => Ok(page::details(
            &format!("Node {name}"),
            "",
            &session.events_of_node(name, EVENTS_MAX),
            start,
        )),
        _ => Err(PageError(StatusCode::NOT_FOUND, format!("unknown object {object}"))),
    }
}

/// Tells the page whenever the cluster has changed.
async fn stream_changes(
    State(state): State<PageState>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let watched = (state.session().status(), state.sessions.clone());
    let updates = stream::unfold(watched, |(mut status, mut sessions)| async move {
        // The stream ends when the lesson starts again: the page connects to the new cluster.
        let replaced = async {
            if sessions.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            changed = status.changed() => changed.ok()?,
            () = replaced => return None,
        }
        let latest = *status.borrow_and_update();
        Some((Ok(Event::default().data(latest.revision.to_string())), (status, sessions)))
    });
    Sse::new(updates).keep_alive(KeepAlive::default())
}

#[derive(Deserialize)]
struct AdvanceForm {
    /// `cycle`, `eviction` or a number of seconds.
    by: String,
}

async fn advance(
    State(state): State<PageState>,
    Form(form): Form<AdvanceForm>,
) -> PageResult<String> {
    let session = state.session();
    if !session.is_time_controlled() {
        let text = "the cluster runs in real time: its time cannot be set".to_owned();
        return Err(PageError(StatusCode::CONFLICT, text));
    }
    let Ok(_permit) = state.stepping.try_acquire() else {
        let text = "another page steps the clock; step again when it has ended".to_owned();
        return Err(PageError(StatusCode::CONFLICT, text));
    };
    // A step stops a playing clock, so that it ends where it says.
    state.speed.send_replace(0);
    match form.by.as_str() {
        "cycle" => session.advance_one_cycle().await?,
        "eviction" => {
            if !session.advance_to_eviction().await? {
                return Ok("no pod was evicted within 24 hours".to_owned());
            }
        }
        by => {
            let Ok(seconds) = by.parse::<u32>() else {
                let text = format!("by: got {by:?}, expected cycle, eviction or seconds");
                return Err(PageError(StatusCode::BAD_REQUEST, text));
            };
            session.advance(Duration::from_secs(seconds.into())).await?;
        }
    }
    Ok(String::new())
}

#[derive(Deserialize)]
struct SpeedForm {
    speed: u32,
}

async fn set_speed(State(state): State<PageState>, Form(form): Form<SpeedForm>) -> String {
    state.speed.send_replace(form.speed.min(3600));
    String::new()
}

#[derive(Deserialize)]
struct JobForm {
    name: String,
    queue: String,
    pods: u32,
    gpus: u32,
    gang: Option<String>,
    non_preemptible: Option<String>,
}

impl JobForm {
    /// The job as a manifest.
    fn manifest(&self, namespace: &str) -> Value {
        let class = if self.non_preemptible.is_some() { "build" } else { "train" };
        let mut job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": self.name, "namespace": namespace, "labels": {(labels::QUEUE): self.queue},
            },
            "spec": {
                "parallelism": self.pods,
                "completions": self.pods,
                "template": {
                    "metadata": {"labels": {(labels::QUEUE): self.queue}},
                    "spec": {
                        "schedulerName": "kai-scheduler",
                        "priorityClassName": class,
                        "restartPolicy": "Never",
                        "containers": [{
                            "name": "main", "image": "train",
                            "resources": {"limits": {(resources::GPU): self.gpus.to_string()}},
                        }],
                    },
                },
            },
        });
        if self.gang.is_some() {
            job["metadata"]["annotations"] =
                json!({(annotations::BATCH_MIN_MEMBER): self.pods.to_string()});
        }
        job
    }
}

async fn submit_job(
    State(state): State<PageState>,
    Form(form): Form<JobForm>,
) -> PageResult<String> {
    state.session().apply(vec![form.manifest(state.namespace())]).await?;
    Ok(format!("job {} was submitted", form.name))
}

#[derive(Deserialize)]
struct QuotaForm {
    queue: String,
    gpus: f64,
}

async fn set_quota(
    State(state): State<PageState>,
    Form(form): Form<QuotaForm>,
) -> PageResult<String> {
    let path = format!("/apis/scheduling.run.ai/v2/queues/{}", path_segment(&form.queue)?);
    state.session().merge_patch(path, quota_patch(form.gpus)).await?;
    Ok(format!("the quota of queue {} is {} GPUs", form.queue, form.gpus))
}

#[derive(Deserialize)]
struct NodeForm {
    node: String,
    action: String,
}

async fn change_node(
    State(state): State<PageState>,
    Form(form): Form<NodeForm>,
) -> PageResult<String> {
    let down =
        |value: Value| json!({"metadata": {"annotations": {(annotations::NODE_DOWN): value}}});
    let change = match form.action.as_str() {
        "fail" => down(json!("true")),
        "recover" => down(Value::Null),
        "cordon" => json!({"spec": {"unschedulable": true}}),
        "uncordon" => json!({"spec": {"unschedulable": null}}),
        unknown => {
            let text =
                format!("action: got {unknown:?}, expected fail, recover, cordon or uncordon");
            return Err(PageError(StatusCode::BAD_REQUEST, text));
        }
    };
    let path = format!("/api/v1/nodes/{}", path_segment(&form.node)?);
    state.session().merge_patch(path, change).await?;
    Ok(format!("node {}: {}", form.node, form.action))
}

/// Fails if a name would change the meaning of a path.
fn path_segment(name: &str) -> PageResult<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if !name.is_empty() && name.chars().all(is_plain) {
        Ok(name)
    } else {
        let text = format!("name: got {name:?}, expected letters, digits, '-' and '.'");
        Err(PageError(StatusCode::BAD_REQUEST, text))
    }
}

#[derive(Deserialize)]
struct YamlForm {
    text: String,
}

async fn apply_yaml(
    State(state): State<PageState>,
    Form(form): Form<YamlForm>,
) -> PageResult<String> {
    let objects = objects_of_manifest("the manifest", &form.text, state.namespace())
        .map_err(|message| PageError(StatusCode::UNPROCESSABLE_ENTITY, message))?;
    let count = objects.len();
    state.session().apply(objects).await?;
    Ok(format!("{count} objects were applied"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::Method;
    use http_body_util::BodyExt as _;
    use schedlab_emulator::Fleet;
    use tower::ServiceExt as _;

    use super::*;
    use crate::session::SessionOptions;

    async fn page() -> Router {
        let fleet = Fleet::parse("fleet.yaml", "pools: [{name: n, count: 1, gpus: 2}]").unwrap();
        let options = SessionOptions { fleet, objects: Vec::new(), seed: 1 };
        let session = Arc::new(Session::start(options).await.unwrap());
        let (_, sessions) = watch::channel(session);
        let state = PageState::new(sessions, watch::Sender::new(0), None);
        router(state, Token(Arc::from("secret")))
    }

    async fn respond(method: Method, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut request = Request::builder().method(method).uri(path);
        let form = ("content-type", "application/x-www-form-urlencoded");
        for (name, value) in headers.iter().chain(&[form]) {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from("by=1")).unwrap();
        let response = page().await.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:1");
    const COOKIE_HEADER: (&str, &str) = ("cookie", "schedlab-ui=secret");

    #[tokio::test]
    async fn the_page_needs_the_token() {
        assert_eq!(respond(Method::GET, "/", &[HOST]).await.0, 401);
        assert_eq!(respond(Method::GET, "/?token=wrong", &[HOST]).await.0, 401);
        assert_eq!(respond(Method::GET, "/?token=secret", &[HOST]).await.0, 303);
        let (status, text) = respond(Method::GET, "/", &[HOST, COOKIE_HEADER]).await;
        assert!(status == 200 && text.contains("n-0"), "{status} {text}");
    }

    #[tokio::test]
    async fn other_sites_cannot_change_the_cluster() {
        let change = (access::CHANGE_HEADER, "1");
        let post = Method::POST;
        assert_eq!(respond(post.clone(), "/advance", &[HOST, COOKIE_HEADER]).await.0, 403);
        assert_eq!(respond(post.clone(), "/advance", &[HOST, change]).await.0, 401);
        let rebound = ("host", "attacker.example");
        assert_eq!(respond(Method::GET, "/", &[rebound, COOKIE_HEADER]).await.0, 403);
        assert_eq!(respond(post, "/advance", &[HOST, COOKIE_HEADER, change]).await.0, 200);
    }

    #[tokio::test]
    async fn a_second_page_cannot_step_while_the_first_does() {
        let fleet = Fleet::parse("fleet.yaml", "pools: [{name: n, count: 1, gpus: 2}]").unwrap();
        let options = SessionOptions { fleet, objects: Vec::new(), seed: 1 };
        let (_, sessions) = watch::channel(Arc::new(Session::start(options).await.unwrap()));
        let state = PageState::new(sessions, watch::Sender::new(60), None);
        let step = || advance(State(state.clone()), Form(AdvanceForm { by: "60".to_owned() }));
        let first = state.stepping.clone().acquire_owned().await.unwrap();
        let PageError(status, text) = step().await.unwrap_err();
        assert_eq!(status, StatusCode::CONFLICT);
        assert!(text.contains("another page steps the clock"), "{text}");
        drop(first);
        assert!(step().await.is_ok());
        assert_eq!(*state.speed.borrow(), 0, "a step stops a playing clock");
    }

    #[test]
    fn names_that_would_change_a_path_are_refused() {
        assert!(path_segment("team-a.b").is_ok());
        assert!(["", "a/b", "a?b", "a%2fb"].iter().all(|name| path_segment(name).is_err()));
    }
}
