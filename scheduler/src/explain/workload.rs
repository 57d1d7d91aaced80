//! Which pod groups a name means, and what is said of them beyond the cycle itself: where their
//! priority comes from, and why several groups are no gang.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use schedlab_json::{Value, json};
use schedlab_scheduler_core::{
    Decision, Plan, Reason,
    explain::{Explanation, Told, explain as explain_group},
    model::{Name, Pod, PodGroup, PodGroupId},
    schedule,
};

use super::{Form, Seen, json, restraint};
use crate::{
    config::{Config, NodePool},
    mirror::{BINDING_ERROR, GroupRecord, Key, Mirror, PodRecord, Scheduler, Unbound},
    parse::strings,
    podgrouper::{Grouper, Link},
    translate::{Trouble, UNGROUPED},
};

const MIN_MEMBER_ANNOTATION: &str = "kai.scheduler/batch-min-member";

/// What a name stands for.
struct Meant {
    /// Its pods: with their groups, if they have one.
    pods: Vec<Key>,
    /// Pod groups that were named, or that the pods belong to.
    groups: Vec<Key>,
    /// The owners of the first pod, nearest first.
    chain: Vec<Link>,
}

/// Why groups wait.
struct Waiting {
    by_plan: BTreeMap<PodGroupId, Reason>,
    /// As a pod that has a place cannot be bound to it.
    unbound: BTreeMap<Key, Unbound>,
}

/// What of which name cannot be scheduled as it stands, or be bound.
struct Wrong<'a> {
    /// `pod` or `podGroup`.
    kind: &'static str,
    key: &'a Key,
    message: String,
    remedy: String,
}

pub(super) async fn explain(
    seen: &Seen,
    (namespace, name): (&str, &str),
    form: Form,
) -> anyhow::Result<String> {
    let meant = meant(seen, namespace, name).await?;
    let plan = schedule(seen.snapshot(), &seen.config.profile);
    let of_pods = meant.pods.iter().find_map(|pod| of_pod(seen, pod));
    let of_groups = || meant.groups.iter().find_map(|key| of_group(seen, key));
    let tried = tried(seen, &plan);
    let trouble = of_pods.or_else(of_groups).or_else(|| unbound(seen, &meant.pods, &tried));
    let groups: Vec<(&Key, PodGroupId)> =
        meant.groups.iter().filter_map(|key| Some((key, find(seen, key)?))).collect();
    let unbound = Unbound::by_group(&seen.mirror, &tried);
    let waiting = Waiting { by_plan: plan.waiting, unbound };
    let of = |id: PodGroupId| &seen.snapshot().pod_groups[id.0 as usize];
    // A group whose only pod is told of has no more to say.
    let is_told = |group: &Key| match &trouble {
        Some(Wrong { kind: "pod", key: told, .. }) => {
            seen.mirror.pods_of(group).all(|(pod, _)| pod == **told)
        }
        Some(_) | None => false,
    };
    let waits = groups.iter().filter(|(key, id)| waiting.by_plan.contains_key(id) && !is_told(key));
    let oldest = waits.min_by_key(|(_, id)| (of(*id).created, &of(*id).uid));
    let shown = oldest.or(groups.first().filter(|_| trouble.is_none()));
    if trouble.is_none() && groups.is_empty() {
        bail!(
            "pod group {namespace}/{name} has no pods that wait or run: there is nothing to explain"
        );
    }
    let shown = shown.map(|(key, id)| {
        let explanation = explain_group(seen.snapshot(), &seen.config.profile, *id);
        let mut notes = notes(seen, (key, of(*id)), &meant, groups.len());
        let of = (*id, waiting.by_plan.get(id));
        notes.extend(restraint::note(seen.snapshot(), &seen.config.profile, of));
        (explanation, notes)
    });
    Ok(match form {
        Form::Text => {
            let many = (groups.len() > 1).then(|| summary(name, &groups, &waiting));
            in_words(seen, trouble, many, shown)
        }
        Form::Json => {
            let groups = groups.iter().map(|(key, id)| {
                let mut group = json::title(of(*id));
                group["reason"] = json!(waiting.reason((key, *id)));
                group
            });
            let trouble = trouble.map(|Wrong { kind, key, message, remedy }| {
                json!({ kind: key.to_string(), "message": message, "remedy": remedy })
            });
            let shown = shown.map(|(of, notes)| json::group(seen.snapshot(), &of, &notes));
            let told = json!({
                "workload": format!("{namespace}/{name}"),
                "trouble": trouble,
                "podGroups": groups.collect::<Vec<_>>(),
                "explained": shown,
            });
            format!("{told:#}\n")
        }
    })
}

