//! Evictions, as schedulers announce them: in an event about the pod, in an event about its pod
//! group, or in a condition of the pod. Evictions without any of them are inferred from the log.

use std::collections::BTreeSet;
use std::fmt;

use schedlab_api::{Value, annotations, pointer as fields};
use schedlab_audit::PodDeletion;

use super::{ObservedCluster, Pod, WatchedKind};

/// The eviction of a pod by a scheduler, with the message of the event about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eviction<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub name: &'a str,
    /// The pod's uid; empty if neither the event nor the pod is known to have one.
    pub uid: &'a str,
    /// The pod in its current or last state, if it was observed.
    pub pod: Option<Pod<'a>>,
    /// The message of the event or condition, with the preemptor and the reason; `None` if nothing
    /// announced the eviction.
    pub message: Option<&'a str>,
    /// The pod group for which the pod was evicted, if an annotation of the event names it.
    pub evictor: Option<&'a str>,
    /// The time of the event, in the API's format.
    pub time: &'a str,
}

/// The reasons of events with which schedulers announce that a pod is evicted: KAI's, that of the
/// eviction API, kube-scheduler's, and Kueue's.
const EVICTION_REASONS: [&str; 4] = ["Evict", "Evicted", "Preempted", "Stopped"];

/// Annotation of KAI's eviction events: the pod group for which the pods are evicted.
const EVICTOR_POD_GROUP: &str = "evictor-pod-group-name";

/// Conditions of pods that a scheduler evicts: Kubernetes', and Kueue's.
const EVICTION_CONDITIONS: [&str; 2] = ["DisruptionTarget", "TerminationTarget"];

impl Eviction<'_> {
    /// Whether the message contains one of these names, the victim's own excepted.
    pub(crate) fn mentions_any(&self, names: &BTreeSet<&str>) -> bool {
        let message = self.message.unwrap_or_default();
        let words = words_of_message(message, "_-.").filter(|word| *word != self.name);
        words.chain(self.evictor).any(|word| names.contains(word))
    }

    /// Whether the message contains the name of a queue, and not only that of a namespace.
    pub(crate) fn mentions_queue(&self, queue: &str) -> bool {
        words_of_message(self.message.unwrap_or_default(), "_-./").any(|word| word == queue)
    }
}

impl fmt::Display for Eviction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unannounced = "the pod was deleted while it ran, and no event announced that";
        write!(f, "{}: {}", self.name, self.message.unwrap_or(unannounced))
    }
}

impl<'a> Eviction<'a> {
    /// An eviction that no event about the pod announced. Its message is that of the pod's
    /// condition or of the event about its pod group.
    fn from_deletion(view: &'a ObservedCluster, deletion: &'a PodDeletion) -> Self {
        let (pod, time) = (Pod(&deletion.pod), &*deletion.requested_at);
        let (namespace, name, uid) = (pod.pod_namespace(), pod.pod_name(), pod.uid());
        let key = (namespace.to_owned(), name.to_owned());
        let last = view.find_deleted_pod(&key).filter(|last| last.uid() == uid);
        let of_group = group_event(view, &deletion.pod);
        let message = eviction_condition(&deletion.pod)
            .or_else(|| last.and_then(|last| eviction_condition(last.0)))
            .or_else(|| of_group.and_then(|event| fields::text(event, "/message")));
        let evictor = of_group.and_then(evictor_of_event);
        Self { namespace, name, uid, pod: Some(pod), message, evictor, time }
    }
}

/// The message of a pod's condition that says that a scheduler evicts it.
fn eviction_condition(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let is_eviction = |condition: &&Value| {
        condition["status"] == "True"
            && EVICTION_CONDITIONS.iter().any(|kind| condition["type"] == *kind)
    };
    conditions.iter().find(is_eviction).and_then(|condition| condition["message"].as_str())
}

/// The event about the pod's group that announces its eviction: the one that names the pod, else
/// the last one.
fn group_event<'a>(view: &'a ObservedCluster, pod: &Value) -> Option<&'a Value> {
    let group = pod["metadata"]["annotations"][annotations::POD_GROUP_NAME].as_str()?;
    let (namespace, name) = (Pod(pod).pod_namespace(), Pod(pod).pod_name());
    let text = fields::text;
    let is_about_group = |event: &&Value| {
        text(event, "/involvedObject/kind") == Some("PodGroup")
            && text(event, "/involvedObject/namespace") == Some(namespace)
            && text(event, "/involvedObject/name") == Some(group)
            && text(event, "/reason").is_some_and(|reason| EVICTION_REASONS.contains(&reason))
    };
    let names_pod = |event: &Value| {
        let message = text(event, "/message").unwrap_or_default();
        words_of_message(message, "_-.").any(|word| word == name)
    };
    let events = view.objects_of_kind(WatchedKind::Events).filter(is_about_group);
    events.max_by_key(|event| {
        let time = text(event, "/metadata/creationTimestamp").unwrap_or_default();
        (names_pod(event), time)
    })
}

