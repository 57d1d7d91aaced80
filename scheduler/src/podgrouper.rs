//! Puts pods into PodGroups by their owners, as KAI's pod grouper does: the chain of owners is
//! fetched, [`rules`] say which group it makes, the group is created or corrected, and only then
//! is the pod marked with it: by its binding, by the status that says why it waits, or, where
//! neither is written, by a write of its own. A pod that is marked, by us or by its maker, is left
//! alone.

mod defaults;
mod kartas;
mod marks;
mod rules;
mod wanted;
mod warnings;

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, Time};

use crate::{
    api::{Api, ApiError, path},
    config::{Config, NODE_POOL_LABEL},
    karta::Allowance,
    mirror::{Key, Mirror, Owner, PodRecord, Scheduler, owner_above},
    pacing::Pacing,
    parse::Malformed,
};
use defaults::{Defaults, Source};
use kartas::News;
pub(crate) use marks::mark;
use rules::{Around, Member};
pub(crate) use rules::{Link, fault};
use wanted::Wanted;

const GROUPS: &str = "scheduling.run.ai/v2alpha2";

/// How long it is believed that a pod cannot be grouped: its owner may be mended, and nobody tells.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Longest chain of owners that is followed.
const CHAIN_MAX: usize = 16;

/// What the server says of an owner.
#[derive(Clone, Debug)]
enum Answer {
    Object(Value),
    /// There is none, or none any more.
    Nothing,
    /// We may not read it.
    Refused,
}

impl Found {
    fn member(self) -> Option<Member> {
        match self {
            Self::Member(member) => Some(*member),
            Self::Wrong(_) | Self::LeftAlone | Self::Later => None,
        }
    }
}

impl Answer {
    fn object(self) -> Option<Value> {
        match self {
            Self::Object(object) => Some(object),
            Self::Nothing | Self::Refused => None,
        }
    }
}

/// Groups pods, and keeps what it learned about kinds.
#[derive(Debug)]
pub(crate) struct Grouper {
    /// The label that names node pools.
    pool_label: String,
    /// Plural names by API version and kind; `None`: the server has no such kind.
    plurals: BTreeMap<(Name, Name), Option<String>>,
    /// Owners asked for in this cycle.
    owners: BTreeMap<(Name, Owner), Answer>,
    /// What kinds of owners have by default.
    defaults: Source,
    /// Pods whose groups are of other node pools, as they stood at this version: they are left to
    /// the schedulers of those.
    of_others: BTreeMap<Key, u64>,
    /// Pods whose groups are gone, or yet to come, as they stood when they were looked at.
    lost: BTreeMap<Key, u64>,
    /// When all that could not be grouped was looked at last.
    looked: Time,
    /// Some pods are left to the next cycle.
    is_behind: bool,
    /// What Kartas may cost in this cycle.
    allowance: Allowance,
    /// Workloads, by uid, of which a pod cost more than one may: so do all others.
    too_costly: BTreeMap<Name, Malformed>,
}

/// Where a pod belongs.
enum Found {
    Member(Box<Member>),
    /// It cannot be grouped.
    Wrong(Malformed),
    /// Whose owners are about to go, or whose group is of another node pool, is left alone.
    LeftAlone,
    /// It is looked at in another cycle.
    Later,
}

impl Grouper {
    pub(crate) fn new(config: &Config) -> Self {
        let pool = config.node_pool.as_ref();
        let pool_label = pool.map_or(NODE_POOL_LABEL, |pool| &pool.label).to_owned();
        let defaults = Source::new(config.default_priorities.clone());
        let (plurals, owners, of_others, lost, looked) = Default::default();
        let (allowance, too_costly) = (Allowance::new(), BTreeMap::new());
        Self {
            pool_label,
            plurals,
            owners,
            defaults,
            of_others,
            lost,
            looked,
            is_behind: false,
            allowance,
            too_costly,
        }
    }

    /// Groups every pod that is in no group yet, or whose group is gone, and whose group is ours:
    /// which node pool it is for may stand on its owner alone. An error ends the cycle's grouping;
    /// what is missing is grouped in the next.
    pub(crate) async fn group(
        &mut self,
        api: &Api,
        (mirror, now): (&mut Mirror, Time),
        pacing: &mut Pacing,
    ) -> Result<(), ApiError> {
        let news = News::of(mirror);
        self.heed(&news, api, (&mut *mirror, now), pacing).await?;
        mirror.kartas.take_changed();
        Ok(())
    }