fn in_words(
    seen: &Seen,
    trouble: Option<Wrong<'_>>,
    many: Option<String>,
    shown: Option<(Explanation, Vec<String>)>,
) -> String {
    let trouble = trouble.map(|Wrong { kind, key, message, remedy }| {
        let what = match kind {
            "pod" => format!("pod {key} waits"),
            _ => format!("pod group {key} starts no more pods"),
        };
        format!("{what}\n\nreason: {message}\n\nremedy: {remedy}\n")
    });
    let shown = shown.map(|(explanation, notes)| {
        let text = Told { snapshot: seen.snapshot(), explanation: &explanation }.to_string();
        text + &super::in_words(&notes)
    });
    trouble.into_iter().chain(many).chain(shown).collect::<Vec<_>>().join("\n")
}

fn find(seen: &Seen, key: &Key) -> Option<PodGroupId> {
    let mut groups = (0..).map(PodGroupId).zip(&seen.snapshot().pod_groups);
    let is_meant = |group: &PodGroup| group.namespace == key.namespace && group.name == key.name;
    groups.find(|(_, group)| is_meant(group)).map(|(id, _)| id)
}

fn of_pod<'a>(seen: &Seen, key: &'a Key) -> Option<Wrong<'a>> {
    let trouble = seen.translator.translation.troubles.get(key)?;
    let told = said_by_grouper(seen, key).filter(|_| *trouble == Trouble::NoGroup);
    let (message, remedy) = match told {
        Some(told) => (told, "mend what is named there".to_owned()),
        None => (trouble.to_string(), trouble.remedy()),
    };
    Some(Wrong { kind: "pod", key, message, remedy })
}

/// Why the grouper put the pod into no group: its owners alone tell that, who are not read here.
fn said_by_grouper(seen: &Seen, key: &Key) -> Option<String> {
    let told = seen.mirror.pods.get(key)?.told.scheduled.as_ref()?;
    told.message.starts_with(UNGROUPED).then(|| told.message.to_string())
}

/// The group cannot be read: what runs of it runs on.
fn of_group<'a>(seen: &Seen, key: &'a Key) -> Option<Wrong<'a>> {
    let trouble = Trouble::of_group(&key.name, seen.mirror.groups.get(key)?)?;
    Some(Wrong { kind: "podGroup", key, message: trouble.to_string(), remedy: trouble.remedy() })
}

impl Waiting {
    fn code(&self, (key, id): (&Key, PodGroupId)) -> Option<&'static str> {
        let by_plan = || self.by_plan.get(&id).map(Reason::code);
        self.unbound.get(key).map(|_| BINDING_ERROR).or_else(by_plan)
    }

    fn reason(&self, (key, id): (&Key, PodGroupId)) -> Option<Value> {
        let by_plan = || self.by_plan.get(&id).map(json::reason);
        let unbound = self.unbound.get(key);
        let unbound = unbound.map(|it| json!({ "code": BINDING_ERROR, "message": &*it.message }));
        unbound.or_else(by_plan)
    }
}

/// Pods that the next cycle would bind.
fn tried(seen: &Seen, plan: &Plan) -> BTreeSet<Key> {
    let bound = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Bind { pod, .. } => Some(&seen.snapshot().pods[pod.0 as usize]),
        Decision::Evict { .. } | Decision::Pipeline { .. } => None,
    });
    let key = |pod: &Pod| Key { namespace: pod.namespace.clone(), name: pod.name.clone() };
    bound.map(key).collect()
}

/// One of them has a place, or is given one now, and could not be bound so far.
fn unbound<'a>(seen: &Seen, pods: &'a [Key], tried: &BTreeSet<Key>) -> Option<Wrong<'a>> {
    pods.iter().find_map(|key| {
        let unbound = Unbound::of_pod((key, seen.mirror.pods.get(key)?), tried)?;
        let remedy = unbound.remedy();
        Some(Wrong { kind: "pod", key, message: unbound.message.to_string(), remedy })
    })
}

