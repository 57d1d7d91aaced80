//! Names of objects that have a fixed meaning.

/// Prefix of the names of KAI's reservation pods. Such a pod holds a shared GPU as a whole, so that
/// the device plugin sees it as used.
pub const GPU_RESERVATION_PREFIX: &str = "gpu-reservation-";
/// The queue of workloads without a queue. Chosen by KAI's pod grouper.
pub const DEFAULT_QUEUE: &str = "default-queue";
/// The `ConfigMap` in each namespace with the certificate of the API server. Created by a
/// controller of Kubernetes.
pub const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";
/// The namespace of the leases with which kubelets send heartbeats.
pub const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";
