//! Evictions as steps speak of them, read from the events in which schedulers tell of them. Those
//! of which none tells are found out from what was written.

use std::collections::BTreeSet;
use std::fmt;

use schedlab_json::Value;

use super::{Kind, Pod, View};
use crate::audit::Departure;
use crate::fields;

/// A pod that a scheduler evicted, and what it said.
#[derive(Clone, Copy, Debug)]
pub struct Eviction<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub name: &'a str,
    /// The pod's uid; empty where neither the event nor a pod of that name has one.
    pub uid: &'a str,
    /// The pod as it is or was, when it was seen.
    pub pod: Option<Pod<'a>>,
    /// For whom and why; `None` where nothing announced it.
    pub message: Option<&'a str>,
    /// When, in the API's form.
    pub time: &'a str,
}

impl Eviction<'_> {
    /// Whether the scheduler's words have one of these names in them, other than the victim's own.
    pub fn tells_of(&self, names: &BTreeSet<&str>) -> bool {
        let said = self.message.unwrap_or_default();
        let mut words = words(said, "_-.").filter(|word| *word != self.name);
        words.any(|word| names.contains(word))
    }

    /// Whether they have the name of a queue in them, not that of a namespace.
    pub fn tells_of_queue(&self, queue: &str) -> bool {
        words(self.message.unwrap_or_default(), "_-./").any(|word| word == queue)
    }
}

impl fmt::Display for Eviction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unannounced = "it was deleted while it ran, though nothing announced it";
        write!(f, "{}: {}", self.name, self.message.unwrap_or(unannounced))
    }
}

impl<'a> Eviction<'a> {
    /// A pod that was taken away though nothing announced it.
    fn unannounced(departure: &'a Departure) -> Self {
        let (pod, time) = (Pod(&departure.pod), &*departure.marked);
        let (namespace, name, uid) = (pod.namespace(), pod.name(), pod.uid());
        Self { namespace, name, uid, pod: Some(pod), message: None, time }
    }
}

/// How many pods these evictions are of: a pod that makes room for two is told of twice.
pub(crate) fn victims<'e>(evictions: impl Iterator<Item = &'e Eviction<'e>>) -> usize {
    let pods: BTreeSet<[&str; 3]> =
        evictions.map(|eviction| [eviction.uid, eviction.namespace, eviction.name]).collect();
    pods.len()
}

/// Words of letters, digits and `signs`.
fn words<'m>(message: &'m str, signs: &str) -> impl Iterator<Item = &'m str> {
    let part = move |c: char| c.is_alphanumeric() || signs.contains(c);
    message.split(move |c: char| !part(c)).map(|word| word.trim_matches('.'))
}

/// Events in which a scheduler says that it evicted pods that have left since, or are leaving, and
/// departures of which none tells.
pub(super) fn evictions<'a>(view: &'a View, unannounced: &'a [Departure]) -> Vec<Eviction<'a>> {
    let announced = view.all(Kind::Events).filter_map(|event| eviction(view, event));
    let mut found: Vec<Eviction<'_>> =
        announced.chain(unannounced.iter().map(Eviction::unannounced)).collect();
    found.sort_by_key(|eviction| (eviction.time, eviction.namespace, eviction.name));
    found
}

fn eviction<'a>(view: &'a View, event: &'a Value) -> Option<Eviction<'a>> {
    let field = |at: &str| fields::text(event, at);
    let evicts = matches!(field("/reason")?, "Evict" | "Evicted" | "Preempted");
    if !evicts || field("/involvedObject/kind") != Some("Pod") {
        return None;
    }
    let namespace = field("/involvedObject/namespace")?;
    let name = field("/involvedObject/name")?;
    let place = (namespace.to_owned(), name.to_owned());
    let told_of = |pod: &Pod<'_>| pod.uid() == field("/involvedObject/uid").unwrap_or_default();
    let there = view.pods().find(|pod| (pod.namespace(), pod.name()) == (namespace, name));
    let pod = match there.filter(told_of) {
        Some(pod) if !pod.is_leaving() => return None,
        Some(pod) => Some(pod),
        None => view.pod_gone(&place).or(there),
    };
    let message = field("/message").or_else(|| field("/note")).or(Some(""));
    let time = field("/metadata/creationTimestamp").unwrap_or_default();
    let uid = field("/involvedObject/uid").or(pod.map(Pod::uid)).unwrap_or_default();
    Some(Eviction { namespace, name, uid, pod, message, time })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eviction<'a>(name: &'a str, uid: &'a str, message: &'a str) -> Eviction<'a> {
        Eviction { namespace: "default", name, uid, pod: None, message: Some(message), time: "" }
    }

    #[test]
    fn a_pod_that_makes_room_for_two_is_one_victim() {
        let told = [
            eviction("a", "1", "Preempted by pod x on node n"),
            eviction("a", "1", "Preempted by pod y on node n"),
            eviction("b", "2", "Preempted by pod y on node n"),
        ];
        assert_eq!(victims(told.iter()), 2);
    }

    #[test]
    fn a_pod_that_came_again_under_its_name_is_another_victim() {
        let told = [eviction("web-0", "1", ""), eviction("web-0", "2", "")];
        assert_eq!(victims(told.iter()), 2);
        let nameless = [eviction("a", "", ""), eviction("a", "", ""), eviction("b", "", "")];
        assert_eq!(victims(nameless.iter()), 2, "by name, where there is no uid");
    }

    #[test]
    fn an_eviction_tells_of_others_by_whole_names() {
        let message = "Pod default/a was preempted by workload default/train-7f3c of queue prod.";
        let eviction = eviction("a", "", message);
        let tells_of = |name: &str| eviction.tells_of(&BTreeSet::from(["other", name]));
        assert!(tells_of("train-7f3c") && tells_of("prod"));
        for not in ["a", "train", "7f3c", "pro", "default/a"] {
            assert!(!tells_of(not), "{not}");
        }
    }
}
