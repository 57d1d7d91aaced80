//! Which pods a selector means, and whose terms mean a pod. Labels do not change in a cycle, so
//! both are found once, when somebody asks.

use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Session;
use crate::model::{
    LabelSelector, Labels, Name, NamespaceSet, PodAffinityTerm, PodId, PodShape, labels_match,
};

/// What was asked so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Selected {
    meant: RefCell<BTreeMap<Meaning, Arc<[PodId]>>>,
    minding: RefCell<BTreeMap<PodId, Arc<Minding>>>,
    /// The same for all pods in this namespace of whose labels those that terms ask for are these.
    alike: RefCell<BTreeMap<(Name, Labels), Arc<Minding>>>,
    /// Keys of the labels that terms ask for.
    asked: OnceCell<BTreeSet<Name>>,
}

/// A selector, where it looks, and the namespace of the pod that has it.
type Meaning = (Option<LabelSelector>, Option<NamespaceSet>, Name);

/// Pods whose terms mean a pod, each with the term's place in its list.
#[derive(Clone, Debug, Default)]
pub struct Minding {
    /// Those that shun it.
    pub shunning: Vec<(PodId, usize)>,
    /// Those that would like it near, or far.
    pub preferring: Vec<(PodId, usize)>,
    /// Those that need it near.
    pub needing: Vec<(PodId, usize)>,
}

impl Session<'_> {
    /// The pods that a term of `owner` means, wherever they are.
    pub fn meant_by(&self, term: &PodAffinityTerm, owner: PodId) -> Arc<[PodId]> {
        let (namespaces, of) = (&self.snapshot.namespaces, &self.pod(owner).namespace);
        let key = (term.selector.clone(), term.namespaces.clone(), of.clone());
        self.meant(key, |pod| term.selects(namespaces, of, self.pod(pod)))
    }

    /// The pods of a namespace that a selector means, wherever they are.
    pub fn meant_in(&self, namespace: &Name, selector: Option<&LabelSelector>) -> Arc<[PodId]> {
        let key = (selector.cloned(), None, namespace.clone());
        self.meant(key, |pod| {
            let pod = self.pod(pod);
            pod.namespace == *namespace && labels_match(selector, &pod.labels)
        })
    }

    fn meant(&self, key: Meaning, is_meant: impl Fn(PodId) -> bool) -> Arc<[PodId]> {
        let mut meant = self.selected.meant.borrow_mut();
        let found = meant
            .entry(key)
            .or_insert_with(|| self.pod_ids().filter(|pod| is_meant(*pod)).collect());
        Arc::clone(found)
    }

    /// The pods whose terms mean this one, wherever they are.
    pub fn minding(&self, pod: PodId) -> Arc<Minding> {
        let find_alike = || {
            let of = self.pod(pod);
            let mut alike = self.selected.alike.borrow_mut();
            let alike = alike.entry((of.namespace.clone(), self.asked_labels(pod)));
            Arc::clone(alike.or_insert_with(|| Arc::new(self.find_minding(pod))))
        };
        let mut minding = self.selected.minding.borrow_mut();
        Arc::clone(minding.entry(pod).or_insert_with(find_alike))
    }

    fn asked_labels(&self, pod: PodId) -> Labels {
        let asked = self.selected.asked.get_or_init(|| {
            let terms = |shape: &PodShape| {
                let preferred = shape.pod_preferences.iter().map(|(_, term)| term);
                let terms = shape.pod_affinity.iter().chain(&shape.pod_anti_affinity);
                let selectors = terms.chain(preferred).filter_map(|term| term.selector.as_ref());
                let requirements = selectors.flat_map(|selector| &selector.requirements);
                requirements.map(|wanted| Name::clone(&wanted.key)).collect::<Vec<_>>()
            };
            self.snapshot.shapes.iter().flat_map(terms).collect()
        });
        let labels = self.pod(pod).labels.iter().filter(|(key, _)| asked.contains(*key));
        labels.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn find_minding(&self, pod: PodId) -> Minding {
        let (namespaces, pod) = (&self.snapshot.namespaces, self.pod(pod));
        let among = |others: &[PodId], terms: fn(&PodShape) -> Vec<&PodAffinityTerm>| {
            let mut found = Vec::new();
            for &other in others {
                let of = &self.pod(other).namespace;
                let terms = terms(self.shape_of(other)).into_iter().enumerate();
                let meaning = terms.filter(|(_, term)| term.selects(namespaces, of, pod));
                found.extend(meaning.map(|(at, _)| (other, at)));
            }
            found
        };
        let (shunning, preferring) = (self.shunning_pods(), self.preferring_pods());
        Minding {
            shunning: among(shunning, |shape| shape.pod_anti_affinity.iter().collect()),
            preferring: among(preferring, |shape| {
                shape.pod_preferences.iter().map(|(_, term)| term).collect()
            }),
            needing: among(preferring, |shape| shape.pod_affinity.iter().collect()),
        }
    }
}
