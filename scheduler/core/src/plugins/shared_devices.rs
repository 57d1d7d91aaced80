//! Devices that several nodes reach ([`Stock`](crate::model::Stock)). The room of each node counts
//! them as its own; here is looked whether all who are to get some in this cycle can have them at
//! once. What a claim is allocated it keeps until all who have it leave.

mod shares;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    decision::{DeviceMisfit, EvenWhenEmpty, Misfit},
    framework::{DependsOn, Filter, NodeFilter},
    model::{DeviceClaim, Name, NodeId, PodId, Stock, StockId},
    resources::Shortage,
    session::{Fits, PodState, Session},
};
use shares::{Ask, Shares};

/// Looks whether there are enough devices for all nodes together.
#[derive(Clone, Copy, Debug)]
pub(super) enum SharedDevices {
    /// Those that are on their way back can be promised.
    NowOrLater,
    /// They cannot (kube-scheduler).
    NowOnly,
}

/// Who uses a claim, besides the pod that is asked about.
struct Use<'a> {
    claim: &'a DeviceClaim,
    /// The nodes of those that stay, and whether each was only promised room there.
    staying: Vec<(NodeId, bool)>,
    /// Somebody was asked to leave.
    is_left: bool,
    /// Somebody has it on a node that nobody looks at.
    is_away: bool,
}

/// Devices of one kind now, and when all is released.
struct Supply<'a> {
    kind: Name,
    now: Shares<'a>,
    later: Shares<'a>,
}

impl Filter for SharedDevices {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn keeps_apart(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        if session.snapshot.stocks.is_empty() {
            return None;
        }
        let kinds = kinds(session, &session.shape_of(pod).claims);
        if kinds.is_empty() {
            return None;
        }
        let uses = uses(session, pod);
        let of_kind = |kind| Supply {
            kind: Name::clone(kind),
            now: shares(session, kind, (&uses, Fits::Now)),
            later: shares(session, kind, (&uses, Fits::Later)),
        };
        let supplies: Vec<Supply<'a>> = kinds.into_iter().map(of_kind).collect();
        let fit = *self;
        Some(Box::new(move |node| {
            let claims = session.shape_of(pod).claims.iter();
            let new = claims.filter(|claim| fit.takes(session, (claim, node), &uses));
            let new: Vec<&DeviceClaim> = new.collect();
            supplies.iter().try_fold(Fits::Now, |fits, supply| {
                let ask = new.iter().map(|claim| asked(session, claim, (node, &supply.kind)));
                let ask = ask.fold(Ask::default(), Ask::plus);
                Ok(fits.max(fit.fits(session, (node, ask), supply)?))
            })
        }))
    }
}

impl SharedDevices {
    /// The pod that is asked about would take devices for the claim, which has none there.
    fn takes(
        self,
        session: &Session<'_>,
        (claim, node): (&DeviceClaim, NodeId),
        uses: &BTreeMap<&Name, Use<'_>>,
    ) -> bool {
        match (self, uses.get(&claim.name)) {
            (Self::NowOnly, _) if claim.allocated_on.is_some() => false,
            (_, None) => claim.allocated_on.is_none(),
            (_, Some(others)) => {
                !others.keeps(session) && others.staying.iter().all(|(other, _)| *other != node)
            }
        }
    }

    fn fits(
        self,
        session: &Session<'_>,
        (node, ask): (NodeId, Ask),
        supply: &Supply<'_>,
    ) -> Result<Fits, Misfit> {
        let later = ask.is_none() || supply.later.suffice(node, ask);
        let now = ask.is_none() || (later && supply.now.suffice(node, ask));
        if now {
            return Ok(Fits::Now);
        }
        let stocks = session.stocks_of(node).iter().map(|id| stock(session, *id));
        let all = stocks.map(|stock| count(&stock.all, &supply.kind)).sum::<i64>();
        let even_when_empty = if ask.any.saturating_add(ask.local) > all {
            EvenWhenEmpty::Yes
        } else {
            EvenWhenEmpty::No
        };
        match self {
            Self::NowOrLater if later => Ok(Fits::Later),
            Self::NowOrLater => {
                let of = Shortage { extended: vec![supply.kind.clone()], ..Shortage::default() };
                Err(Misfit::TooLittle { of, even_when_empty })
            }
            Self::NowOnly => Err(Misfit::Devices(DeviceMisfit::TooFew { even_when_empty })),
        }
    }
}

