//! What is installed under `kind-configs` is what the program needs: its kinds, and exactly the
//! rights that it uses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "life.rs"]
mod life;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use http::{Method, Request};
use schedlab_json::{Value, json};
use schedlab_scheduler::{
    ConfigFile,
    admission::{self, PatchedPods},
    crds,
};
use serde::Deserialize as _;
use tower::{ServiceExt as _, service_fn};

use super::lab::Lab;

fn text(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kind-configs");
    let path = root.join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn documents(yaml: &str) -> Vec<Value> {
    let documents = serde_yaml::Deserializer::from_str(yaml);
    let read = documents.map(|document| Value::deserialize(document).unwrap());
    read.filter(|document| !document.is_null()).collect()
}

/// The rules of each kind of role.
fn rules(yaml: &str) -> BTreeMap<String, Value> {
    let roles = documents(yaml).into_iter().filter(|object| object["rules"].is_array());
    roles.map(|role| (role["kind"].as_str().unwrap().to_owned(), role["rules"].clone())).collect()
}

#[test]
fn the_definitions_that_are_installed_are_those_of_the_program() {
    let again = "write it anew with `schedlab-scheduler crds`";
    let same = documents(&text("kustomize/crds.yaml")) == crds::all();
    assert!(same, "kind-configs/kustomize/crds.yaml is of another version: {again}");
    let same = documents(&text("kustomize/priority-classes.yaml")) == crds::priority_classes();
    assert!(same, "kind-configs/kustomize/priority-classes.yaml is of another version: {again}");
}

#[test]
fn chart_and_kustomize_give_the_same_rights() {
    let template = text("chart/templates/rbac.yaml");
    let plain = template.replace("{{ .Values.schedulerName }}", "kai-scheduler");
    let plain: Vec<&str> = plain.lines().filter(|line| !line.contains("{{")).collect();
    assert_eq!(rules(&plain.join("\n")), rules(&text("kustomize/rbac.yaml")));
}

#[test]
fn the_chart_has_the_api_server_ask_as_the_program_prints_it() {
    let template = text("chart/templates/webhook.yaml");
    let values = [
        ("{{ .Release.Name }}", "scheduler"),
        ("{{ .Release.Namespace }}", "kai"),
        ("{{ .Values.webhook.secretName }}", "pair"),
        ("{{ .Values.schedulerName }}", "mine"),
        ("{{ $authority }}", "QQ=="),
        ("{{ $certificate }}", "Qg=="),
        ("{{ $key }}", "Qw=="),
    ];
    let filled = values.iter().fold(template, |text, (from, to)| text.replace(from, to));
    let (before, rest) = filled.split_once("{{- if not (or (.Values.config).block").unwrap();
    let (_, after) = rest.split_once("{{- end }}").unwrap();
    let all = [before, after].concat();
    for (text, changed) in [(&filled, PatchedPods::GpuSharing), (&all, PatchedPods::All)] {
        let plain: Vec<&str> = text.lines().filter(|line| !line.contains("{{")).collect();
        let objects = documents(&plain.join("\n"));
        assert_eq!(objects[0]["kind"], "Secret");
        let service = admission::WebhookService {
            namespace: "kai",
            name: "scheduler",
            ca_bundle: Some("QQ=="),
            scheduler_name: "mine",
            patched_pods: changed,
        };
        assert_eq!(objects[1..], admission::webhook_configurations(&service));
    }
}

#[test]
fn the_chart_takes_what_the_configuration_file_takes() {
    let mut values: Value = serde_json::from_str(&text("chart/values.schema.json")).unwrap();
    let mut file = schedlab_json::to_value(&ConfigFile::schema()).unwrap();
    file.as_object_mut().unwrap().remove("$schema");
    let shapes = file.as_object_mut().unwrap().remove("$defs");
    let again = "write kind-configs/chart/values.schema.json anew from `config-schema`: its $defs, \
                 and the rest as properties.config";
    assert_eq!(values["properties"]["config"], file, "{again}");
    assert_eq!(values.as_object_mut().unwrap().remove("$defs"), shapes, "{again}");
}

#[test]
fn a_configuration_is_read_where_it_is_mounted() {
    let file = "/etc/schedlab/config/config.yaml";
    let chart = plain("chart/templates/deployment.yaml");
    let argument = format!("--config={file}");
    let arguments = &chart["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(arguments.as_array().unwrap().contains(&json!(argument)), "{arguments}");
    let written = plain("chart/templates/config.yaml");
    let (folder, map) = mounted(&chart);
    assert_eq!(json!(map), written["metadata"]["name"]);
    assert!(!written["data"][file.trim_start_matches(&format!("{folder}/"))].is_null());
    // kustomize has the place; what is put there, and the argument, the documents tell.
    let (folder, map) = mounted(&plain("kustomize/deployment.yaml"));
    assert_eq!((&*folder, &*map), ("/etc/schedlab/config", "schedlab-scheduler-config"));
    let told = text("../docs/reference/configuration.md");
    assert!(told.contains(&format!("value: {argument} ")) && told.contains(&map));
}

/// The only object of a file, where a template says nothing but the release's name.
fn plain(file: &str) -> Value {
    let filled =
        text(file).replace("{{ .Release.Name }}", "r").replace("{{ $.Release.Name }}", "r");
    let lines: Vec<&str> = filled.lines().filter(|line| !line.contains("{{")).collect();
    documents(&lines.join("\n")).remove(0)
}

/// The folder that the configuration's volume is mounted at, and the config map that it shows.
fn mounted(deployment: &Value) -> (String, String) {
    let named = |all: &Value| {
        let mut all = all.as_array().unwrap().iter();
        all.find(|it| it["name"] == "config").unwrap().clone()
    };
    let pod = &deployment["spec"]["template"]["spec"];
    let folder = &named(&pod["containers"][0]["volumeMounts"])["mountPath"];
    let map = &named(&pod["volumes"])["configMap"]["name"];
    (folder.as_str().unwrap().to_owned(), map.as_str().unwrap().to_owned())
}

/// Processes with different parts have leases of names that the user picks.
#[test]
fn a_lease_may_have_any_name() {
    let rules = &rules(&text("kustomize/rbac.yaml"))["Role"];
    let of_leases = |rule: &&Value| rule["resources"] == json!(["leases"]);
    let all: Vec<_> = rules.as_array().unwrap().iter().filter(of_leases).collect();
    assert_eq!(
        all,
        [&json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                  "verbs": ["create", "get", "patch"] })]
    );
}

