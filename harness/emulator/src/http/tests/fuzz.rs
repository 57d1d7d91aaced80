//! Random requests: whatever a client sends, it gets a response, and an error is a `Status`. Each
//! target runs as many cases as `PROPTEST_CASES` says, 256 by default.

use ::http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::{Router, send, server};
use crate::api_types::expression::{
    CelType, DeclaredSize, EstimateScope, Program, TypeScope, check_type, estimate_cost,
    untyped_value,
};
use schedlab_api::{Value, json};

const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Runs a check with random input.
fn fuzz<S: Strategy>(input: &S, test: impl Fn(S::Value)) {
    let config = Config { failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(input, |case| {
        test(case);
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A request that gets a response.
struct Sent<'r> {
    method: Method,
    path: &'r str,
    content_type: &'r str,
    body: Vec<u8>,
}

/// Sends a request and checks that an error is a `Status`.
async fn check_response(router: &Router, sent: Sent<'_>) {
    let Sent { method, path, content_type, body } = sent;
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let reply = router.handle(request).await;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    if code >= 400 {
        let status: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(code)));
    }
}

/// A router in which the `ConfigMap` `a` exists, and the runtime for its requests.
fn fixture() -> (tokio::runtime::Runtime, Router) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    let router = runtime.block_on(async {
        let router = server().await;
        let body = json!({"metadata": {"name": "a"}, "data": {"b": "c"}});
        send(&router, Method::POST, CONFIG_MAPS, Some(body)).await;
        router
    });
    (runtime, router)
}

