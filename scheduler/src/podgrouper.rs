//! Puts pods into PodGroups by their owners, as KAI's pod grouper does: the chain of owners is
//! fetched, [`rules`] say which group it makes, the group is created or corrected, and only then
//! is the pod marked with it: by its binding, by the status that says why it waits, or, where
//! neither is written, by a write of its own. A pod that is marked, by us or by its maker, is left
//! alone while there is such a group, and where no owner says what else is meant.

mod defaults;
mod rules;

use std::collections::BTreeMap;

use schedlab_json::{Value, json};
use schedlab_scheduler_core::model::{Name, Time};

use crate::{
    api::{Api, ApiError, Merge, path},
    apply::{About, Event, Level},
    config::{Config, NODE_POOL_LABEL},
    mirror::{GroupRecord, Key, Mirror, Owner, PodRecord, SUB_GROUP_LABEL, Scheduler, owner_above},
    pacing::Pacing,
    parse::Malformed,
    translate::Trouble,
    watch::Kind,
};
use defaults::Source;
use rules::{Around, Group, Member};
pub(crate) use rules::{Link, fault};

const GROUPS: &str = "scheduling.run.ai/v2alpha2";

/// What its events name as their source.
const COMPONENT: &str = "pod-grouper";

/// Longest chain of owners that is followed.
const CHAIN_MAX: usize = 16;

/// Groups pods, and keeps what it learned about kinds.
#[derive(Debug)]
pub(crate) struct Grouper {
    /// The label that names node pools.
    pool_label: String,
    /// Plural names by API version and kind; `None`: the server has no such kind.
    plurals: BTreeMap<(Name, Name), Option<String>>,
    /// Owners fetched in this cycle, `None` where there is none any more.
    owners: BTreeMap<(Name, Owner), Option<Value>>,
    /// What kinds of owners have by default.
    defaults: Source,
    /// Pods that are left as they stood at this version: to the schedulers of other node pools,
    /// whose groups they need, or to whoever deletes them after group and owner.
    left: BTreeMap<Key, u64>,
}

impl Grouper {
    pub(crate) fn new(config: &Config) -> Self {
        let pool = config.node_pool.as_ref();
        let pool_label = pool.map_or(NODE_POOL_LABEL, |pool| &pool.label).to_owned();
        let defaults = Source::new(config.default_priorities.clone());
        let (plurals, owners, left) = Default::default();
        Self { pool_label, plurals, owners, defaults, left }
    }

    /// Groups every pod that is in no group and whose group is ours: which node pool it is for
    /// may stand on its owner alone. An error ends the cycle's grouping; what is missing is grouped
    /// in the next.
    pub(crate) async fn group(
        &mut self,
        api: &Api,
        (mirror, now): (&mut Mirror, Time),
        pacing: &mut Pacing,
    ) -> Result<(), ApiError> {
        self.owners.clear();
        forget_changed(mirror);
        let waiting = self.waiting(mirror);
        if waiting.is_empty() {
            return Ok(());
        }
        let defaults = self.defaults.look(api, &mirror.classes, now).await?;
        let (mut wanted, mut wrong) = (Wanted::default(), Vec::new());
        for (key, pod) in &waiting {
            let chain = self.chain(api, &key.namespace, pod).await?;
            if pod.group.is_some() && chain.iter().any(Link::goes) {
                self.left.insert(key.clone(), pod.told.version);
                continue;
            }
            let beside = match rules::beside(pod, &chain) {
                Some(beside) => self.owner(api, &key.namespace, &beside).await?,
                None => None,
            };
            let around = Around {
                pods: &mirror.pods,
                classes: &mirror.classes,
                pool_label: &self.pool_label,
                beside: beside.as_ref(),
                defaults: &defaults,
            };
            match rules::group_of(key, pod, &chain, around) {
                Ok(member) if mirror.is_in_pool(&member.group.labels) => wanted.add(key, member),
                Ok(_) => {
                    self.left.insert(key.clone(), pod.told.version);
                }
                Err(malformed) => wrong.push((key, pod, malformed)),
            }
        }
        warn(api, &wrong, now, pacing).await;
        for (key, _, malformed) in wrong {
            mirror.note_ungrouped(key.clone(), malformed);
        }
        wanted.ensure(api, mirror, pacing).await?;
        wanted.mark(api, mirror, pacing).await
    }