    async fn heed(
        &mut self,
        news: &News,
        api: &Api,
        (mirror, now): (&mut Mirror, Time),
        pacing: &mut Pacing,
    ) -> Result<(), ApiError> {
        self.owners.clear();
        self.too_costly.clear();
        self.allowance = Allowance::new();
        self.is_behind = false;
        forget_changed(mirror);
        let said = self.forgotten(mirror, (now, news));
        let (waiting, moving) = (self.waiting(mirror), news.pods(mirror));
        warnings::tell(api, news.warnings(mirror).into_iter(), now, pacing).await;
        if waiting.is_empty() && moving.is_empty() {
            return Ok(());
        }
        let defaults = self.defaults.look(api, &mirror.classes, now).await?;
        let (mut wanted, mut wrong) = (Wanted::default(), Vec::new());
        for (key, pod) in &waiting {
            let found = self.find(api, (key, pod), mirror, &defaults).await?;
            if matches!(found, Found::Later) {
                self.is_behind = true;
                continue;
            }
            if let Some(name) = &pod.group {
                // One that does not come (back) is looked for once a minute.
                self.lost.insert(key.clone(), pod.told.version);
                let group = found.member().map(|member| member.group);
                wanted.need(key, group.filter(|group| group.name == *name));
                continue;
            }
            match found {
                Found::Member(member) => wanted.add(key, *member),
                Found::Wrong(malformed) => wrong.push((key, pod, malformed)),
                Found::LeftAlone | Found::Later => {
                    self.of_others.insert(key.clone(), pod.told.version);
                }
            }
        }
        // Who cannot be grouped anew stays where it is.
        let mut stays = Vec::new();
        for (key, pod) in &moving {
            // They are looked at once, all of them.
            self.allowance = Allowance::new();
            match self.find(api, (key, pod), mirror, &defaults).await? {
                Found::Member(member) => wanted.move_to(key, pod, *member),
                Found::Wrong(malformed) => stays.push((key, pod, malformed)),
                Found::LeftAlone | Found::Later => {}
            }
        }
        let (refused, ended) = wanted.ensure(api, mirror, pacing).await;
        let refused = |(key, pod)| Some((key, pod, refused.get(key)?.clone()));
        wrong.extend(waiting.iter().map(|(key, pod)| (key, pod)).filter_map(refused));
        let is_news =
            |(key, _, wrong): &&Wrong<'_>| said.get(*key).is_none_or(|(_, was)| was != wrong);
        let news = wrong.iter().filter(is_news).chain(&stays).map(warnings::of_pod);
        warnings::tell(api, news.chain(wanted.doubts.drain(..)), now, pacing).await;
        for (key, _, malformed) in wrong {
            mirror.note_ungrouped(key.clone(), malformed);
        }
        ended?;
        wanted.mark(api, mirror, pacing).await
    }

    /// Pods have no groups though time may bring them some: what is in the way can be mended, and
    /// nobody tells; or they are those that another cycle looks at.
    pub(crate) fn looks_again_after(&self, mirror: &Mirror) -> Option<Duration> {
        if self.is_behind {
            return Some(Duration::ZERO);
        }
        let is_stuck = !mirror.ungrouped.is_empty() || !self.lost.is_empty();
        is_stuck.then_some(LOOK_AGAIN)
    }

    /// What was said of pods that could not be grouped, if it is time to look at all of them again, and
    /// at those that have lost their groups: after a while, or when there are news.
    fn forgotten(
        &mut self,
        mirror: &mut Mirror,
        (now, news): (Time, &News),
    ) -> BTreeMap<Key, (u64, Malformed)> {
        if news.is_none() && now.since(self.looked) < LOOK_AGAIN {
            return BTreeMap::new();
        }
        self.looked = now;
        self.lost.clear();
        mem::take(&mut mirror.ungrouped)
    }

    /// Pods without a group that were not looked at yet as they are now.
    fn waiting(&mut self, mirror: &Mirror) -> Vec<(Key, PodRecord)> {
        let is_same = |key: &Key, version: &u64| {
            mirror.pods.get(key).filter(|pod| pod.told.version == *version)
        };
        self.of_others
            .retain(|key, version| is_same(key, version).is_some_and(|pod| pod.group.is_none()));
        self.lost.retain(|key, version| {
            is_same(key, version).is_some_and(|pod| has_lost_group(mirror, key, pod))
        });
        let is_known = |key: &Key| {
            mirror.ungrouped.contains_key(key)
                || self.of_others.contains_key(key)
                || self.lost.contains_key(key)
        };
        let lost = mirror.missing_groups().flat_map(|group| mirror.pods_of(group));
        let lost = lost.filter(|(_, pod)| may_be_grouped(pod));
        let new = mirror.pods.iter().filter(|(_, pod)| wants_group(pod));
        let waiting = new.map(|(key, pod)| (key.clone(), pod)).chain(lost);
        let waiting = waiting.filter(|(key, _)| !is_known(key));
        waiting.map(|(key, pod)| (key, pod.clone())).collect()
    }

