//! PodGroups of Kubernetes (since 1.37): an object with a scheduling policy, which pods name in
//! `spec.schedulingGroup`. The API has no queues.

use schedlab_api::{Value, api_versions, conditions, json};

use super::{Gang, GangAdapter, GangStatus, Inexpressible, Unsupported};

/// Writes gangs as PodGroups of Kubernetes.
pub(super) struct KubernetesPodGroups;

impl GangAdapter for KubernetesPodGroups {
    fn inexpressible(&self) -> &'static [Inexpressible] {
        &[("sub-groups", "a PodGroup has one minimum for all of its pods")]
    }

    fn group_object(&self, gang: &Gang) -> Result<Option<Value>, Unsupported> {
        if !gang.sub_groups.is_empty() {
            return Err(Unsupported::always(self.inexpressible(), "sub-groups"));
        }
        let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": gang.minimum}}});
        if let Some(class) = &gang.priority_class {
            spec["priorityClassName"] = json!(class);
        }
        if gang.minimum > 1 && gang.minimum == gang.pods {
            // Preemption evicts such a gang whole; the default evicts its pods one by one.
            spec["disruptionMode"] = json!({"all": {}});
        }
        Ok(Some(json!({
            "apiVersion": api_versions::WORKLOAD,
            "kind": "PodGroup",
            "metadata": gang.metadata(),
            "spec": spec,
        })))
    }

    /// The policy of a PodGroup is immutable.
    fn can_change_group(&self) -> bool {
        false
    }

    fn add_member(&self, pod: &mut Value, gang: &Gang) -> Result<(), Unsupported> {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": gang.name});
        Ok(())
    }

    fn status_path(&self, namespace: &str, gang: &str) -> Option<String> {
        let root = format!("/apis/{}", api_versions::WORKLOAD);
        Some(format!("{root}/namespaces/{namespace}/podgroups/{gang}"))
    }

    fn gang_status(&self, object: &Value) -> Option<GangStatus> {
        let all = object["status"]["conditions"].as_array()?;
        let found =
            all.iter().find(|one| one["type"] == conditions::POD_GROUP_INITIALLY_SCHEDULED)?;
        if found["status"] == "True" {
            return Some(GangStatus::Admitted);
        }
        let text = found["message"].as_str().unwrap_or_default();
        Some(GangStatus::Pending(text.to_owned()))
    }
}