    /// Pods that are in no group, or name one that does not exist, and were not looked at as they
    /// stand.
    fn waiting(&mut self, mirror: &Mirror) -> Vec<(Key, PodRecord)> {
        let pods = &mirror.pods;
        self.left
            .retain(|key, version| pods.get(key).is_some_and(|pod| pod.told.version == *version));
        let is_new =
            |key: &Key| !mirror.ungrouped.contains_key(key) && !self.left.contains_key(key);
        let alone = pods.iter().filter(|(key, pod)| wants_group(pod) && is_new(key));
        let alone = alone.map(|(key, pod)| (key.clone(), pod.clone()));
        let missing = mirror.members.keys().filter(|group| !mirror.groups.contains_key(*group));
        let misled = missing.flat_map(|group| mirror.pods_of(group));
        let misled = misled.filter(|(key, pod)| is_misled(pod) && is_new(key));
        alone.chain(misled.map(|(key, pod)| (key, pod.clone()))).collect()
    }

    /// The owners of a pod, nearest first.
    pub(crate) async fn chain(
        &mut self,
        api: &Api,
        namespace: &Name,
        pod: &PodRecord,
    ) -> Result<Vec<Link>, ApiError> {
        let mut chain = Vec::new();
        let mut next = pod.owner.clone();
        while let Some(owner) = next.filter(|_| chain.len() < CHAIN_MAX) {
            let object = self.owner(api, namespace, &owner).await?;
            next = object.as_ref().and_then(owner_above);
            chain.push(Link { owner, object: object.unwrap_or(Value::Null) });
        }
        Ok(chain)
    }

    async fn owner(
        &mut self,
        api: &Api,
        namespace: &Name,
        owner: &Owner,
    ) -> Result<Option<Value>, ApiError> {
        let cached = (Name::clone(namespace), owner.clone());
        if let Some(known) = self.owners.get(&cached) {
            return Ok(known.clone());
        }
        let object = self.fetch(api, namespace, owner).await?;
        self.owners.insert(cached, object.clone());
        Ok(object)
    }

