//! Plays a case on a server and records its responses.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use regex::Regex;
use schedlab_api::Value;

use crate::normalizer::Normalizer;
use crate::script::{Case, Step};
use crate::test_webhook::TestWebhook;

/// The compared headers, which clients use.
const HEADERS: [&str; 3] = ["content-type", "warning", "retry-after"];

/// The time limit of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// A normalized response.
pub(crate) struct RecordedResponse {
    pub(crate) code: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl RecordedResponse {
    /// One line with the code, and the message of an error or the events of a watch.
    pub(crate) fn summary(&self) -> String {
        let mut text = self.code.to_string();
        let body = &self.body;
        if let Some(events) = body.get("events").and_then(Value::as_array) {
            for event in events {
                let name = event["object"]["metadata"]["name"].as_str();
                let name = name.or(event["object"]["message"].as_str()).unwrap_or_default();
                let parts = [event["type"].as_str().unwrap_or_default(), name];
                text += " ";
                text += parts.join(":").trim_end_matches(':');
            }
        } else if self.code >= 400 {
            text += " ";
            text += &body["message"].as_str().unwrap_or_default().replace('\n', "\\n");
        }
        text.trim_end().to_owned()
    }
}

/// A server and the variables of a case.
pub(crate) struct CasePlayer<'c> {
    client: &'c Client,
    variables: BTreeMap<String, String>,
    stem: Regex,
    normalizer: Normalizer,
}

impl<'c> CasePlayer<'c> {
    pub(crate) async fn play(
        client: &'c Client,
        webhook: &TestWebhook,
        case: &Case,
        namespace: &str,
    ) -> Vec<RecordedResponse> {
        let variables = BTreeMap::from([
            ("ns".to_owned(), namespace.to_owned()),
            ("hook".to_owned(), webhook.url.clone()),
            ("ca".to_owned(), webhook.authority.clone()),
        ]);
        let mut player = Self {
            client,
            variables,
            stem: Regex::new(r#"generateName: "?([^",}]+)"#).unwrap(),
            normalizer: Normalizer::default(),
        };
        let account = "{metadata: {name: default}}";
        for (path, body) in [
            ("/api/v1/namespaces", format!("metadata: {{name: {namespace}}}")),
            ("serviceaccounts", account.to_owned()),
        ] {
            let (verb, path) = ("POST".to_owned(), path.to_owned());
            player.send_step(&Step { verb, path, body, ..Step::default() }).await;
        }
        let mut responses = Vec::new();
        for step in &case.steps {
            responses.push(player.send_step(step).await);
        }
        responses
    }

    async fn send_step(&mut self, step: &Step) -> RecordedResponse {
        let response = tokio::time::timeout(RESPONSE_TIMEOUT, self.response_to(step)).await;
        response.unwrap_or_else(|_| {
            panic!("line {}: no response to {} {}", step.line + 1, step.verb, step.path)
        })
    }

    async fn response_to(&mut self, step: &Step) -> RecordedResponse {
        let body = self.substitute(&step.body);
        let stem = self.stem.captures(&body).map(|found| found[1].to_owned());
        self.normalizer.expect_generated(stem.as_deref());
        let request = self.request(step);
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let mut headers = BTreeMap::new();
        for name in HEADERS {
            let values: Vec<_> = response.headers().get_all(name).iter().collect();
            let values: Vec<_> = values.iter().map(|v| v.to_str().unwrap()).collect();
            if !values.is_empty() {
                headers.insert(name.to_owned(), values.join("; "));
            }
        }
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = parsed(&text, step.verb == "WATCH" || step.path.contains("watch=1"));
        for (name, path) in &step.saves {
            let found = at(&body, path);
            let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            self.variables.insert(name.clone(), found);
        }
        let body = self.normalizer.normalize(body);
        let headers =
            headers.into_iter().map(|(name, value)| (name, self.normalizer.text(&value))).collect();
        RecordedResponse { code, headers, body }
    }

    fn request(&self, step: &Step) -> Request<Body> {
        let (method, content_type) = match step.verb.as_str() {
            "TABLE" | "WATCH" | "META" => ("GET", None),
            "JSON" => ("PATCH", Some("application/json-patch+json")),
            "MERGE" => ("PATCH", Some("application/merge-patch+json")),
            "STRATEGIC" => ("PATCH", Some("application/strategic-merge-patch+json")),
            "APPLY" => ("PATCH", Some("application/apply-patch+yaml")),
            verb => (verb, Some("application/json")),
        };
        let mut request = Request::builder().method(method).uri(self.uri(step));
        request = request.header("User-Agent", "cases/1");
        match step.verb.as_str() {
            "TABLE" => {
                request = request.header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
            }
            "META" => {
                request = request.header(
                    "Accept",
                    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                );
            }
            _ => {}
        }
        let body = self.substitute(&step.body);
        for (name, value) in &step.headers {
            request = request.header(name, value);
        }
        let body = if step.is_raw() || body.is_empty() {
            body.trim_end().to_owned()
        } else {
            let value: Value = serde_yaml::from_str(&body)
                .unwrap_or_else(|error| panic!("line {}: {error}", step.line + 1));
            request = request.header("Content-Type", content_type.unwrap_or("application/json"));
            value.to_string()
        };
        request.body(Body::from(body.into_bytes())).unwrap()
    }

    fn uri(&self, step: &Step) -> String {
        let path = self.substitute(&step.path).replace(' ', "%20").replace('>', "%3E");
        let mut uri = if path.starts_with('/') {
            path
        } else {
            let namespace = self.substitute("{ns}");
            match path
                .split_once(':')
                .filter(|(before, _)| before.contains('/') && !before.contains('?'))
            {
                Some((group_version, rest)) => {
                    format!("/apis/{group_version}/namespaces/{namespace}/{rest}")
                }
                None => format!("/api/v1/namespaces/{namespace}/{path}"),
            }
        };
        if step.verb == "WATCH" {
            uri += if uri.contains('?') { "&" } else { "?" };
            uri += "watch=1";
            if !uri.contains("timeoutSeconds") {
                uri += "&timeoutSeconds=1";
            }
        }
        uri
    }

    fn substitute(&self, text: &str) -> String {
        let text = self.variables.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        });
        repeated(&text)
    }
}

/// Expands repeated texts: `{3*[}` is `[[[`.
fn repeated(text: &str) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let inner = after.split_once('}').and_then(|(inner, after)| {
            let (times, repeated) = inner.split_once('*')?;
            Some((times.parse::<usize>().ok()?, repeated, after))
        });
        expanded += before;
        if let Some((times, repeated, after)) = inner {
            expanded += &repeated.repeat(times);
            rest = after;
        } else {
            expanded.push('{');
            rest = after;
        }
    }
    expanded + rest
}

fn parsed(text: &str, is_stream: bool) -> Value {
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    match (serde_json::from_str(text), lines) {
        (Ok(one @ Value::Object(_)), _) if !is_stream || one.get("type").is_none() => one,
        (_, Ok(events)) if is_stream => schedlab_api::json!({"events": events}),
        (Ok(one), _) => one,
        _ => schedlab_api::json!({"text": text}),
    }
}

/// The value at a path such as `.metadata.resourceVersion` or `.items.0.spec`.
pub(crate) fn at(value: &Value, path: &str) -> Value {
    let pointer = path.replace('.', "/");
    value.pointer(&pointer).cloned().unwrap_or(Value::Null)
}
