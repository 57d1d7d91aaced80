//! Matching of labels by selectors.

use std::collections::BTreeMap;

use super::{LabelSelector, Labels, Name, NamespaceSet, Pod, PodAffinityTerm};

/// Labels of namespaces.
pub(crate) type Namespaces = BTreeMap<Name, Labels>;

/// The label that every namespace bears, and that nobody can change.
const NAME_OF_NAMESPACE: &str = "kubernetes.io/metadata.name";

impl PodAffinityTerm {
    /// The pod is one of those that the term means, as a pod in namespace `of` has it.
    pub(crate) fn selects(&self, namespaces: &Namespaces, of: &Name, pod: &Pod) -> bool {
        let in_namespace = match &self.namespaces {
            None => *of == pod.namespace,
            Some(set) => is_one_of(set, &pod.namespace, namespaces),
        };
        in_namespace && labels_match(self.selector.as_ref(), &pod.labels)
    }
}

fn is_one_of(set: &NamespaceSet, namespace: &Name, namespaces: &Namespaces) -> bool {
    let label = |key: &Name| {
        if &**key == NAME_OF_NAMESPACE {
            return Some(namespace);
        }
        namespaces.get(namespace)?.get(key)
    };
    let selected = |selector: &LabelSelector| {
        selector.requirements.iter().all(|wanted| wanted.holds(label(&wanted.key)))
    };
    set.names.contains(namespace) || set.selector.as_ref().is_some_and(selected)
}

/// A selector that is absent matches nothing; one without requirements matches everything.
pub(crate) fn labels_match(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| {
        selector.requirements.iter().all(|wanted| wanted.holds(labels.get(&wanted.key)))
    })
}
