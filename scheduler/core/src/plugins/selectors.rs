//! Matching of labels by selectors.

use std::collections::BTreeMap;

use crate::model::{LabelSelector, Labels, Name, NamespaceSet, Pod, PodAffinityTerm};

/// Labels of namespaces.
pub(super) type Namespaces = BTreeMap<Name, Labels>;

/// The label that every namespace bears, and that nobody can change.
const NAME_OF_NAMESPACE: &str = "kubernetes.io/metadata.name";

/// The pod is one of those that the term of `owner` means.
pub(super) fn term_selects(
    term: &PodAffinityTerm,
    namespaces: &Namespaces,
    (owner, pod): (&Pod, &Pod),
) -> bool {
    let in_namespace = match &term.namespaces {
        None => owner.namespace == pod.namespace,
        Some(set) => is_one_of(set, &pod.namespace, namespaces),
    };
    in_namespace && labels_match(term.selector.as_ref(), &pod.labels)
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
pub(super) fn labels_match(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| {
        selector.requirements.iter().all(|wanted| wanted.holds(labels.get(&wanted.key)))
    })
}
