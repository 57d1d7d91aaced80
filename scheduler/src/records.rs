//! API objects as records: the fields that affect scheduling, parsed once when an object changes. A
//! record knows nothing of other objects; `dra` and `cache` relate them.

mod condition;
pub(crate) mod extended_requests;
pub(crate) mod gpu_fractions;
mod indexed_map;
pub(crate) mod numa;
mod object_key;
pub(crate) mod pod;
mod pod_claims;
pub(crate) mod pod_requests;
pub(crate) mod selectors;

pub(crate) use condition::{Condition, conditions, find_condition};
pub(crate) use gpu_fractions::gpu_groups;
pub(crate) use indexed_map::{IndexedMap, Marked};
pub(crate) use numa::{NumaRecord, placements_to_json};
pub(crate) use object_key::{ObjectKey, insert_if_changed};
pub(crate) use pod::{
    NodeSource, Owner, Phase, PodMark, PodRecord, Scheduler, controller_owner, parent_owner,
};
pub use pod_claims::required_config_maps;
pub(crate) use pod_claims::{PodResourceClaim, PodVolumeClaim, SHARED_GPU_CONFIG_MAP_ANNOTATION};
