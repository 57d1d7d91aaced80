//! Matching of labels by selectors.

use std::collections::BTreeMap;

use super::{LabelSelector, Labels, Name, NamespaceSet, Pod, PodAffinityTerm};

/// Labels of namespaces, by name.
pub type NamespaceLabels = BTreeMap<Name, Labels>;

/// Label with the namespace's name, which the API server sets on every namespace.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

impl PodAffinityTerm {
    /// Whether the term of a pod in `owner_namespace` selects `pod`.
    pub fn selects_pod(
        &self,
        namespaces: &NamespaceLabels,
        owner_namespace: &Name,
        pod: &Pod,
    ) -> bool {
        let in_namespace = match &self.namespaces {
            None => *owner_namespace == pod.namespace,
            Some(set) => namespace_set_contains(set, &pod.namespace, namespaces),
        };
        in_namespace && labels_match(self.selector.as_ref(), &pod.labels)
    }
}

fn namespace_set_contains(
    set: &NamespaceSet,
    namespace: &Name,
    namespaces: &NamespaceLabels,
) -> bool {
    let label = |key: &Name| {
        if &**key == NAMESPACE_NAME_LABEL {
            return Some(namespace);
        }
        namespaces.get(namespace)?.get(key)
    };
    let selected = |selector: &LabelSelector| {
        selector
            .requirements
            .iter()
            .all(|requirement| requirement.matches_value(label(&requirement.key)))
    };
    set.names.contains(namespace) || set.selector.as_ref().is_some_and(selected)
}

/// Whether labels match a selector. An absent selector matches nothing; one without requirements
/// matches everything.
pub fn labels_match(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| {
        selector
            .requirements
            .iter()
            .all(|requirement| requirement.matches_value(labels.get(&requirement.key)))
    })
}
