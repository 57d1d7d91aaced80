//! CRDs of third-party workload kinds: JobSet, LeaderWorkerSet, PyTorchJob, RayCluster, RayJob, and
//! TrainJob with its runtimes. Their
//! schemas list the existing fields, so unknown fields are reported as by the original CRDs. Pod
//! templates are not validated; the pods created from them are.

use std::sync::LazyLock;

use schedlab_api::Value;

const CRD_YAML: [&str; 7] = [
    include_str!("third_party_crds/clustertrainingruntimes.yaml"),
    include_str!("third_party_crds/jobsets.yaml"),
    include_str!("third_party_crds/leaderworkersets.yaml"),
    include_str!("third_party_crds/pytorchjobs.yaml"),
    include_str!("third_party_crds/rayclusters.yaml"),
    include_str!("third_party_crds/rayjobs.yaml"),
    include_str!("third_party_crds/trainjobs.yaml"),
];

/// The `CustomResourceDefinition`s of third-party workload kinds, such as `JobSet`, ordered by
/// name.
pub fn workload_crds() -> Vec<Value> {
    // Parsed once: every scenario boots a cluster.
    static KINDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let parse =
            |text: &&str| serde_saphyr::from_str(text).expect("the embedded CRDs are valid YAML");
        CRD_YAML.iter().map(parse).collect()
    });
    KINDS.clone()
}