    /// Where a pod belongs.
    async fn find(
        &mut self,
        api: &Api,
        (key, pod): (&Key, &PodRecord),
        mirror: &Mirror,
        defaults: &Defaults,
    ) -> Result<Found, ApiError> {
        let chain = self.chain(api, &key.namespace, pod).await?;
        // What is gone with its owner is not to come back.
        if pod.group.is_some() && chain.iter().any(|link| !stays(&link.object)) {
            return Ok(Found::LeftAlone);
        }
        let beside = match rules::beside(pod, &chain) {
            Some(beside) => self.owner(api, &key.namespace, &beside).await?.object(),
            None => None,
        };
        let described = rules::described(&chain);
        let karta = described.and_then(|owner| mirror.kartas.of(&owner.api_version, &owner.kind));
        let mut whole = Value::Null;
        if let (Some(owner), Some(_)) = (described, karta) {
            if let Some(wrong) = self.too_costly.get(&owner.uid) {
                return Ok(Found::Wrong(wrong.clone()));
            }
            if self.allowance.is_spent() {
                return Ok(Found::Later);
            }
            whole = match kartas::whole(api, key).await? {
                Some(Ok(whole)) => whole,
                Some(Err(malformed)) => return Ok(Found::Wrong(malformed)),
                None => return Ok(Found::LeftAlone),
            };
        }
        let around = Around {
            karta: karta.map(|karta| (karta, &whole)),
            allowance: &self.allowance,
            pods: &mirror.pods,
            classes: &mirror.classes,
            pool_label: &self.pool_label,
            beside: beside.as_ref(),
            defaults,
        };
        let found = rules::group_of(key, pod, &chain, around);
        Ok(match found {
            Ok(member) if mirror.is_in_pool(&member.group.labels) => {
                Found::Member(Box::new(member))
            }
            Ok(_) => Found::LeftAlone,
            Err(malformed) => {
                let too_costly = described.filter(|_| karta.is_some());
                if let Some(owner) = too_costly.filter(|_| self.allowance.was_exceeded()) {
                    self.too_costly.insert(Name::clone(&owner.uid), malformed.clone());
                }
                Found::Wrong(malformed)
            }
        })
    }

    /// The owners of a pod that we may read, nearest first.
    pub(crate) async fn chain(
        &mut self,
        api: &Api,
        namespace: &Name,
        pod: &PodRecord,
    ) -> Result<Vec<Link>, ApiError> {
        let mut chain = Vec::new();
        let mut next = pod.owner.clone();
        while let Some(owner) = next.filter(|_| chain.len() < CHAIN_MAX) {
            let object = match self.owner(api, namespace, &owner).await? {
                Answer::Object(object) => object,
                Answer::Nothing => Value::Null,
                Answer::Refused => break,
            };
            next = owner_above(&object);
            chain.push(Link { owner, object });
        }
        Ok(chain)
    }

    async fn owner(
        &mut self,
        api: &Api,
        namespace: &Name,
        owner: &Owner,
    ) -> Result<Answer, ApiError> {
        let cached = (Name::clone(namespace), owner.clone());
        if let Some(known) = self.owners.get(&cached) {
            return Ok(known.clone());
        }
        let answer = self.fetch(api, namespace, owner).await?;
        self.owners.insert(cached, answer.clone());
        Ok(answer)
    }

    async fn fetch(
        &mut self,
        api: &Api,
        namespace: &Name,
        owner: &Owner,
    ) -> Result<Answer, ApiError> {
        let Some(plural) = self.plural(api, owner).await? else {
            return Ok(Answer::Nothing);
        };
        let path = path(&owner.api_version, namespace, &plural, &owner.name);
        match api.get(&path).await {
            Ok(object) if owner.uid.is_empty() || is_it(&object, owner) => {
                Ok(Answer::Object(object))
            }
            // Another object of that name, or none.
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(Answer::Nothing),
            Err(ApiError::Refused(_)) => Ok(Answer::Refused),
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

/// An owner that is there, and is not being deleted.
fn stays(object: &Value) -> bool {
    !object.is_null() && object["metadata"].get("deletionTimestamp").is_none()
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

/// A pod that cannot be grouped as it stands, and why.
type Wrong<'w> = (&'w Key, &'w PodRecord, Malformed);

/// What was said of pods that have changed since.
fn forget_changed(mirror: &mut Mirror) {
    let pods = &mirror.pods;
    mirror.ungrouped.retain(|key, (version, _)| {
        pods.get(key).is_some_and(|pod| pod.told.version == *version && pod.group.is_none())
    });
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

/// It is in a group that is not there (any more).
fn has_lost_group(mirror: &Mirror, pod: &Key, of: &PodRecord) -> bool {
    of.group.as_ref().is_some_and(|name| !mirror.groups.contains_key(&beside(pod, name)))
}

/// An object in the namespace of a pod.
fn beside(pod: &Key, name: &Name) -> Key {
    Key { namespace: Name::clone(&pod.namespace), name: Name::clone(name) }
}

fn may_be_grouped(pod: &PodRecord) -> bool {
    pod.scheduler == Scheduler::This
        && !pod.skip_grouping
        && !pod.is_finished()
        && pod.leaving_since.is_none()
}
