//! get -w.

use crate::cluster::{Cluster, has_kubectl};

#[tokio::test(flavor = "multi_thread")]
async fn changes_appear_as_they_happen() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start().await;
    cluster.run("run web --image=nginx");
    let mut pods = cluster
        .watch("get pods -w --no-headers -o custom-columns=:.metadata.name,:.metadata.labels.seen");
    assert_eq!(pods.line(), "web <none>");
    cluster.run("label pod web seen=yes");
    assert_eq!(pods.line(), "web yes");
    let mut table = cluster.watch("get pods -w");
    assert_eq!(table.line(), "NAME READY STATUS RESTARTS AGE");
    assert!(table.line().starts_with("web 0/1 Pending 0"));
    cluster.run("run other --image=nginx");
    assert!(table.line().starts_with("other 0/1 Pending 0"));
}