fn evictor_of_event(event: &Value) -> Option<&str> {
    event["metadata"]["annotations"][EVICTOR_POD_GROUP].as_str()
}

/// The number of different pods among the evictions: a pod that makes room for two preemptors has
/// two events.
pub(crate) fn distinct_victim_count<'e>(
    evictions: impl Iterator<Item = &'e Eviction<'e>>,
) -> usize {
    let pods: BTreeSet<[&str; 3]> =
        evictions.map(|eviction| [eviction.uid, eviction.namespace, eviction.name]).collect();
    pods.len()
}

/// The words of a message. A word consists of letters, digits and `word_characters`.
fn words_of_message<'m>(message: &'m str, word_characters: &str) -> impl Iterator<Item = &'m str> {
    let part = move |c: char| c.is_alphanumeric() || word_characters.contains(c);
    message.split(move |c: char| !part(c)).map(|word| word.trim_matches('.'))
}

/// The evictions that events about pods announce, of pods that have been or are being deleted, and
/// the other ones.
pub(super) fn evictions_in<'a>(
    view: &'a ObservedCluster,
    unannounced: &'a [PodDeletion],
) -> Vec<Eviction<'a>> {
    let announced = view
        .objects_of_kind(WatchedKind::Events)
        .filter_map(|event| eviction_from_event(view, event));
    let mut found: Vec<Eviction<'_>> = announced
        .chain(unannounced.iter().map(|deletion| Eviction::from_deletion(view, deletion)))
        .collect();
    found.sort_by_key(|eviction| (eviction.time, eviction.namespace, eviction.name));
    found
}

fn eviction_from_event<'a>(view: &'a ObservedCluster, event: &'a Value) -> Option<Eviction<'a>> {
    let field = |at: &str| fields::text(event, at);
    if !EVICTION_REASONS.contains(&field("/reason")?)
        || field("/involvedObject/kind") != Some("Pod")
    {
        return None;
    }
    let namespace = field("/involvedObject/namespace")?;
    let name = field("/involvedObject/name")?;
    let key = (namespace.to_owned(), name.to_owned());
    let is_involved = |pod: &Pod<'_>| pod.uid() == field("/involvedObject/uid").unwrap_or_default();
    let current =
        view.current_pods().find(|pod| (pod.pod_namespace(), pod.pod_name()) == (namespace, name));
    let pod = match current.filter(is_involved) {
        Some(pod) if !pod.is_terminating() => return None,
        Some(pod) => Some(pod),
        None => view.find_deleted_pod(&key).or(current),
    };
    let message = field("/message").or_else(|| field("/note")).or(Some(""));
    let time = field("/metadata/creationTimestamp").unwrap_or_default();
    let uid = field("/involvedObject/uid").or(pod.map(Pod::uid)).unwrap_or_default();
    Some(Eviction { namespace, name, uid, pod, message, evictor: evictor_of_event(event), time })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eviction<'a>(name: &'a str, uid: &'a str, message: &'a str) -> Eviction<'a> {
        let (pod, message, evictor) = (None, Some(message), None);
        Eviction { namespace: "default", name, uid, pod, message, evictor, time: "" }
    }

    #[test]
    fn a_pod_that_makes_room_for_two_is_one_victim() {
        let evictions = [
            eviction("a", "1", "Preempted by pod x on node n"),
            eviction("a", "1", "Preempted by pod y on node n"),
            eviction("b", "2", "Preempted by pod y on node n"),
        ];
        assert_eq!(distinct_victim_count(evictions.iter()), 2);
    }

    #[test]
    fn a_recreated_pod_is_another_victim() {
        let evictions = [eviction("web-0", "1", ""), eviction("web-0", "2", "")];
        assert_eq!(distinct_victim_count(evictions.iter()), 2);
        let nameless = [eviction("a", "", ""), eviction("a", "", ""), eviction("b", "", "")];
        assert_eq!(distinct_victim_count(nameless.iter()), 2, "by name, where there is no uid");
    }

    #[test]
    fn an_eviction_mentions_whole_names_only() {
        let message = "Pod default/a was preempted by workload default/train-7f3c of queue prod.";
        let eviction = eviction("a", "", message);
        let tells_of = |name: &str| eviction.mentions_any(&BTreeSet::from(["other", name]));
        assert!(tells_of("train-7f3c") && tells_of("prod"));
        for not in ["a", "train", "7f3c", "pro", "default/a"] {
            assert!(!tells_of(not), "{not}");
        }
    }
}
