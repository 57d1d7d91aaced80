//! Which pods a selector selects, and whose terms select a pod. Labels do not change within a
//! cycle, so both are cached on first use.

use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Session;
use crate::model::{
    LabelSelector, Labels, Name, NamespaceSet, PodAffinityTerm, PodId, PodShape, labels_match,
};

/// Cached results of matching pod selectors with pods.
#[derive(Clone, Debug, Default)]
pub(super) struct SelectorCache {
    selected_pods: RefCell<BTreeMap<SelectorKey, Arc<[PodId]>>>,
    matching_terms: RefCell<BTreeMap<PodId, Arc<MatchingTerms>>>,
    /// The terms that select a pod, by namespace and relevant labels: pods that agree in these are
    /// selected by the same terms.
    alike: RefCell<BTreeMap<(Name, Labels), Arc<MatchingTerms>>>,
    /// The terms that select a pod if no pod has terms.
    nothing: OnceCell<Arc<MatchingTerms>>,
    /// Label keys that occur in the selectors of any term.
    selector_keys: OnceCell<BTreeSet<Name>>,
}

/// A selector, its namespaces, and the namespace of the pod that has it.
type SelectorKey = (Option<LabelSelector>, Option<NamespaceSet>, Name);

/// Pod affinity terms that select a pod. Each term is given by its pod and its position in that
/// pod's list of terms.
#[derive(Clone, Debug, Default)]
pub struct MatchingTerms {
    /// Required anti-affinity terms.
    pub anti_affinity: Vec<(PodId, usize)>,
    /// Preferred affinity and anti-affinity terms.
    pub preferred: Vec<(PodId, usize)>,
    /// Required affinity terms.
    pub required: Vec<(PodId, usize)>,
}

impl Session<'_> {
    /// The pods that a pod affinity term of `owner` selects, on any node or none.
    pub fn pods_selected_by(&self, term: &PodAffinityTerm, owner: PodId) -> Arc<[PodId]> {
        let (namespaces, of) = (&self.snapshot.namespaces, &self.pod(owner).namespace);
        let key = (term.selector.clone(), term.namespaces.clone(), of.clone());
        self.cached_selection(key, |pod| term.selects_pod(namespaces, of, self.pod(pod)))
    }

    /// The pods of a namespace that a label selector selects, on any node or none.
    pub fn pods_selected_in_namespace(
        &self,
        namespace: &Name,
        selector: Option<&LabelSelector>,
    ) -> Arc<[PodId]> {
        let key = (selector.cloned(), None, namespace.clone());
        self.cached_selection(key, |pod| {
            let pod = self.pod(pod);
            pod.namespace == *namespace && labels_match(selector, &pod.labels)
        })
    }

    fn cached_selection(
        &self,
        key: SelectorKey,
        is_selected: impl Fn(PodId) -> bool,
    ) -> Arc<[PodId]> {
        let mut selected = self.caches.selectors.selected_pods.borrow_mut();
        let found = selected
            .entry(key)
            .or_insert_with(|| self.pod_ids().filter(|pod| is_selected(*pod)).collect());
        Arc::clone(found)
    }

    /// The pod affinity terms, of all pods, that select this pod.
    pub fn terms_selecting_pod(&self, pod: PodId) -> Arc<MatchingTerms> {
        if self.anti_affinity_pods().is_empty() && self.pods_with_affinity().is_empty() {
            return Arc::clone(self.caches.selectors.nothing.get_or_init(Arc::default));
        }
        let find_alike = || {
            let of = self.pod(pod);
            let mut alike = self.caches.selectors.alike.borrow_mut();
            let alike = alike.entry((of.namespace.clone(), self.labels_used_by_selectors(pod)));
            Arc::clone(alike.or_insert_with(|| Arc::new(self.find_terms_selecting_pod(pod))))
        };
        let mut terms = self.caches.selectors.matching_terms.borrow_mut();
        Arc::clone(terms.entry(pod).or_insert_with(find_alike))
    }

    fn labels_used_by_selectors(&self, pod: PodId) -> Labels {
        let keys = self.caches.selectors.selector_keys.get_or_init(|| {
            let terms = |shape: &PodShape| {
                let preferred = shape.pod_preferences.iter().map(|(_, term)| term);
                let terms = shape.pod_affinity.iter().chain(&shape.pod_anti_affinity);
                let selectors = terms.chain(preferred).filter_map(|term| term.selector.as_ref());
                let requirements = selectors.flat_map(|selector| &selector.requirements);
                requirements.map(|requirement| Name::clone(&requirement.key)).collect::<Vec<_>>()
            };
            self.snapshot.shapes.iter().flat_map(terms).collect()
        });
        let labels = self.pod(pod).labels.iter().filter(|(key, _)| keys.contains(*key));
        labels.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn find_terms_selecting_pod(&self, pod: PodId) -> MatchingTerms {
        let (namespaces, pod) = (&self.snapshot.namespaces, self.pod(pod));
        let among = |others: &[PodId], terms: fn(&PodShape) -> Vec<&PodAffinityTerm>| {
            let mut found = Vec::new();
            for &other in others {
                let of = &self.pod(other).namespace;
                let terms = terms(self.shape_of(other)).into_iter().enumerate();
                let matching = terms.filter(|(_, term)| term.selects_pod(namespaces, of, pod));
                found.extend(matching.map(|(at, _)| (other, at)));
            }
            found
        };
        let (shunning, preferring) = (self.anti_affinity_pods(), self.pods_with_affinity());
        MatchingTerms {
            anti_affinity: among(shunning, |shape| shape.pod_anti_affinity.iter().collect()),
            preferred: among(preferring, |shape| {
                shape.pod_preferences.iter().map(|(_, term)| term).collect()
            }),
            required: among(preferring, |shape| shape.pod_affinity.iter().collect()),
        }
    }
}
