//! The workload kinds that a cluster may know besides Kubernetes' own: JobSet, TrainJob with its
//! runtimes, PyTorchJob. Their schemas name the fields that exist: whoever writes others is told
//! so, or warned, as by the real ones. Pod templates are not looked into: the pods made from
//! them are.

use std::sync::LazyLock;

use schedlab_json::Value;

const TEXTS: [&str; 4] = [
    include_str!("crds/clustertrainingruntimes.yaml"),
    include_str!("crds/jobsets.yaml"),
    include_str!("crds/pytorchjobs.yaml"),
    include_str!("crds/trainjobs.yaml"),
];

/// The `CustomResourceDefinition`s, by name.
pub fn workload_kinds() -> Vec<Value> {
    // Read once: every scenario boots a cluster.
    static KINDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let read = |text: &&str| serde_saphyr::from_str(text).expect("our own YAML is sound");
        TEXTS.iter().map(read).collect()
    });
    KINDS.clone()
}
