//! The effects of service accounts on pods.

use crate::test_store::{TestStore, outcome, pod, pod_spec};
use insta::assert_snapshot;
use schedlab_api::{Value, json};

/// A service account.
fn account(name: &str, mounts: Option<bool>) -> Value {
    let mut account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name},
        "imagePullSecrets": [{"name": "registry"}],
    });
    if let Some(mounts) = mounts {
        account["automountServiceAccountToken"] = mounts.into();
    }
    account
}

/// The numbers of volumes and mounts of a pod.
fn mounted(pod: &Value) -> (usize, usize) {
    let count = |list: &Value| list.as_array().map_or(0, Vec::len);
    (count(&pod["spec"]["volumes"]), count(&pod["spec"]["containers"][0]["volumeMounts"]))
}

#[test]
fn a_new_pod_mounts_the_token_of_its_account() {
    let created = TestStore::new().create(pod("a")).unwrap();
    let mounts = &created["spec"]["containers"][0]["volumeMounts"];
    assert_snapshot!(mounts, @r#"[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"kube-api-access-l82gq","readOnly":true}]"#);
    let volumes = created["spec"]["volumes"].to_string();
    assert_snapshot!(volumes.replace("},{", "},\n{"), @r#"
    [{"name":"kube-api-access-l82gq","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
    {"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}},
    {"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},"path":"namespace"}]}}]}}]
    "#);
}

#[test]
fn the_name_of_the_volume_comes_from_the_seed() {
    let made = |name: &str| {
        let created = TestStore::new().create(pod(name)).unwrap();
        created["spec"]["volumes"][0]["name"].clone()
    };
    assert_eq!(made("a"), made("a"));
    let mut fixture = TestStore::new();
    let [one, other] = ["a", "b"].map(|name| fixture.create(pod(name)).unwrap());
    assert_ne!(one["spec"]["volumes"][0]["name"], other["spec"]["volumes"][0]["name"]);
}

#[test]
fn the_pods_automount_setting_overrides_the_accounts() {
    for (of_account, of_pod, volumes) in [
        (None, None, 1),
        (Some(false), None, 0),
        (Some(true), None, 1),
        (None, Some(false), 0),
        (Some(true), Some(false), 0),
        (Some(false), Some(true), 1),
    ] {
        let mut fixture = TestStore::new();
        fixture.create(account("own", of_account)).unwrap();
        let mut pod = pod_spec("a", "serviceAccountName", "own".into());
        if let Some(mounts) = of_pod {
            pod["spec"]["automountServiceAccountToken"] = mounts.into();
        }
        let created = fixture.create(pod).unwrap();
        assert_eq!(mounted(&created), (volumes, volumes), "{of_account:?} {of_pod:?}");
        assert_eq!(created["spec"]["imagePullSecrets"], json!([{"name": "registry"}]));
    }
}

#[test]
fn an_existing_mount_at_the_token_path_is_kept() {
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    let container = json!({"name": "main", "image": "busybox",
        "volumeMounts": [{"name": "own", "mountPath": path}]});
    let mut pod = pod_spec("a", "containers", json!([container]));
    pod["spec"]["volumes"] = json!([{"name": "own", "emptyDir": {}}]);
    let created = TestStore::new().create(pod).unwrap();
    assert_eq!(mounted(&created), (1, 1));
}

#[test]
fn a_copy_of_a_pod_keeps_the_name_of_its_volume() {
    let mut fixture = TestStore::new();
    let first = fixture.create(pod("a")).unwrap();
    let copy = fixture.create(pod_spec("b", "volumes", first["spec"]["volumes"].clone())).unwrap();
    assert_eq!(copy["spec"]["volumes"], first["spec"]["volumes"]);
    assert_eq!(copy["spec"]["containers"], first["spec"]["containers"]);
}

#[test]
fn a_pod_with_a_missing_account_is_refused() {
    let absent = pod_spec("a", "serviceAccountName", "absent".into());
    assert_snapshot!(outcome(TestStore::new().create(absent)), @r#"403 Forbidden: pods "a" is forbidden: error looking up service account default/absent: serviceaccount "absent" not found"#);
}