#[test]
fn the_rights_are_those_that_the_scheduler_uses() {
    let granted: BTreeSet<String> =
        rules(&text("kustomize/rbac.yaml")).values().flat_map(rights).collect();
    let used = Lab::tell(async |lab| {
        let (client, used) = noting(&lab);
        life::live(&lab, client).await;
        let used = used.lock().unwrap();
        used.clone()
    });
    let missing: Vec<_> = used.difference(&granted).collect();
    let idle: Vec<_> = granted.difference(&used).collect();
    assert!(
        missing.is_empty() && idle.is_empty(),
        "not granted: {missing:#?}\nnot used: {idle:#?}"
    );
}

/// A client, and what is asked for through it, as "group resource verb".
fn noting(lab: &Lab) -> (kube::Client, Arc<Mutex<BTreeSet<String>>>) {
    let used = Arc::new(Mutex::new(BTreeSet::new()));
    let (noted, router) = (Arc::clone(&used), lab.emulator.service());
    let service = service_fn(move |request: Request<kube::client::Body>| {
        noted.lock().unwrap().extend(right(request.method(), request.uri()));
        router.clone().oneshot(request)
    });
    (kube::Client::new(service, "default"), used)
}

/// What a request needs; discovery is open to everybody.
fn right(method: &Method, uri: &http::Uri) -> Option<String> {
    let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => panic!("{uri} is no path of the API"),
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        other => other,
    };
    let watches = uri.query().is_some_and(|query| query.contains("watch=true"));
    let verb = match (method.as_str(), rest.len()) {
        ("GET", 1) if watches => "watch",
        ("GET", 1) => "list",
        ("GET", _) => "get",
        ("POST", _) => "create",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        (other, _) => panic!("{other} is not known here"),
    };
    match rest {
        [] => None,
        [resource] | [resource, _] => Some(format!("{group} {resource} {verb}")),
        [resource, _, sub] => Some(format!("{group} {resource}/{sub} {verb}")),
        _ => panic!("{uri} is no path of the API"),
    }
}

/// Each right of some rules by itself.
fn rights(rules: &Value) -> Vec<String> {
    let words = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = Vec::new();
    for rule in rules.as_array().unwrap() {
        let resources = words(rule, "resources");
        for group in words(rule, "apiGroups") {
            for resource in &resources {
                let verbs = words(rule, "verbs").into_iter();
                rights.extend(verbs.map(|verb| format!("{group} {resource} {verb}")));
            }
        }
    }
    rights
}