/// A valid text with some of its bytes replaced by others.
fn mutated(texts: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let inserted = prop_oneof![
        select(vec![
            "[", "{", "]", "}", "\"", ":", ",", "\\u", "-", "1e9", "null", "\0", "&a ", "*a"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        (1_usize..3_000, select(vec!["[", "{\"a\":", "- ", "{", "a: "]))
            .prop_map(|(times, text)| text.repeat(times).into_bytes()),
        prop::collection::vec(any::<u8>(), 0..8),
    ];
    let change = (any::<prop::sample::Index>(), 0_usize..6, inserted);
    (select(texts), prop::collection::vec(change, 0..4)).prop_map(|(text, changes)| {
        let mut bytes = text.as_bytes().to_vec();
        for (place, removed, inserted) in changes {
            let start = place.index(bytes.len() + 1);
            let end = (start + removed).min(bytes.len());
            bytes.splice(start..end, inserted);
        }
        bytes
    })
}

#[test]
fn any_body_gets_a_response() {
    let (runtime, router) = fixture();
    let texts = &[
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"generateName":"a","labels":{"b":"c"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
        "kind: Pod\nmetadata:\n  name: a\n  labels: {a: b}\nspec:\n  containers:\n  - &c {name: c, image: i}\n",
    ];
    let types = vec!["application/json", "application/yaml", ""];
    let requests = (
        select(vec![PODS, CONFIG_MAPS, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]),
        select(types),
        mutated(texts),
    );
    fuzz(&requests, |(path, content_type, body)| {
        let sent = Sent { method: Method::POST, path, content_type, body };
        runtime.block_on(check_response(&router, sent));
    });
    let deletion = &[
        r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":1,"preconditions":{"uid":"x"}}"#,
    ];
    fuzz(&mutated(deletion), |body| {
        let content_type = "application/json";
        let sent = Sent { method: Method::DELETE, path: CONFIG_MAP, content_type, body };
        runtime.block_on(check_response(&router, sent));
    });
}

#[test]
fn any_patch_gets_a_response() {
    let (runtime, router) = fixture();
    let texts = &[
        r#"[{"op":"copy","from":"/metadata","path":"/metadata/annotations"},{"op":"move","from":"/data/b","path":"/data/c"},{"op":"test","path":"/data","value":null}]"#,
        r#"[{"op":"add","path":"/data/d","value":"1"},{"op":"remove","path":"/data/d"},{"op":"replace","path":"","value":{"kind":"ConfigMap"}}]"#,
        r#"{"metadata":{"labels":{"a":null,"$patch":"replace"},"finalizers":["x/y"]},"data":{"b":"d"}}"#,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: y}}\ndata: {e: f}\n",
    ];
    let types = vec![
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];
    fuzz(&(select(types), mutated(texts)), |(content_type, body)| {
        let path = if content_type.ends_with("yaml") {
            &format!("{CONFIG_MAP}?fieldManager=m")
        } else {
            CONFIG_MAP
        };
        let sent = Sent { method: Method::PATCH, path, content_type, body };
        runtime.block_on(check_response(&router, sent));
    });
}

#[test]
fn any_selector_gets_a_response() {
    let (runtime, router) = fixture();
    let parts = vec![
        "a",
        "b/c",
        "in",
        "notin",
        "(",
        ")",
        ",",
        "=",
        "==",
        "!=",
        "!",
        ">",
        "<",
        "1",
        " ",
        "metadata.name",
        "spec.nodeName",
        "\\",
        "é",
        "x.y/z",
        "((((",
        ",,,,",
        "exists",
    ];
    let selector = prop::collection::vec(select(parts), 0..12).prop_map(|parts| parts.concat());
    let names = vec!["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion"];
    fuzz(&(select(names), selector), |(name, selector)| {
        let encoded = selector.bytes().fold(String::new(), |text, it| format!("{text}%{it:02X}"));
        let path = format!("{CONFIG_MAPS}?{name}={encoded}");
        let sent = Sent { method: Method::GET, path: &path, content_type: "", body: Vec::new() };
        runtime.block_on(check_response(&router, sent));
    });
}

#[test]
fn any_protobuf_body_gets_a_response() {
    let (runtime, router) = fixture();
    let message = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(select(vec![0x0a, 0x12, 0x1a, 2, 4, 8, 0xe2, 1, 0xff, b'a']), 0..400),
        (0_usize..2_000).prop_map(|depth| [0xe2, 1, 0x7f].repeat(depth)),
    ];
    let kinds = vec![
        ("v1", "Pod", PODS),
        ("v1", "ConfigMap", CONFIG_MAPS),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        ),
    ];
    fuzz(&(select(kinds), message), |((version, kind, path), message)| {
        let field = |number: u8, bytes: &[u8]| {
            let length = bytes.len();
            let length = [
                u8::try_from(length & 0x7f | 0x80).unwrap(),
                u8::try_from(length >> 7 & 0x7f).unwrap(),
            ];
            [&[number << 3 | 2], &length[..], bytes].concat()
        };
        let meta = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
        let body = [b"k8s\0".to_vec(), field(1, &meta), field(2, &message)].concat();
        let content_type = "application/vnd.kubernetes.protobuf";
        let sent = Sent { method: Method::POST, path, content_type, body };
        runtime.block_on(check_response(&router, sent));
    });
}

/// Parts of expressions, which random ones consist of.
const CEL_TOKENS: &[&str] = &[
    "self",
    ".l",
    ".s",
    ".m",
    ".o",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "0",
    "1u",
    "2.5",
    "'a'",
    "b'x'",
    "true",
    "null",
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    " == ",
    " != ",
    " < ",
    " >= ",
    " in ",
    " && ",
    " || ",
    "!",
    " ? ",
    " : ",
    ", ",
    ".all(x, ",
    ".map(y, ",
    ".filter(x, x",
    ".exists_one(x, ",
    "x",
    "y",
    ".size()",
    ".contains('a')",
    ".matches('a+')",
    ".split('')",
    ".join('-')",
    ".replace('', 'zz')",
    "lists.range(9)",
    ".sum()",
    ".sort()",
    "has(self.o)",
    ".?o",
    "[?0]",
    "optional.of(",
    ".orValue(1)",
    "timestamp('2020-01-01T00:00:00Z')",
    "duration('1h')",
    "dyn(",
    "quantity('1Gi')",
    "sets.contains(",
    ".flatten()",
    ".distinct()",
    "cel.bind(z, ",
    "type(",
    "int(",
    "string(",
    ".format([1])",
    ".charAt(0)",
    "thing{a: 1}",
];

#[test]
fn any_expression_compiles_or_not_and_ends_within_its_budget() {
    let text = prop::collection::vec(select(CEL_TOKENS), 1..14).prop_map(|tokens| tokens.concat());
    let list = CelType::list(CelType::Int);
    let fields = [
        ("l".to_owned(), list),
        ("s".to_owned(), CelType::Text),
        ("m".to_owned(), CelType::map(CelType::Text)),
    ];
    let variables = vec![("self".to_owned(), CelType::object("thing", fields))];
    let scope = TypeScope { variables: variables.clone(), allows_bind: true };
    let sizes =
        EstimateScope { variables, size: DeclaredSize::default().into(), size_of_others: None };
    let object =
        json!({"l": (0..50).collect::<Vec<i32>>(), "s": "aaaaaaaaaa", "m": {"k": "v"}, "o": null});
    let object = untyped_value(&object);
    fuzz(&text, |text| {
        let _ = check_type(&text, &scope);
        estimate_cost(&text, &sizes);
        let parsed = std::panic::catch_unwind(|| Program::parse(&text)).ok().flatten();
        if let Some(program) = parsed {
            let found = program.evaluate(&[("self", object.clone())], 10_000);
            assert!(found.result.is_err() || found.cost <= 10_000);
        }
    });
}
