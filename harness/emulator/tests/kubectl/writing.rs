//! create, apply, edit, scale, label, taint, delete.

use crate::cluster::{Cluster, has_kubectl};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: nginx, env: [{name: A, value: a}]}
      - {name: d, image: nginx}
";

const GADGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What the gadget shall be.
            properties:
              size: {type: integer, minimum: 1, description: How large it shall be.}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_is_applied_changed_and_deleted() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start().await;
    cluster.file("web.yaml", DEPLOYMENT);
    assert_eq!(cluster.run("apply -f web.yaml"), "deployment.apps/web created\n");
    assert_eq!(cluster.run("apply -f web.yaml"), "deployment.apps/web unchanged\n");
    assert_eq!(cluster.run("scale deployment web --replicas=1"), "deployment.apps/web scaled\n");
    assert_eq!(cluster.run("get deployment web -o 'jsonpath={.spec.replicas}'"), "1\n");
    let changed = DEPLOYMENT.replace("image: nginx, env", "image: nginx:2, env");
    cluster.file("web.yaml", &changed);
    assert_eq!(cluster.run("apply -f web.yaml"), "deployment.apps/web configured\n");
    let images = "get deployment web -o 'jsonpath={.spec.template.spec.containers[*].image}'";
    assert_eq!(cluster.run(images), "nginx:2 nginx\n");
    let wrong = changed.replace("replicas:", "replikas:");
    cluster.file("web.yaml", &wrong);
    let refused = cluster.run("apply -f web.yaml");
    assert!(refused.contains("unknown field \"spec.replikas\""), "{refused}");
    assert_eq!(cluster.run("delete deployment web"), "deployment.apps \"web\" deleted\n");
    assert_eq!(cluster.run("wait --for=delete deployment/web --timeout=10s"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_side_apply_conflicts_with_the_scaler() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start().await;
    cluster.file("web.yaml", DEPLOYMENT);
    let applied = "deployment.apps/web serverside-applied\n";
    assert_eq!(cluster.run("apply --server-side -f web.yaml"), applied);
    assert_eq!(cluster.run("apply --server-side -f web.yaml"), applied);
    cluster.run("scale deployment web --replicas=1");
    let refused = cluster.run("apply --server-side -f web.yaml");
    assert!(
        refused.starts_with(
            "error: Apply failed with 1 conflict: conflict with \"kubectl\" with subresource \
             \"scale\" using apps/v1: .spec.replicas\n"
        ),
        "{refused}"
    );
    assert_eq!(cluster.run("apply --server-side --force-conflicts -f web.yaml"), applied);
    assert_eq!(cluster.run("get deployment web -o 'jsonpath={.spec.replicas}'"), "2\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_edited_labelled_and_tainted() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start().await;
    cluster.file(
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {k: before}\n",
    );
    assert_eq!(cluster.run("create -f map.yaml"), "configmap/m created\n");
    let taken = cluster.run("create -f map.yaml");
    assert!(taken.contains("(AlreadyExists)") && taken.contains("configmaps \"m\""), "{taken}");
    let edited = cluster.edit("edit configmap m", "sed -i s/before/after/ \"$1\"");
    assert_eq!(edited, "configmap/m edited\n");
    assert_eq!(cluster.run("get configmap m -o 'jsonpath={.data.k}'"), "after\n");
    assert_eq!(cluster.run("label configmap m team=a"), "configmap/m labeled\n");
    assert_eq!(cluster.run("get configmap -l team=a -o name"), "configmap/m\n");
    assert_eq!(cluster.run("label configmap m team-"), "configmap/m unlabeled\n");
    assert_eq!(cluster.run("taint node gpu-0 k=v:NoSchedule"), "node/gpu-0 tainted\n");
    assert_eq!(
        cluster.run("get node gpu-0 -o 'jsonpath={.spec.taints[?(@.key==\"k\")].value}'"),
        "v\n"
    );
    assert_eq!(cluster.run("taint node gpu-0 k-"), "node/gpu-0 untainted\n");
    let patch = "patch configmap m --type=json -p '[{\"op\":\"remove\",\"path\":\"/data/none\"}]'";
    assert_eq!(
        cluster.run(patch),
        "The request is invalid: the server rejected our request due to an error in our request\n"
    );
}

/// Since 1.32 kubectl sends these as protobuf.
#[tokio::test(flavor = "multi_thread")]
async fn objects_are_made_by_commands_of_their_own() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start().await;
    let made = [
        ("namespace lab", "namespace/lab"),
        ("serviceaccount runner -n lab", "serviceaccount/runner"),
        ("configmap settings --from-literal=depth=3 -n lab", "configmap/settings"),
        ("secret generic key --from-literal=word=open -n lab", "secret/key"),
        ("quota few --hard=pods=9,requests.nvidia.com/gpu=4 -n lab", "resourcequota/few"),
        ("deployment web --image=nginx --replicas=2 --port=80 -n lab", "deployment.apps/web"),
        ("job once --image=busybox -n lab -- sleep 5", "job.batch/once"),
        ("cronjob daily --image=busybox '--schedule=0 3 * * *' -n lab", "cronjob.batch/daily"),
        ("service clusterip web --tcp=80:8080 -n lab", "service/web"),
        ("ingress web '--rule=host/path*=web:80' -n lab", "ingress.networking.k8s.io/web"),
        (
            "poddisruptionbudget web --selector=app=web --min-available=50% -n lab",
            "poddisruptionbudget.policy/web",
        ),
        (
            "role reader --verb=get,list --resource=pods -n lab",
            "role.rbac.authorization.k8s.io/reader",
        ),
        (
            "rolebinding readers --role=reader --user=ann -n lab",
            "rolebinding.rbac.authorization.k8s.io/readers",
        ),
        (
            "priorityclass high --value=1000 --description=first",
            "priorityclass.scheduling.k8s.io/high",
        ),
    ];
    for (what, name) in made {
        assert_eq!(cluster.run(&format!("create {what}")), format!("{name} created\n"));
    }
    let field = |object: &str, path: &str| {
        cluster.run(&format!("get {object} -n lab -o 'jsonpath={{{path}}}'"))
    };
    assert_eq!(field("secret key", ".data.word"), "b3Blbg==\n");
    assert_eq!(field("quota few", ".spec.hard.requests\\.nvidia\\.com/gpu"), "4\n");
    assert_eq!(field("pdb web", ".spec.minAvailable"), "50%\n");
    assert_eq!(field("service web", ".spec.ports[0].targetPort"), "8080\n");
    assert_eq!(
        field("job once", ".spec.template.spec.containers[0].command"),
        "[\"sleep\",\"5\"]\n"
    );
    assert_eq!(field("deployment web", ".spec.replicas"), "2\n");
    let again = cluster.run("create namespace lab");
    assert_eq!(again, "Error from server (AlreadyExists): namespaces \"lab\" already exists\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_kind_is_defined_and_used() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start().await;
    cluster.file("kind.yaml", GADGETS);
    let created = "customresourcedefinition.apiextensions.k8s.io/gadgets.example.com created\n";
    assert_eq!(cluster.run("create -f kind.yaml"), created);
    cluster.run("wait --for=condition=Established crd/gadgets.example.com --timeout=10s");
    cluster.file(
        "gadget.yaml",
        "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\nspec: {size: 3}\n",
    );
    assert_eq!(cluster.run("apply -f gadget.yaml"), "gadget.example.com/g created\n");
    let shown = cluster.run("get gd");
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), ["NAME", "SIZE", "g", "3"]);
    let explained = cluster.run("explain gadget.spec");
    assert!(explained.contains("How large it shall be."), "{explained}");
    let refused = cluster.run("patch gadget g --type=merge -p '{\"spec\":{\"size\":0}}'");
    assert!(refused.contains("spec.size"), "{refused}");
    let refused = cluster.run("patch gadget g --type=strategic -p '{\"spec\":{\"size\":4}}'");
    assert!(
        refused.contains("strategic-merge-patch+json is not supported by example.com/v1"),
        "{refused}"
    );
    assert_eq!(cluster.run("delete -f gadget.yaml"), "gadget.example.com \"g\" deleted\n");
}
