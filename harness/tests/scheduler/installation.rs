//! The manifests in `kind-configs` match the program: its CRDs and webhooks, and exactly the
//! permissions that it uses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "api_requests.rs"]
mod api_requests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use http::{Method, Request};
use schedlab_api::{Value, crds, json};
use schedlab_scheduler::{
    ConfigFile,
    admission::{self, PatchedPods},
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

/// The rules of the roles in a YAML text, by kind of role.
fn rules(yaml: &str) -> BTreeMap<String, Value> {
    let roles = documents(yaml).into_iter().filter(|object| object["rules"].is_array());
    roles.map(|role| (role["kind"].as_str().unwrap().to_owned(), role["rules"].clone())).collect()
}

#[test]
fn the_installed_crds_are_those_of_the_program() {
    let advice = "regenerate it with `schedlab-scheduler crds`";
    let is_equal = documents(&text("kustomize/crds.yaml")) == crds::all_crds();
    assert!(is_equal, "kind-configs/kustomize/crds.yaml is outdated: {advice}");
    let is_equal = documents(&text("kustomize/priority-classes.yaml")) == crds::priority_classes();
    assert!(is_equal, "kind-configs/kustomize/priority-classes.yaml is outdated: {advice}");
}

#[test]
fn chart_and_kustomize_grant_the_same_permissions() {
    let template = text("chart/templates/rbac.yaml");
    let plain = template.replace("{{ .Values.schedulerName }}", "kai-scheduler");
    let plain: Vec<&str> = plain.lines().filter(|line| !line.contains("{{")).collect();
    assert_eq!(rules(&plain.join("\n")), rules(&text("kustomize/rbac.yaml")));
}

#[test]
fn the_webhooks_of_the_chart_are_those_that_the_program_prints() {
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
fn the_values_schema_of_the_chart_matches_the_configuration_schema() {
    let mut values: Value = serde_json::from_str(&text("chart/values.schema.json")).unwrap();
    let mut file = schedlab_api::to_value(&ConfigFile::schema()).unwrap();
    file.as_object_mut().unwrap().remove("$schema");
    let definitions = file.as_object_mut().unwrap().remove("$defs");
    let advice = "regenerate kind-configs/chart/values.schema.json from `config-schema`: its $defs, \
                  and the rest as properties.config";
    assert_eq!(values["properties"]["config"], file, "{advice}");
    assert_eq!(values.as_object_mut().unwrap().remove("$defs"), definitions, "{advice}");
}

#[test]
fn the_configuration_is_read_from_its_mount_path() {
    let file = "/etc/schedlab/config/config.yaml";
    let chart = rendered("chart/templates/deployment.yaml");
    let argument = format!("--config={file}");
    let arguments = &chart["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(arguments.as_array().unwrap().contains(&json!(argument)), "{arguments}");
    let written = rendered("chart/templates/config.yaml");
    let (folder, map) = mounted(&chart);
    assert_eq!(json!(map), written["metadata"]["name"]);
    assert!(!written["data"][file.trim_start_matches(&format!("{folder}/"))].is_null());
    // kustomize mounts the folder only; the documentation describes the file and the argument.
    let (folder, map) = mounted(&rendered("kustomize/deployment.yaml"));
    assert_eq!((&*folder, &*map), ("/etc/schedlab/config", "schedlab-scheduler-config"));
    let docs = text("../docs/reference/configuration.md");
    assert!(docs.contains(&format!("value: {argument} ")) && docs.contains(&map));
}

/// The only object of a file; of its template directives only the release's name is filled in.
fn rendered(file: &str) -> Value {
    let filled =
        text(file).replace("{{ .Release.Name }}", "r").replace("{{ $.Release.Name }}", "r");
    let lines: Vec<&str> = filled.lines().filter(|line| !line.contains("{{")).collect();
    documents(&lines.join("\n")).remove(0)
}

/// The mount path of the configuration's volume, and the name of its ConfigMap.
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

/// Processes with different components have leases with names that the user chooses.
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
fn the_scheduler_is_granted_exactly_the_permissions_that_it_uses() {
    let granted: BTreeSet<String> =
        rules(&text("kustomize/rbac.yaml")).values().flat_map(permissions).collect();
    let used = Lab::run_with_features(&["GenericWorkload"], async |lab| {
        let (client, used) = recording_client(&lab);
        api_requests::exercise(&lab, client).await;
        let mut used = used.lock().unwrap().clone();
        // Since Kubernetes 1.36 the API server checks it for writes to the status of claims.
        used.insert("resource.k8s.io resourceclaims/binding patch".to_owned());
        used
    });
    let missing: Vec<_> = used.difference(&granted).collect();
    let unused: Vec<_> = granted.difference(&used).collect();
    assert!(
        missing.is_empty() && unused.is_empty(),
        "not granted: {missing:#?}\nnot used: {unused:#?}"
    );
}

/// A client, and the permissions that its requests need, as "group resource verb".
fn recording_client(lab: &Lab) -> (kube::Client, Arc<Mutex<BTreeSet<String>>>) {
    let used = Arc::new(Mutex::new(BTreeSet::new()));
    let (recorded, router) = (Arc::clone(&used), lab.emulator.service());
    let service = service_fn(move |request: Request<kube::client::Body>| {
        recorded.lock().unwrap().extend(permission(request.method(), request.uri()));
        router.clone().oneshot(request)
    });
    (kube::Client::new(service, "default"), used)
}

/// The permission that a request needs; `None` for discovery, which needs none.
fn permission(method: &Method, uri: &http::Uri) -> Option<String> {
    let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => panic!("{uri} is not an API path"),
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
        (other, _) => panic!("add method {other} to `permission`"),
    };
    match rest {
        [] => None,
        [resource] | [resource, _] => Some(format!("{group} {resource} {verb}")),
        [resource, _, sub] => Some(format!("{group} {resource}/{sub} {verb}")),
        _ => panic!("{uri} is not an API path"),
    }
}

/// The single permissions of some rules, as "group resource verb".
fn permissions(rules: &Value) -> Vec<String> {
    let strings = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let mut permissions = Vec::new();
    for rule in rules.as_array().unwrap() {
        let resources = strings(rule, "resources");
        for group in strings(rule, "apiGroups") {
            for resource in &resources {
                let verbs = strings(rule, "verbs").into_iter();
                permissions.extend(verbs.map(|verb| format!("{group} {resource} {verb}")));
            }
        }
    }
    permissions
}
