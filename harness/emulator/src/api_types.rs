//! The types of the API, without objects and without IO: kinds with their schemas, errors,
//! selectors, names, the annotations of kubelets, and CEL expressions.

pub mod error;
pub mod feature_gates;
pub mod kinds;

pub(crate) mod expression;
pub(crate) mod field_selector;
pub(crate) mod go_time;
pub(crate) mod kubelet_timing;
pub(crate) mod kubernetes_version;
pub(crate) mod label_selector;
pub(crate) mod names;
pub(crate) mod pod_requests;
pub(crate) mod resource;
pub(crate) mod third_party_crds;
