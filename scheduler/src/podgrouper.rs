//! Assigns pods to PodGroups by their owners, like KAI's pod grouper: fetches the owner chain,
//! derives the group with [`rules`], creates or corrects the PodGroup, and then annotates the pod
//! with its name. The annotation travels with the pod's Binding or with the status that reports
//! why the pod is pending; if neither is written, it is a write of its own. Pods that already have
//! the annotation are not touched, whoever set it. A group follows its owners: when one of them
//! changes, the group is derived again.

mod defaults;
mod desired_groups;
mod karta_changes;
mod mark_pods;
mod owner_watches;
mod rules;
mod warnings;

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use schedlab_api::{Value, labels};
use schedlab_scheduler_core::model::{Name, Time};

use crate::{
    api::{ApiClient, ApiError, object_path},
    cache::ClusterCache,
    concurrency::WriteLimiter,
    config::Config,
    karta::CycleBudget,
    parse::Malformed,
    records::{ObjectKey, Owner, PodMark, PodRecord, parent_owner},
};
use defaults::{Defaults, DefaultsSource};
use desired_groups::DesiredGroups;
use karta_changes::PendingKartaChanges;
pub(crate) use mark_pods::mark_pods;
pub(crate) use owner_watches::OwnerEvent;
use owner_watches::{OwnerResource, OwnerWatches};
use rules::{GroupingContext, Member};
pub(crate) use rules::{OwnerLink, annotation_fault};

/// Time after which pods that could not be grouped are tried again, since the scheduler may not be
/// allowed to watch their owners.
const RETRY_PERIOD: Duration = Duration::from_mins(1);

/// Maximum number of outdated groups that are derived again in one cycle. After a start all groups
/// are outdated.
const OUTDATED_MAX: usize = 500;

/// Maximum length of an owner chain; owners above are ignored.
const OWNERS_MAX: usize = 16;

/// Result of fetching an owner.
#[derive(Clone, Debug)]
enum OwnerLookup {
    Object(Value),
    /// The owner, or its kind, does not exist.
    NotFound,
    /// The API server denies reading the owner.
    Forbidden,
}

impl GroupingResult {
    fn member(self) -> Option<Member> {
        match self {
            Self::Member(member) => Some(*member),
            Self::Invalid(_) | Self::Skipped | Self::Deferred => None,
        }
    }
}

impl OwnerLookup {
    fn object(self) -> Option<Value> {
        match self {
            Self::Object(object) => Some(object),
            Self::NotFound | Self::Forbidden => None,
        }
    }
}

/// The pod grouper, with its caches of API resources and owners.
pub(crate) struct PodGrouper {
    /// Key of the label that assigns pods and nodes to node pools.
    pool_label: String,
    /// Resource names by API version and kind; `None`: the API server has no such kind.
    plurals: BTreeMap<(Name, Name), Option<String>>,
    /// Owners fetched in this cycle, by namespace.
    owners: BTreeMap<(Name, Owner), OwnerLookup>,
    /// The ConfigMap with default priority classes and preemptibility per owner kind.
    defaults: DefaultsSource,
    /// Pods whose groups belong to other node pools, by the resourceVersion for which that was
    /// found. The schedulers of those pools group them.
    in_other_pools: BTreeMap<ObjectKey, u64>,
    /// Pods that name a PodGroup that does not exist, by the resourceVersion for which that was
    /// found.
    missing_groups: BTreeMap<ObjectKey, u64>,
    /// When pods that could not be grouped were last tried again.
    last_full_check: Time,
    /// Whether grouping of some pods was deferred to the next cycle.
    has_deferred: bool,
    /// Remaining budget for evaluating Kartas in this cycle.
    cycle_budget: CycleBudget,
    /// Workloads, by UID, of which one pod exceeded the per-pod budget. Their other pods would
    /// exceed it as well, and get the same error without an evaluation.
    over_budget: BTreeMap<Name, Malformed>,
    /// Watches of the owners of all groups.
    owner_watches: OwnerWatches,
    /// Whether the groups of an earlier pod grouper were marked as outdated.
    has_started: bool,
}