/// What these claims ask for that is in a stock.
fn kinds<'a>(session: &Session<'a>, claims: &'a [DeviceClaim]) -> BTreeSet<&'a Name> {
    let asked = claims.iter().flat_map(|claim| {
        claim.every.values().chain([&claim.devices]).flat_map(|devices| devices.extended.keys())
    });
    let is_in_stock =
        |kind: &&Name| session.snapshot.stocks.iter().any(|stock| stock.all.contains_key(*kind));
    asked.filter(is_in_stock).collect()
}

/// Whoever uses claims, besides the pod itself: where it is asked to leave, it counts as another.
fn uses<'a>(session: &'a Session<'_>, pod: PodId) -> BTreeMap<&'a Name, Use<'a>> {
    let mut uses: BTreeMap<&Name, Use<'a>> = BTreeMap::new();
    for user in session.claiming_pods() {
        let state = session.state(*user);
        if *user == pod && !matches!(state, PodState::Releasing(_)) {
            continue;
        }
        for claim in &session.shape_of(*user).claims {
            let of_it = uses.entry(&claim.name).or_insert_with(|| Use {
                claim,
                staying: Vec::new(),
                is_left: false,
                is_away: false,
            });
            of_it.add(state);
        }
    }
    uses
}

impl Use<'_> {
    fn add(&mut self, state: PodState) {
        match state {
            PodState::Holding(node) | PodState::Stuck(node) => self.staying.push((node, false)),
            PodState::Promised(node) => self.staying.push((node, true)),
            PodState::Moving { to, .. } => {
                self.staying.push((to, true));
                self.is_left = true;
            }
            PodState::Releasing(_) => self.is_left = true,
            PodState::Away | PodState::Lost => self.is_away = true,
            PodState::Pending | PodState::Gated | PodState::Finished => {}
        }
    }

    /// It is allocated, and is not given back.
    fn keeps(&self, session: &Session<'_>) -> bool {
        self.claim.allocated_on.as_ref().is_some_and(|on| {
            let stays = |(node, _): &(NodeId, bool)| on.has(&session.node(*node).name);
            let is_reserved = self.is_away || self.claim.reserved_for_others > 0;
            !self.is_left || is_reserved || self.staying.iter().any(stays)
        })
    }
}

/// The devices of a kind, without those that others are to get.
fn shares<'a>(
    session: &'a Session<'_>,
    kind: &Name,
    (uses, when): (&BTreeMap<&Name, Use<'_>>, Fits),
) -> Shares<'a> {
    let given_back = || uses.values().filter(|of_it| of_it.is_left && !of_it.keeps(session));
    let left = (0..).map(StockId).zip(&session.snapshot.stocks).map(|(id, stock)| {
        let mut left = count(&stock.free, kind);
        if when == Fits::Later {
            let had = given_back().filter_map(|of_it| of_it.claim.from_stocks.get(&id));
            left += count(&stock.returning, kind) + had.map(|had| count(had, kind)).sum::<i64>();
        }
        (id, left.max(0))
    });
    let mut shares = Shares::of(session, left.collect());
    let mut asks: Vec<(NodeId, Ask)> = uses
        .values()
        .filter(|of_it| !of_it.keeps(session))
        .filter_map(|of_it| {
            let mut places = of_it.staying.iter();
            let place = places.find(|(_, is_promised)| when == Fits::Later || !is_promised);
            place.map(|(node, _)| (*node, asked(session, of_it.claim, (*node, kind))))
        })
        .collect();
    asks.sort_by_key(|(_, ask)| std::cmp::Reverse(ask.local));
    for (node, ask) in asks {
        shares.give(node, ask);
    }
    shares
}

/// What a claim that has none takes of a kind on a node.
fn asked(session: &Session<'_>, claim: &DeviceClaim, (node, kind): (NodeId, &Name)) -> Ask {
    let count = claim.devices_on(session.node(node)).extended_of(kind);
    if claim.is_local { Ask { any: 0, local: count } } else { Ask { any: count, local: 0 } }
}

fn stock<'a>(session: &Session<'a>, id: StockId) -> &'a Stock {
    &session.snapshot.stocks[id.0 as usize]
}

fn count(devices: &BTreeMap<Name, i64>, kind: &Name) -> i64 {
    devices.get(kind).copied().unwrap_or(0)
}