async fn meant(seen: &Seen, namespace: &str, name: &str) -> anyhow::Result<Meant> {
    let key = Key { namespace: namespace.into(), name: name.into() };
    let mut grouper = Grouper::new(&seen.config);
    if seen.mirror.groups.contains_key(&key) {
        let ours = seen.mirror.pods_of(&key).filter(|(_, pod)| pod.ours);
        let pods: Vec<Key> = ours.map(|(pod, _)| pod).collect();
        let chain = chain_of(seen, &mut grouper, pods.first()).await?;
        return Ok(Meant { pods, groups: vec![key], chain });
    }
    if let Some(pod) = seen.mirror.pods.get(&key) {
        if !pod.ours {
            bail!(not_ours(&seen.mirror, (&key, pod), &seen.config));
        }
        let groups = group_of(&key, pod).into_iter().collect();
        let chain = chain_of(seen, &mut grouper, Some(&key)).await?;
        return Ok(Meant { pods: vec![key], groups, chain });
    }
    owned(seen, &mut grouper, &key).await
}

/// What keeps the pod from being scheduled here: its scheduler, or else its node pool, which is
/// that of its group if it has one.
fn not_ours(mirror: &Mirror, (key, pod): (&Key, &PodRecord), config: &Config) -> String {
    let name = &config.scheduler_name;
    let of_this_scheduler = pod.scheduler == Scheduler::This;
    let Some(NodePool { label, value }) = config.node_pool.as_ref().filter(|_| of_this_scheduler)
    else {
        return format!("pod {key} is not of scheduler {name}");
    };
    let group = group_of(key, pod).and_then(|key| Some((mirror.groups.get(&key)?, key)));
    let (whose, found) = match &group {
        Some((record, key)) => (format!("pod group {key}"), record.pool_label.as_ref()),
        None => ("it".to_owned(), mirror.pool_label(&pod.labels)),
    };
    let found = found.map_or_else(|| format!("no label {label}"), |it| format!("{label}={it}"));
    let pool = match &**value {
        "" => format!("what has no label {label}"),
        value => format!("node pool {label}={value}"),
    };
    format!("pod {key} is of another node pool: {whose} has {found}, and {name} here serves {pool}")
}

/// The pods that an owner of that name has, directly or not.
async fn owned(seen: &Seen, grouper: &mut Grouper, key: &Key) -> anyhow::Result<Meant> {
    let mut meant = Meant { pods: Vec::new(), groups: Vec::new(), chain: Vec::new() };
    let of_namespace = seen.mirror.pods.iter().filter(|(pod, _)| pod.namespace == key.namespace);
    for (pod, record) in of_namespace.filter(|(_, record)| record.ours && record.owner.is_some()) {
        let chain = grouper.chain(&seen.api, &pod.namespace, record).await?;
        if !chain.iter().any(|link| link.owner.name == key.name) {
            continue;
        }
        meant.pods.push(pod.clone());
        meant.groups.extend(group_of(pod, record).filter(|group| !meant.groups.contains(group)));
        if meant.chain.is_empty() {
            meant.chain = chain;
        }
    }
    if meant.pods.is_empty() {
        bail!(
            "{key}: scheduler {} has no pod group and no pod of that name, and none whose owner \
             has it",
            seen.config.scheduler_name
        );
    }
    Ok(meant)
}

async fn chain_of(
    seen: &Seen,
    grouper: &mut Grouper,
    pod: Option<&Key>,
) -> anyhow::Result<Vec<Link>> {
    let record = pod.and_then(|pod| seen.mirror.pods.get(pod));
    match pod.zip(record) {
        Some((pod, record)) => Ok(grouper.chain(&seen.api, &pod.namespace, record).await?),
        None => Ok(Vec::new()),
    }
}

fn group_of(pod: &Key, record: &PodRecord) -> Option<Key> {
    let name = Name::clone(record.group.as_ref()?);
    Some(Key { namespace: Name::clone(&pod.namespace), name })
}

/// Several pod groups under one name, by what they wait for.
fn summary(name: &str, groups: &[(&Key, PodGroupId)], waiting: &Waiting) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for group in groups {
        *counts.entry(waiting.code(*group).unwrap_or_default()).or_default() += 1;
    }
    let count = |(reason, count): (&str, usize)| match reason {
        "" => format!("{count} do not wait"),
        reason => format!("{count} wait ({reason})"),
    };
    let counts: Vec<String> = counts.into_iter().map(count).collect();
    format!("{name} has {} pod groups: {}; one of them:\n", groups.len(), counts.join(", "))
}

