//! PodGroups of the coscheduling plugin (scheduler-plugins): an object with a minimum, and a label
//! on its pods. The API has no queues.

use schedlab_api::{Value, json};

use super::{Gang, GangAdapter, GangStatus, Inexpressible, Unsupported};

/// The API version of the PodGroups.
pub(super) const COSCHEDULING_API_VERSION: &str = "scheduling.x-k8s.io/v1alpha1";
/// Label of pods with the name of their PodGroup.
const POD_GROUP_LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// Writes gangs as PodGroups of the coscheduling plugin.
pub(super) struct Coscheduling;

impl GangAdapter for Coscheduling {
    fn inexpressible(&self) -> &'static [Inexpressible] {
        &[("sub-groups", "a PodGroup has one minimum for all of its pods")]
    }

    fn group_object(&self, gang: &Gang) -> Result<Option<Value>, Unsupported> {
        if !gang.sub_groups.is_empty() {
            return Err(Unsupported::always(self.inexpressible(), "sub-groups"));
        }
        Ok(Some(json!({
            "apiVersion": COSCHEDULING_API_VERSION,
            "kind": "PodGroup",
            "metadata": gang.metadata(),
            "spec": {"minMember": gang.minimum},
        })))
    }

    fn add_member(&self, pod: &mut Value, gang: &Gang) -> Result<(), Unsupported> {
        pod["metadata"]["labels"][POD_GROUP_LABEL] = json!(gang.name);
        Ok(())
    }

    fn status_path(&self, namespace: &str, gang: &str) -> Option<String> {
        let root = format!("/apis/{COSCHEDULING_API_VERSION}");
        Some(format!("{root}/namespaces/{namespace}/podgroups/{gang}"))
    }

    fn gang_status(&self, object: &Value) -> Option<GangStatus> {
        match object["status"]["phase"].as_str()? {
            "Running" | "Finished" => Some(GangStatus::Admitted),
            phase => Some(GangStatus::Pending(format!("its phase is {phase}"))),
        }
    }
}