    async fn fetch(
        &mut self,
        api: &Api,
        namespace: &Name,
        owner: &Owner,
    ) -> Result<Option<Value>, ApiError> {
        let Some(plural) = self.plural(api, owner).await? else {
            return Ok(None);
        };
        let path = path(&owner.api_version, namespace, &plural, &owner.name);
        match api.get(&path).await {
            Ok(object) if owner.uid.is_empty() || is_it(&object, owner) => Ok(Some(object)),
            // Another object of that name, none, or one that we may not read.
            Ok(_) | Err(ApiError::NotFound(_) | ApiError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn plural(&mut self, api: &Api, owner: &Owner) -> Result<Option<String>, ApiError> {
        let kind = (Name::clone(&owner.api_version), Name::clone(&owner.kind));
        if let Some(known) = self.plurals.get(&kind) {
            return Ok(known.clone());
        }
        let plural = match rules::known_plural(owner) {
            Some(plural) => Some(plural.to_owned()),
            None => discover(api, owner).await?,
        };
        self.plurals.insert(kind, plural.clone());
        Ok(plural)
    }
}

fn is_it(object: &Value, owner: &Owner) -> bool {
    object["metadata"]["uid"].as_str() == Some(&owner.uid)
}

/// What the server calls many of a kind.
async fn discover(api: &Api, owner: &Owner) -> Result<Option<String>, ApiError> {
    let resources = match api.get(&path(&owner.api_version, "", "", "")).await {
        Ok(resources) => resources,
        Err(ApiError::NotFound(_) | ApiError::Refused(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let named = |resource: &&Value| {
        resource["kind"].as_str() == Some(&owner.kind)
            && resource["name"].as_str().is_some_and(|name| !name.contains('/'))
    };
    let found = crate::parse::list(&resources, "/resources").iter().find(named);
    Ok(found.and_then(|resource| resource["name"].as_str()).map(str::to_owned))
}

/// Tells of pods that cannot be grouped, with an event as KAI's pod grouper does: where it runs alone,
/// nobody else knows why. Who cannot be told has the pod's condition.
async fn warn(api: &Api, wrong: &[(&Key, &PodRecord, Malformed)], now: Time, pacing: &mut Pacing) {
    let event = |(key, pod, malformed): &(&Key, &PodRecord, Malformed)| {
        let event = Event {
            about: &About::pod(key, &pod.uid),
            level: Level::Warning,
            reason: "PodGrouperWarning",
            message: &Trouble::Grouping(malformed.clone()).to_string(),
            gist: None,
            occasion: "",
        };
        event.request(COMPONENT, now)
    };
    let mut work = Vec::new();
    for (path, event) in wrong.iter().map(event) {
        work.push(async move { api.tell(&path, event).await });
    }
    pacing.all(work, drop).await;
}

/// What was said of pods that have changed since.
fn forget_changed(mirror: &mut Mirror) {
    let pods = &mirror.pods;
    mirror
        .ungrouped
        .retain(|key, (version, _)| pods.get(key).is_some_and(|pod| pod.told.version == *version));
}

/// For whoever groups nothing: pods that nobody could group as they stand.
pub(crate) fn note_faults(mirror: &mut Mirror) {
    forget_changed(mirror);
    let is_new = |key: &Key, pod: &PodRecord| {
        pod.ours && wants_group(pod) && !mirror.ungrouped.contains_key(key)
    };
    let alone = mirror.pods.iter().filter(|(key, pod)| is_new(key, pod));
    let wrong = alone.filter_map(|(key, pod)| Some((key.clone(), fault(pod)?)));
    for (key, wrong) in wrong.collect::<Vec<_>>() {
        mirror.note_ungrouped(key, wrong);
    }
}

fn wants_group(pod: &PodRecord) -> bool {
    pod.group.is_none() && may_be_grouped(pod)
}

/// Of a pod that names a group which does not exist: it has owners, who say which is meant.
fn is_misled(pod: &PodRecord) -> bool {
    pod.told.marked && pod.owner.is_some() && may_be_grouped(pod)
}

fn may_be_grouped(pod: &PodRecord) -> bool {
    pod.scheduler == Scheduler::This
        && !pod.skip_grouping
        && !pod.is_finished()
        && pod.leaving_since.is_none()
}

/// Groups that pods need, in the order in which they were found.
#[derive(Default)]
struct Wanted {
    positions: BTreeMap<Key, usize>,
    groups: Vec<(Key, Vec<Group>)>,
    /// Pods, the names of their groups, and where they stand in them.
    members: Vec<(Key, Name, Option<Name>)>,
}

impl Wanted {
    fn add(&mut self, pod: &Key, Member { group, part }: Member) {
        let namespace = Name::clone(&pod.namespace);
        let key = Key { namespace, name: Name::clone(&group.name) };
        self.members.push((pod.clone(), Name::clone(&group.name), part));
        let position = *self.positions.entry(key.clone()).or_insert(self.groups.len());
        match self.groups.get_mut(position) {
            // Members may differ in what follows from themselves; the last one is right.
            Some((_, groups)) if groups.last() == Some(&group) => {}
            Some((_, groups)) => groups.push(group),
            None => self.groups.push((key, vec![group])),
        }
    }

    /// Creates the groups, or corrects what follows from their owners.
    async fn ensure(
        &mut self,
        api: &Api,
        mirror: &mut Mirror,
        pacing: &mut Pacing,
    ) -> Result<(), ApiError> {
        let work = std::mem::take(&mut self.groups).into_iter().filter_map(|(key, groups)| {
            let record = mirror.groups.get(&key).cloned();
            let agrees = |record| groups.iter().all(|group| group.agrees_with(record));
            let pool = mirror.pool_name();
            (!record.as_ref().is_some_and(agrees))
                .then(|| ensure(api, key, (record, pool.to_owned()), groups))
        });
        let work: Vec<_> = work.collect();
        let mut ended = Ok(());
        let take = |written: Result<Vec<Value>, ApiError>| match written {
            Ok(objects) => objects.iter().for_each(|is| mirror.upsert(Kind::PodGroup, is)),
            Err(error) => ended = Err(error),
        };
        pacing.all(work, take).await;
        ended
    }

    /// Tells who is in which group: the binding will, or a write at once. Where a pod stands in its
    /// group is a label, which no binding carries; who comes with a node gets no binding at all, and
    /// who names another group is held to that until it is marked anew.
    async fn mark(
        &self,
        api: &Api,
        mirror: &mut Mirror,
        pacing: &mut Pacing,
    ) -> Result<(), ApiError> {
        let mut marks = Vec::new();
        for (pod, group, part) in &self.members {
            let Some(record) = mirror.pods.get(pod) else { continue };
            let (is_placed, is_marked) = (record.node.is_some(), record.told.marked);
            if part.is_none() && !is_marked {
                mirror.assume_grouped(pod, group);
            }
            if part.is_some() || is_placed || is_marked {
                marks.push(mark_one(api, pod, (group, part.as_ref())));
            }
        }
        write_marks(marks, mirror, pacing).await
    }
}

/// Creates a group, or corrects what follows from its owner. The queue of a group that exists
/// is left as it is: somebody may have moved it.
async fn ensure(
    api: &Api,
    key: Key,
    (mut stands, pool): (Option<GroupRecord>, String),
    groups: Vec<Group>,
) -> Result<Vec<Value>, ApiError> {
    let mut written = Vec::new();
    for group in groups {
        let answer = match &stands {
            Some(record) if group.agrees_with(record) => continue,
            Some(_) => {
                let change = json!({ "spec": group.derived_spec() });
                let path = path(GROUPS, &key.namespace, "podgroups", &key.name);
                api.patch(&path, Merge::Plain, &change).await
            }
            None => {
                let path = path(GROUPS, &key.namespace, "podgroups", "");
                api.create(&path, &group.manifest()).await
            }
        };
        match answer {
            Ok(object) => {
                stands = Some(GroupRecord::read(&object, &pool));
                written.push(object);
            }
            // It is there and the watch has not told yet.
            Err(ApiError::Conflict(_)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Marks the pods that wait with their groups.
pub(crate) async fn mark(
    api: &Api,
    mirror: &mut Mirror,
    pacing: &mut Pacing,
) -> Result<(), ApiError> {
    let lacking = mirror.pods.iter().filter(|(_, pod)| pod.lacks_mark());
    let marks =
        lacking.filter_map(|(key, pod)| Some(mark_one(api, key, (pod.group.as_ref()?, None))));
    write_marks(marks.collect(), mirror, pacing).await
}

/// Marks a pod with its group, and with its place in it.
fn mark_one<'a>(
    api: &'a Api,
    pod: &Key,
    (group, part): (&Name, Option<&Name>),
) -> impl Future<Output = Result<Value, ApiError>> + use<'a> {
    let mut change = json!({ "metadata": { "annotations": { "pod-group-name": &**group } } });
    if let Some(part) = part {
        change["metadata"]["labels"] = json!({ SUB_GROUP_LABEL: &**part });
    }
    let path = path("v1", &pod.namespace, "pods", &pod.name);
    async move { api.patch(&path, Merge::Plain, &change).await }
}

async fn write_marks(
    marks: Vec<impl Future<Output = Result<Value, ApiError>>>,
    mirror: &mut Mirror,
    pacing: &mut Pacing,
) -> Result<(), ApiError> {
    let mut ended = Ok(());
    let take = |marked| match marked {
        Ok(pod) => mirror.upsert(Kind::Pod, &pod),
        // It is gone; the watch will tell.
        Err(ApiError::NotFound(_)) => {}
        Err(error) => ended = Err(error),
    };
    pacing.all(marks, take).await;
    ended
}