/// The groups that were derived again because their owners changed.
#[derive(Default)]
struct FollowedGroups {
    /// Keys of the groups, which are up to date once the desired groups are written.
    groups: Vec<ObjectKey>,
    /// Pods whose owner is invalid now, with the reason.
    invalid: Vec<(ObjectKey, PodRecord, Malformed)>,
}

/// Which group a pod belongs to, if any.
enum GroupingResult {
    Member(Box<Member>),
    /// The owners or the pod contain an invalid value.
    Invalid(Malformed),
    /// The owners are gone or being deleted, or the group belongs to another node pool.
    Skipped,
    /// The pod is retried in the next cycle, as the budget of this one is used up.
    Deferred,
}

impl PodGrouper {
    pub(crate) fn new(config: &Config) -> Self {
        let pool = config.node_pool.as_ref();
        let pool_label = pool.map_or(labels::NODE_POOL, |pool| &pool.label).to_owned();
        let defaults = DefaultsSource::new(config.default_priorities.clone());
        let (plurals, owners, in_other_pools, missing_groups, last_full_check) = Default::default();
        let (cycle_budget, over_budget) = (CycleBudget::new(), BTreeMap::new());
        Self {
            pool_label,
            plurals,
            owners,
            defaults,
            in_other_pools,
            missing_groups,
            last_full_check,
            has_deferred: false,
            cycle_budget,
            over_budget,
            owner_watches: OwnerWatches::default(),
            has_started: false,
        }
    }

    /// The next change of a watched owner.
    pub(crate) async fn next_owner_event(&mut self) -> Option<OwnerEvent> {
        self.owner_watches.next().await
    }

    /// Handles a change of an owner. Returns whether a group must be derived again.
    pub(crate) fn on_owner_event(&mut self, event: OwnerEvent) -> bool {
        self.owner_watches.on_event(event)
    }

    /// Groups every pod that has no group yet, or whose group is gone. Groups of other node pools
    /// are skipped; as the pool label may be on the owner only, the owners are read first.
    ///
    /// # Errors
    /// An API error ends grouping for this cycle; the remaining pods are grouped in the next one.
    pub(crate) async fn group(
        &mut self,
        api: &ApiClient,
        cache: &mut ClusterCache,
        now: Time,
        limiter: &mut WriteLimiter,
    ) -> Result<(), ApiError> {
        let changes = PendingKartaChanges::from_cache(cache);
        self.group_pods(&changes, api, cache, now, limiter).await?;
        cache.kartas.take_changes();
        Ok(())
    }