fn notes(
    seen: &Seen,
    (key, group): (&Key, &PodGroup),
    meant: &Meant,
    groups: usize,
) -> Vec<String> {
    let top = meant.chain.last();
    let serves = top.is_some_and(|top| &*top.owner.kind == "Deployment");
    let mut notes = seen.notes.clone();
    if !group.preemptible {
        notes.push(why_it_may_not_borrow(seen.mirror.groups.get(key), group.priority, serves));
    }
    if let Some(top) = top.filter(|_| serves) {
        let asked = strings(&top.object, "/metadata/annotations");
        let minimum = asked.get(MIN_MEMBER_ANNOTATION).map_or_else(String::new, |minimum| {
            format!(" Its annotation {MIN_MEMBER_ANNOTATION}={minimum} is read on a Job, not here.")
        });
        let count = if groups > 1 { format!(" (here {groups})") } else { String::new() };
        notes.push(format!(
            "Deployment {} is no gang: KAI makes one pod group of each of its pods{count}, and each \
             starts alone.{minimum} A Job with annotation {MIN_MEMBER_ANNOTATION} starts whole or \
             not at all.",
            top.owner.name
        ));
    }
    notes
}

fn why_it_may_not_borrow(record: Option<&GroupRecord>, priority: i32, serves: bool) -> String {
    let stated = record.is_some_and(|record| record.preemptible == Some(false));
    let class = record.and_then(|record| record.priority_class.as_deref()).unwrap_or("none");
    let from = if serves && class == "inference" {
        ", which KAI gives to the pods of a Deployment that names none"
    } else {
        ""
    };
    let (why, or_class) = if stated {
        ("it says so (preemptibility), whatever its class".to_owned(), "")
    } else {
        let why = format!("its priority is {priority}, and from 100 on work is");
        (format!("{why} (class {class}{from})"), ", or priorityClassName: train,")
    };
    format!(
        "It is non-preemptible, since {why}. Such work stays inside the quota of its queue and \
         borrows nothing, or a loan would never come back. Label kai.scheduler/preemptibility: \
         preemptible{or_class} lets new pods borrow; those that are there borrow when their \
         PodGroup has spec.preemptibility: preemptible."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Kind;

    /// Of a pod with these labels, of a group with those, what is told where pool `value` is served.
    fn told(value: &str, scheduler: &str, [pod, group]: [&[(&str, &str)]; 2]) -> String {
        let pool = NodePool { label: "pool".to_owned(), value: value.to_owned() };
        let config = Config { node_pool: Some(pool.clone()), ..Config::kai() };
        let mut mirror = Mirror::new("kai-scheduler").of_pool(Some(pool));
        let labels = |all: &[(&str, &str)]| json!(all.iter().copied().collect::<BTreeMap<_, _>>());
        if !group.is_empty() {
            mirror.upsert(
                Kind::PodGroup,
                &json!({ "metadata": { "namespace": "ns", "name": "g", "labels": labels(group) } }),
            );
        }
        let annotations = json!({ "pod-group-name": "g" });
        let metadata = json!({ "namespace": "ns", "name": "p", "labels": labels(pod),
                               "annotations": annotations });
        let spec = json!({ "schedulerName": scheduler });
        mirror.upsert(Kind::Pod, &json!({ "metadata": metadata, "spec": spec }));
        let key = Key { namespace: "ns".into(), name: "p".into() };
        let pod = &mirror.pods[&key];
        assert!(!pod.ours);
        not_ours(&mirror, (&key, pod), &config)
    }

    #[test]
    fn a_pod_of_another_node_pool_is_told_its_own_and_the_one_served() {
        assert_eq!(
            told("x", "kai-scheduler", [&[("pool", "y")], &[]]),
            "pod ns/p is of another node pool: it has pool=y, and kai-scheduler here serves node \
             pool pool=x"
        );
        assert_eq!(
            told("x", "kai-scheduler", [&[], &[]]),
            "pod ns/p is of another node pool: it has no label pool, and kai-scheduler here serves \
             node pool pool=x"
        );
        assert_eq!(
            told("", "kai-scheduler", [&[], &[("pool", "y")]]),
            "pod ns/p is of another node pool: pod group ns/g has pool=y, and kai-scheduler here \
             serves what has no label pool"
        );
        assert_eq!(
            told("x", "other", [&[("pool", "x")], &[]]),
            "pod ns/p is not of scheduler kai-scheduler"
        );
    }

    #[test]
    fn a_class_is_no_remedy_for_who_says_that_it_is_non_preemptible() {
        let told = |spec: Value| {
            let record = GroupRecord::read(&json!({ "spec": spec }), "default");
            why_it_may_not_borrow(Some(&record), 125, false)
        };
        let by_class = told(json!({ "priorityClassName": "inference" }));
        assert!(by_class.contains("or priorityClassName: train, lets new pods"), "{by_class}");
        let stated = told(json!({ "preemptibility": "non-preemptible" }));
        assert!(!stated.contains("train"), "{stated}");
        assert!(stated.contains("preemptibility: preemptible lets new pods"), "{stated}");
    }
}