    async fn group_pods(
        &mut self,
        changes: &PendingKartaChanges,
        api: &ApiClient,
        cache: &mut ClusterCache,
        now: Time,
        limiter: &mut WriteLimiter,
    ) -> Result<(), ApiError> {
        self.owners.clear();
        self.over_budget.clear();
        self.cycle_budget = CycleBudget::new();
        self.has_deferred = false;
        if !mem::replace(&mut self.has_started, true) {
            self.owner_watches.mark_all_outdated(cache);
        }
        self.owner_watches.prune(cache);
        drop_outdated_failures(cache);
        let reported = self.take_failures_if_due(cache, now, changes);
        let (waiting, moving) = (self.pods_to_group(cache), changes.affected_pods(cache));
        warnings::emit_warnings(api, changes.warnings(cache).into_iter(), now, limiter).await;
        if waiting.is_empty() && moving.is_empty() && !self.owner_watches.has_outdated_groups() {
            return Ok(());
        }
        let defaults = self.defaults.load(api, &cache.priority_classes, now).await?;
        let (mut desired, mut ungrouped) = (DesiredGroups::default(), Vec::new());
        for (key, pod) in &waiting {
            let found = self.find_group(api, key, pod, cache, &defaults).await?;
            if matches!(found, GroupingResult::Deferred) {
                self.has_deferred = true;
                continue;
            }
            if let Some(name) = &pod.group {
                // A group that does not appear is looked for again after `RETRY_PERIOD`.
                self.missing_groups.insert(key.clone(), pod.reported.version);
                let group = found.member().map(|member| member.group);
                desired.require_group(key, group.filter(|group| group.name == *name));
                continue;
            }
            match found {
                GroupingResult::Member(member) => desired.add_pod(key, *member),
                GroupingResult::Invalid(malformed) => {
                    ungrouped.push(UngroupedPod { key, pod, reason: malformed });
                }
                GroupingResult::Skipped | GroupingResult::Deferred => {
                    self.in_other_pools.insert(key.clone(), pod.reported.version);
                }
            }
        }
        // A pod that cannot be regrouped keeps its group.
        let mut unmoved = self.regroup_pods(&moving, api, cache, &defaults, &mut desired).await?;
        let followed = self.follow_owners(api, cache, &defaults, &mut desired).await?;
        unmoved.extend(followed.invalid.iter().map(|(key, pod, reason)| UngroupedPod {
            key,
            pod,
            reason: reason.clone(),
        }));
        let (rejected, result) = desired.ensure_groups(api, cache, limiter).await;
        let rejected =
            |(key, pod)| Some(UngroupedPod { key, pod, reason: rejected.get(key)?.clone() });
        ungrouped.extend(waiting.iter().map(|(key, pod)| (key, pod)).filter_map(rejected));
        let is_new = |pod: &&UngroupedPod<'_>| {
            reported.get(pod.key).is_none_or(|(_, was)| *was != pod.reason)
        };
        let warnings = ungrouped.iter().filter(is_new).chain(&unmoved).map(warnings::for_pod);
        warnings::emit_warnings(api, warnings.chain(desired.warnings.drain(..)), now, limiter)
            .await;
        for UngroupedPod { key, reason, .. } in ungrouped {
            cache.record_grouping_error(key.clone(), reason);
        }
        result?;
        desired.annotate_pods(api, cache, limiter).await?;
        for group in &followed.groups {
            self.owner_watches.mark_up_to_date(group);
        }
        Ok(())
    }

    /// Groups pods again after a Karta changed. Returns those that cannot be grouped.
    async fn regroup_pods<'p>(
        &mut self,
        moving: &'p [(ObjectKey, PodRecord)],
        api: &ApiClient,
        cache: &ClusterCache,
        defaults: &Defaults,
        desired: &mut DesiredGroups,
    ) -> Result<Vec<UngroupedPod<'p>>, ApiError> {
        let mut unmoved = Vec::new();
        for (key, pod) in moving {
            // These are computed once per change, without a limit over all of them.
            self.cycle_budget = CycleBudget::new();
            match self.find_group(api, key, pod, cache, defaults).await? {
                GroupingResult::Member(member) => desired.move_pod(key, pod, *member),
                GroupingResult::Invalid(malformed) => {
                    unmoved.push(UngroupedPod { key, pod, reason: malformed });
                }
                GroupingResult::Skipped | GroupingResult::Deferred => {}
            }
        }
        Ok(unmoved)
    }

    /// Derives groups again whose owners changed. A group whose owner is invalid stays as it is.
    async fn follow_owners(
        &mut self,
        api: &ApiClient,
        cache: &ClusterCache,
        defaults: &Defaults,
        desired: &mut DesiredGroups,
    ) -> Result<FollowedGroups, ApiError> {
        let outdated = self.owner_watches.first_outdated_groups(OUTDATED_MAX);
        self.has_deferred |= outdated.len() == OUTDATED_MAX;
        let mut followed = FollowedGroups::default();
        for group in outdated {
            let members =
                self.changed_members(api, cache, defaults, &group, &mut followed.invalid).await?;
            desired.correct_group(members, cache.groups.get(&group));
            followed.groups.push(group);
        }
        Ok(followed)
    }

    /// The pods of a group, with the group and sub-group that their owners lead to now. Empty if
    /// the group is right, or if the owner is gone or invalid.
    async fn changed_members<'c>(
        &mut self,
        api: &ApiClient,
        cache: &'c ClusterCache,
        defaults: &Defaults,
        group: &ObjectKey,
        invalid: &mut Vec<(ObjectKey, PodRecord, Malformed)>,
    ) -> Result<Vec<(ObjectKey, &'c PodRecord, Member)>, ApiError> {
        self.cycle_budget = CycleBudget::new();
        let pods =
            cache.pods_of_group(group).filter(|(_, pod)| pod.is_ours && pod.may_be_grouped());
        let mut members = Vec::new();
        for (key, pod) in pods {
            let member = match self.find_group(api, &key, pod, cache, defaults).await? {
                GroupingResult::Member(member) if member.group.name == group.name => *member,
                GroupingResult::Invalid(malformed) => {
                    invalid.push((key, pod.clone(), malformed));
                    return Ok(members);
                }
                // The pod names a group that is not of its owners.
                GroupingResult::Member(_) | GroupingResult::Skipped | GroupingResult::Deferred => {
                    return Ok(members);
                }
            };
            let is_right = |record| member.is_written_to(record, pod);
            // All other pods have the same owners.
            if members.is_empty() && cache.groups.get(group).is_some_and(is_right) {
                return Ok(members);
            }
            members.push((key, pod, member));
        }
        Ok(members)
    }

    /// When to run again without an event: at once if pods were deferred, after [`RETRY_PERIOD`] if
    /// some pods have no group. `None`: every pod is grouped.
    pub(crate) fn requeue_after(&self, cache: &ClusterCache) -> Option<Duration> {
        if self.has_deferred {
            return Some(Duration::ZERO);
        }
        let is_stuck = !cache.grouping_errors.is_empty() || !self.missing_groups.is_empty();
        is_stuck.then_some(RETRY_PERIOD)
    }

    /// Clears and returns the recorded grouping failures when they are due for a retry: after
    /// [`RETRY_PERIOD`], or as soon as a Karta or an invalid owner changed. Otherwise returns
    /// nothing.
    fn take_failures_if_due(
        &mut self,
        cache: &mut ClusterCache,
        now: Time,
        changes: &PendingKartaChanges,
    ) -> BTreeMap<ObjectKey, (u64, Malformed)> {
        let is_corrected = self.owner_watches.take_has_corrected();
        let is_early = now.elapsed_since(self.last_full_check) < RETRY_PERIOD;
        if changes.is_empty() && !is_corrected && is_early {
            return BTreeMap::new();
        }
        self.last_full_check = now;
        self.missing_groups.clear();
        mem::take(&mut cache.grouping_errors)
    }

    /// Pods without an existing group that were not tried yet at their current resourceVersion.
    fn pods_to_group(&mut self, cache: &ClusterCache) -> Vec<(ObjectKey, PodRecord)> {
        let is_same = |key: &ObjectKey, version: &u64| {
            cache.pods.get(key).filter(|pod| pod.reported.version == *version)
        };
        self.in_other_pools
            .retain(|key, version| is_same(key, version).is_some_and(|pod| pod.group.is_none()));
        self.missing_groups.retain(|key, version| {
            is_same(key, version).is_some_and(|pod| has_missing_group(cache, key, pod))
        });
        let is_known = |key: &ObjectKey| {
            cache.grouping_errors.contains_key(key)
                || self.in_other_pools.contains_key(key)
                || self.missing_groups.contains_key(key)
        };
        let lost = cache.missing_groups().flat_map(|group| cache.pods_of_group(group));
        let lost = lost.filter(|(_, pod)| pod.may_be_grouped());
        let new = cache.pods.marked_records(PodMark::Group);
        let waiting = new.map(|(key, pod)| (key.clone(), pod)).chain(lost);
        let waiting = waiting.filter(|(key, _)| !is_known(key));
        waiting.map(|(key, pod)| (key, pod.clone())).collect()
    }

    /// Derives the group of a pod from its owners.
    async fn find_group(
        &mut self,
        api: &ApiClient,
        key: &ObjectKey,
        pod: &PodRecord,
        cache: &ClusterCache,
        defaults: &Defaults,
    ) -> Result<GroupingResult, ApiError> {
        let chain = self.owner_chain(api, &key.namespace, pod).await?;
        // A group that went with its owner must not be created again.
        if pod.group.is_some() && chain.iter().any(|link| !is_live_owner(&link.object)) {
            return Ok(GroupingResult::Skipped);
        }
        let beside = match rules::related_object(pod, &chain) {
            Some(beside) => self.look_up_owner(api, &key.namespace, &beside).await?.object(),
            None => None,
        };
        let described = rules::karta_owner(pod, &chain);
        let karta =
            described.and_then(|owner| cache.kartas.for_kind(&owner.api_version, &owner.kind));
        let mut pod_object = Value::Null;
        if let (Some(owner), Some(_)) = (described, karta) {
            if let Some(wrong) = self.over_budget.get(&owner.uid) {
                return Ok(GroupingResult::Invalid(wrong.clone()));
            }
            if self.cycle_budget.is_spent() {
                return Ok(GroupingResult::Deferred);
            }
            pod_object = match karta_changes::fetch_pod(api, key).await? {
                Some(Ok(whole)) => whole,
                Some(Err(malformed)) => return Ok(GroupingResult::Invalid(malformed)),
                None => return Ok(GroupingResult::Skipped),
            };
        }
        let around = GroupingContext {
            karta: karta.map(|karta| (karta, &pod_object)),
            cycle_budget: &self.cycle_budget,
            pods: &cache.pods,
            classes: &cache.priority_classes,
            pool_label: &self.pool_label,
            related_object: beside.as_ref(),
            defaults,
        };
        let found = rules::group_of(key, pod, &chain, around);
        let group = found.as_ref().ok().map(|member| key_in_namespace(key, &member.group.name));
        let related = rules::related_object(pod, &chain)
            .map(|owner| OwnerLink { owner, object: beside.unwrap_or_default() });
        let there = chain.iter().filter(|link| !link.object.is_null());
        self.watch_owners(api, there.chain(&related), &key.namespace, group.as_ref());
        Ok(match found {
            Ok(member) if cache.is_in_pool(&member.group.labels) => {
                GroupingResult::Member(Box::new(member))
            }
            Ok(_) => GroupingResult::Skipped,
            Err(malformed) => {
                let too_costly = described.filter(|_| karta.is_some());
                if let Some(owner) = too_costly.filter(|_| self.cycle_budget.was_exceeded()) {
                    self.over_budget.insert(Name::clone(&owner.uid), malformed.clone());
                }
                GroupingResult::Invalid(malformed)
            }
        })
    }

    /// Watches the owners from which `group` was derived; without a group, the owners that are
    /// invalid.
    fn watch_owners<'l>(
        &mut self,
        api: &ApiClient,
        owners: impl Iterator<Item = &'l OwnerLink>,
        namespace: &Name,
        group: Option<&ObjectKey>,
    ) {
        for OwnerLink { owner, object } in owners {
            let kind = (Name::clone(&owner.api_version), Name::clone(&owner.kind));
            let Some(Some(plural)) = self.plurals.get(&kind) else { continue };
            let resource = OwnerResource { api_version: kind.0, plural: plural.as_str().into() };
            let (namespace, name) = (Name::clone(namespace), Name::clone(&owner.name));
            let key = ObjectKey { namespace, name };
            self.owner_watches.record(&api.client, resource, key, object, group);
        }
    }

    /// The readable owners of a pod, nearest first. The chain ends at an owner that must not be
    /// read.
    pub(crate) async fn owner_chain(
        &mut self,
        api: &ApiClient,
        namespace: &Name,
        pod: &PodRecord,
    ) -> Result<Vec<OwnerLink>, ApiError> {
        let mut chain = Vec::new();
        let mut next = pod.owner.clone();
        while let Some(owner) = next.filter(|_| chain.len() < OWNERS_MAX) {
            let object = match self.look_up_owner(api, namespace, &owner).await? {
                OwnerLookup::Object(object) => object,
                OwnerLookup::NotFound => Value::Null,
                OwnerLookup::Forbidden => break,
            };
            next = parent_owner(&object);
            chain.push(OwnerLink { owner, object });
        }
        Ok(chain)
    }

    async fn look_up_owner(
        &mut self,
        api: &ApiClient,
        namespace: &Name,
        owner: &Owner,
    ) -> Result<OwnerLookup, ApiError> {
        let cached = (Name::clone(namespace), owner.clone());
        if let Some(known) = self.owners.get(&cached) {
            return Ok(known.clone());
        }
        let answer = self.fetch_owner(api, namespace, owner).await?;
        self.owners.insert(cached, answer.clone());
        Ok(answer)
    }

    async fn fetch_owner(
        &mut self,
        api: &ApiClient,
        namespace: &Name,
        owner: &Owner,
    ) -> Result<OwnerLookup, ApiError> {
        let Some(plural) = self.plural(api, owner).await? else {
            return Ok(OwnerLookup::NotFound);
        };
        let path = object_path(&owner.api_version, namespace, &plural, &owner.name);
        match api.get(&path).await {
            Ok(object) if owner.uid.is_empty() || has_uid_of(&object, owner) => {
                Ok(OwnerLookup::Object(object))
            }
            // Another object of that name, or none.
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(OwnerLookup::NotFound),
            Err(ApiError::Refused(_)) => Ok(OwnerLookup::Forbidden),
            Err(error) => Err(error),
        }
    }

    async fn plural(&mut self, api: &ApiClient, owner: &Owner) -> Result<Option<String>, ApiError> {
        let kind = (Name::clone(&owner.api_version), Name::clone(&owner.kind));
        if let Some(known) = self.plurals.get(&kind) {
            return Ok(known.clone());
        }
        let plural = match rules::known_plural(owner) {
            Some(plural) => Some(plural.to_owned()),
            None => discover_plural(api, owner).await?,
        };
        self.plurals.insert(kind, plural.clone());
        Ok(plural)
    }
}

/// Whether the owner exists and is not being deleted.
fn is_live_owner(object: &Value) -> bool {
    !object.is_null() && object["metadata"].get("deletionTimestamp").is_none()
}

fn has_uid_of(object: &Value, owner: &Owner) -> bool {
    object["metadata"]["uid"].as_str() == Some(&owner.uid)
}

/// Looks up the resource name (plural) of a kind by API discovery.
async fn discover_plural(api: &ApiClient, owner: &Owner) -> Result<Option<String>, ApiError> {
    let resources = match api.get(&object_path(&owner.api_version, "", "", "")).await {
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

/// A pod that cannot be grouped, with the reason.
struct UngroupedPod<'w> {
    key: &'w ObjectKey,
    pod: &'w PodRecord,
    reason: Malformed,
}

/// Drops grouping failures of pods that changed since.
fn drop_outdated_failures(cache: &mut ClusterCache) {
    let pods = &cache.pods;
    cache.grouping_errors.retain(|key, (version, _)| {
        pods.get(key).is_some_and(|pod| pod.reported.version == *version && pod.group.is_none())
    });
}

/// Records invalid labels and annotations of ungrouped pods, for processes that do not run the pod
/// grouper.
pub(crate) fn record_faults(cache: &mut ClusterCache) {
    drop_outdated_failures(cache);
    let is_new =
        |key: &ObjectKey, pod: &PodRecord| pod.is_ours && !cache.grouping_errors.contains_key(key);
    let alone = cache.pods.marked_records(PodMark::Group).filter(|(key, pod)| is_new(key, pod));
    let wrong = alone.filter_map(|(key, pod)| Some((key.clone(), annotation_fault(pod)?)));
    for (key, wrong) in wrong.collect::<Vec<_>>() {
        cache.record_grouping_error(key, wrong);
    }
}

/// Whether the pod names a PodGroup that does not exist.
fn has_missing_group(cache: &ClusterCache, pod: &ObjectKey, record: &PodRecord) -> bool {
    record
        .group
        .as_ref()
        .is_some_and(|name| !cache.groups.contains_key(&key_in_namespace(pod, name)))
}

/// Key of an object in the namespace of a pod.
fn key_in_namespace(pod: &ObjectKey, name: &Name) -> ObjectKey {
    ObjectKey { namespace: Name::clone(&pod.namespace), name: Name::clone(name) }
}
