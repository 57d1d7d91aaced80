//! Audits of histories that one plan does not show: changes that the scheduler had not seen,
//! devices and claims, crashes, and checks at quiescence.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::rules::{
    Amounts, Auditor, ClaimView, Eviction, EvictionKind, GroupView, Name, NodeView, Phase, PodView,
    QueueView, Rules, SubGroupView, Time, Writer,
};

/// A history with node `n`, queue `q` and further facts; times are in seconds.
struct History {
    auditor: Auditor,
    pods: BTreeMap<String, PodView>,
}

fn gpus(count: i128) -> Amounts {
    [("nvidia.com/gpu".into(), count * 1000)].into()
}

fn node(count: i128) -> NodeView {
    NodeView { allocatable: gpus(count), ready: true, ..NodeView::default() }
}

fn name(text: &str) -> Name {
    text.into()
}

const fn at(secs: i64) -> Time {
    Time(secs * 1000)
}

impl History {
    fn with_moment(moment: Duration) -> Self {
        let mut auditor = Auditor::new(Rules { window: moment, ..Rules::kai() });
        auditor.observe_node(at(0), &name("n"), Some(node(8)));
        auditor.observe_queue(at(0), &name("q"), Some(QueueView::default()));
        Self { auditor, pods: BTreeMap::new() }
    }

    fn new() -> Self {
        Self::with_moment(Duration::ZERO)
    }

    fn gang(&mut self, group: &str, min_member: usize) -> &mut Self {
        let part = SubGroupView { name: name("default"), min_member, ..SubGroupView::default() };
        let queue = name("q");
        let group_view =
            GroupView { queue, preemptible: true, sub_groups: vec![part], ..GroupView::default() };
        self.auditor.observe_pod_group(at(0), &name(group), Some(group_view));
        self
    }

    /// Creates a pod with one GPU: `a1` belongs to group `a`.
    fn pod(&mut self, secs: i64, pod: &str) -> &mut Self {
        let view = PodView {
            uid: name(pod),
            group: Some(name(pod.trim_end_matches(char::is_numeric))),
            scheduling_group: None,
            sub_group: None,
            requests: gpus(1),
            node: None,
            phase: Phase::Alive,
            binding_refused: false,
            leaving: false,
            priority: 0,
            node_selector: BTreeMap::default(),
            node_affinity: None,
            tolerations: Vec::new(),
            devices: None,
            guaranteed: false,
            numa_zones: BTreeMap::new(),
            device_shares: Vec::new(),
            claims: BTreeMap::new(),
            extra_charges: Amounts::new(),
        };
        self.pods.insert(pod.to_owned(), view);
        self.change(secs, pod, Writer::Other, |_| {})
    }

    fn change(
        &mut self,
        secs: i64,
        pod: &str,
        writer: Writer,
        change: impl Fn(&mut PodView),
    ) -> &mut Self {
        let view = self.pods.get_mut(pod).expect("the pod was created");
        change(view);
        self.auditor.observe_pod(at(secs), &name(pod), Some(view), writer);
        self
    }

    fn bind(&mut self, secs: i64, pod: &str) -> &mut Self {
        self.change(secs, pod, Writer::Scheduler, |pod| pod.node = Some(name("n")))
    }

    fn evict(&mut self, secs: i64, pod: &str) -> &mut Self {
        self.change(secs, pod, Writer::Scheduler, |pod| pod.leaving = true)
    }

    fn give(&mut self, secs: i64, pod: &str, devices: &[u32]) -> &mut Self {
        self.change(secs, pod, Writer::Other, |pod| pod.devices = Some(devices.to_vec()))
    }

    fn gone(&mut self, secs: i64, pod: &str) -> &mut Self {
        self.auditor.observe_pod(at(secs), &name(pod), None, Writer::Other);
        self
    }

    /// All breaches, after enough time has passed.
    fn breaches(&mut self) -> Vec<String> {
        self.auditor.advance_to(at(3600));
        self.auditor.breaches().iter().map(|breach| breach.detail.clone()).collect()
    }
}

#[test]
fn a_change_within_the_window_counts_as_unseen() {
    let bound_after = |moment, secs: i64| {
        let mut history = History::with_moment(Duration::from_secs(moment));
        history.pod(1, "a1");
        let cordoned = NodeView { cordoned: true, ..node(8) };
        history.auditor.observe_node(at(10), &name("n"), Some(cordoned));
        history.bind(10 + secs, "a1").breaches().len()
    };
    assert_eq!([bound_after(0, 0), bound_after(0, 1)], [0, 1]);
    assert_eq!([bound_after(5, 5), bound_after(5, 6)], [0, 1]);
    let mut twice = History::with_moment(Duration::from_secs(5));
    twice.pod(1, "a1");
    for secs in [10, 12] {
        let cordoned = NodeView { cordoned: true, ..node(secs) };
        twice.auditor.observe_node(at(i64::try_from(secs).unwrap()), &name("n"), Some(cordoned));
    }
    assert_eq!(
        twice.bind(13, "a1").breaches(),
        [""; 0],
        "the scheduler may have seen only the first state"
    );
    let mut gone = History::new();
    gone.pod(1, "a1").auditor.observe_node(at(10), &name("n"), None);
    assert_eq!(
        gone.bind(11, "a1").breaches(),
        ["pod a1 was bound to node n, which does not exist"]
    );
}

#[test]
fn devices_are_given_once_and_in_the_requested_number() {
    let given = |devices: &[u32]| {
        let mut history = History::new();
        history.pod(1, "a1").bind(2, "a1").give(3, "a1", &[1]);
        history.pod(1, "b1").bind(2, "b1").give(4, "b1", devices).breaches()
    };
    assert_eq!(given(&[0]), [""; 0]);
    assert_eq!(given(&[1]), ["pod b1 was given GPU 1 of node n, which pod a1 has"]);
    assert_eq!(given(&[7]), [""; 0]);
    assert_eq!(given(&[8]), ["pod b1 was given GPU 8 of node n, which has 8"]);
    assert_eq!(given(&[2, 3]), ["pod b1 was given 2 GPUs and requests 1"]);
    assert_eq!(given(&[]), ["pod b1 was given 0 GPUs and requests 1"]);
    assert_eq!(
        given(&[2, 2]),
        ["pod b1 was given 2 GPUs and requests 1", "pod b1 was given GPU 2 of node n twice"]
    );
    let mut later = History::new();
    later.pod(1, "a1").bind(2, "a1").give(3, "a1", &[1]).gone(4, "a1");
    assert_eq!(later.pod(5, "b1").bind(6, "b1").give(7, "b1", &[1]).breaches(), [""; 0]);
}

#[test]
fn a_claim_is_reserved_for_its_bound_pods_and_its_devices_are_exclusive() {
    let claim = |node: Option<&str>, devices: &[&str], users: &[&str]| ClaimView {
        node: node.map(name),
        terms: None,
        pod_groups: BTreeSet::new(),
        devices: devices.iter().map(|one| name(one)).collect(),
        users: users.iter().map(|one| name(one)).collect(),
    };
    let bound = |view: ClaimView| {
        let mut history = History::new();
        history.auditor.observe_claim(at(1), &name("c"), Some(view));
        let claims = BTreeMap::from([(name("c"), gpus(1))]);
        history.pod(2, "a1").change(2, "a1", Writer::Other, |pod| pod.claims = claims.clone());
        history.bind(3, "a1").breaches()
    };
    assert_eq!(bound(claim(Some("n"), &["g"], &["a1", "b1"])), [""; 0]);
    assert_eq!(bound(claim(None, &["g"], &["a1"])), [""; 0]);
    assert_eq!(
        bound(claim(Some("m"), &["g"], &["a1"])),
        ["pod a1 was bound to n, but claim c is allocated on m"]
    );
    assert_eq!(
        bound(claim(Some("n"), &["g"], &["b1"])),
        ["pod a1 was bound to n, but claim c is not reserved for the pod"]
    );
    assert_eq!(
        bound(claim(None, &[], &["a1"])),
        ["pod a1 was bound to n, but claim c is not allocated"]
    );
    let of_group = |group: &str| {
        let mut history = History::new();
        let view = ClaimView {
            pod_groups: BTreeSet::from([name("ns/train")]),
            ..claim(Some("n"), &["g"], &[])
        };
        history.auditor.observe_claim(at(1), &name("c"), Some(view));
        history.pod(2, "a1").change(2, "a1", Writer::Other, |pod| {
            pod.claims = BTreeMap::from([(name("c"), gpus(1))]);
            pod.scheduling_group = Some(name(group)).filter(|group| !group.is_empty());
        });
        history.bind(3, "a1").breaches()
    };
    let unreserved = ["pod a1 was bound to n, but claim c is not reserved for the pod"];
    assert_eq!(of_group("ns/train"), [""; 0]);
    assert_eq!(of_group("ns/other"), unreserved);
    assert_eq!(of_group(""), unreserved);
    let changed = |before: ClaimView, after: ClaimView| {
        let mut history = History::new();
        history.auditor.observe_claim(at(1), &name("c"), Some(before));
        history.auditor.observe_claim(at(1), &name("d"), Some(claim(None, &["h"], &[])));
        history.auditor.observe_claim(at(2), &name("c"), Some(after));
        history.breaches()
    };
    let used = || claim(None, &["g"], &["a1"]);
    assert_eq!(changed(used(), claim(None, &["g"], &["a1", "b1"])), [""; 0]);
    assert_eq!(
        changed(used(), claim(None, &["k"], &["a1"])),
        ["claim c was reallocated while in use"]
    );
    assert_eq!(changed(used(), claim(None, &["k"], &["b1"])), [""; 0]);
    assert_eq!(changed(claim(None, &[], &["a1"]), used()), [""; 0]);
    assert_eq!(
        changed(claim(None, &[], &[]), claim(None, &["h"], &[])),
        ["claim c was given h, which d has"]
    );
}

#[test]
fn devices_of_a_claim_are_used_until_its_last_user_is_gone() {
    let claims = BTreeMap::from([(name("c"), gpus(7))]);
    let with_claim = |history: &mut History, pod: &str| {
        history.pod(1, pod).change(1, pod, Writer::Other, |pod| {
            (pod.claims, pod.requests) = (claims.clone(), gpus(0));
        });
        history.bind(2, pod);
    };
    let told_after = |gone: &[&str]| {
        let mut history = History::new();
        with_claim(&mut history, "a1");
        with_claim(&mut history, "b1");
        for pod in gone {
            history.gone(3, pod);
        }
        history.pod(4, "d1").change(4, "d1", Writer::Other, |pod| pod.requests = gpus(2));
        history.bind(5, "d1").breaches()
    };
    let over = ["with pod d1, pods on node n request 9 nvidia.com/gpu; the node has 8"];
    assert_eq!(told_after(&[]), over);
    assert_eq!(told_after(&["a1"]), over);
    assert_eq!(told_after(&["a1", "b1"]), [""; 0]);
}

#[test]
fn a_gang_may_be_bound_by_several_writes_within_the_window() {
    let second_after = |secs: i64| {
        let mut history = History::with_moment(Duration::from_secs(5));
        history.gang("a", 2).pod(1, "a1").pod(1, "a2");
        history.bind(10, "a1").bind(10 + secs, "a2").breaches()
    };
    assert_eq!(second_after(5), [""; 0]);
    let late = ["gang a was bound in part: 1 of 2 required pods bound"];
    assert_eq!(second_after(6), late);
    assert_eq!(History::new().gang("a", 2).pod(1, "a1").bind(10, "a1").breaches(), late);
}

#[test]
fn a_gang_is_checked_after_three_reported_cycles() {
    let judged_after = |cycles: u64| {
        let mut history = History::new();
        history.auditor.observe_completed_cycles(7);
        history
            .gang("a", 2)
            .pod(1, "a1")
            .bind(10, "a1")
            .auditor
            .observe_completed_cycles(7 + cycles);
        history.breaches().len()
    };
    assert_eq!([judged_after(2), judged_after(3)], [0, 1]);
}

#[test]
fn a_change_that_a_crash_interrupted_is_checked_when_quiescent() {
    let mut before = History::new();
    before.gang("a", 2).pod(1, "a1").bind(10, "a1").auditor.record_scheduler_kill(at(10));
    assert_eq!(before.breaches(), [""; 0]);
    before.auditor.check_quiescent_cluster(at(7200));
    assert_eq!(
        before.auditor.breaches()[0].detail,
        "gang a stays bound in part: 1 of 2 required pods bound"
    );
    let mut long_before = History::new();
    long_before.auditor.record_scheduler_kill(at(5));
    assert_eq!(long_before.gang("a", 2).pod(6, "a1").bind(10, "a1").breaches().len(), 1);
    let mut whole = History::new();
    whole.gang("a", 2).pod(1, "a1").pod(1, "a2").bind(10, "a1").bind(10, "a2");
    whole.auditor.check_quiescent_cluster(at(20));
    assert_eq!(whole.breaches(), [""; 0]);
}

#[test]
fn members_that_others_delete_count_as_present() {
    let mut lost = History::new();
    lost.gang("a", 2).pod(1, "a1").pod(1, "a2").pod(1, "a3");
    lost.bind(10, "a1").bind(10, "a2").gone(20, "a1");
    assert_eq!(lost.bind(20, "a3").breaches(), [""; 0]);
    let mut moved = History::new();
    moved.gang("a", 2).pod(1, "a1").pod(1, "a2").bind(10, "a1").bind(10, "a2");
    let eviction =
        Eviction { pod: name("a1"), preemptor: name("b"), kind: EvictionKind::Consolidate };
    moved.auditor.observe_eviction(at(20), &eviction);
    assert_eq!(moved.evict(20, "a1").breaches(), [""; 0]);
    let mut evicted = History::new();
    evicted.gang("a", 2).pod(1, "a1").pod(1, "a2").bind(10, "a1").bind(10, "a2");
    assert_eq!(
        evicted.evict(20, "a1").breaches(),
        ["gang a was evicted in part: 1 of 2 required pods bound"]
    );
    let mut done = History::new();
    done.gang("a", 2).pod(1, "a1").pod(1, "a2");
    done.change(5, "a1", Writer::Other, |pod| pod.phase = Phase::Succeeded);
    assert_eq!(done.bind(10, "a2").breaches(), [""; 0], "the pod succeeded");
}

#[test]
fn a_member_whose_node_is_gone_runs_no_more() {
    let mut history = History::new();
    history.auditor.observe_node(at(0), &name("m"), Some(node(8)));
    history.gang("a", 2).pod(1, "a1").pod(1, "a2").pod(1, "a3");
    history.bind(10, "a1").change(10, "a2", Writer::Scheduler, |pod| pod.node = Some(name("m")));
    history.auditor.observe_node(at(20), &name("n"), None);
    let left = ["gang a was evicted in part: 1 of 2 required pods bound"];
    history.change(30, "a3", Writer::Scheduler, |pod| pod.node = Some(name("m")));
    assert_eq!(history.evict(40, "a3").breaches(), left);
}

#[test]
fn a_gang_that_was_whole_is_new_again_when_it_is_gone() {
    let start = || {
        let mut history = History::new();
        history.gang("a", 2).pod(1, "a1").pod(1, "a2").bind(10, "a1").bind(10, "a2");
        history
    };
    let mut failed = start();
    failed.change(20, "a1", Writer::Other, |pod| pod.phase = Phase::Failed);
    failed.pod(30, "a3").bind(40, "a3").gone(50, "a2").pod(60, "a4");
    assert_eq!(failed.bind(70, "a4").breaches(), [""; 0]);
    let mut again = start();
    again.evict(20, "a1").evict(20, "a2").gone(30, "a1").gone(30, "a2").pod(40, "a3");
    assert_eq!(
        again.bind(50, "a3").breaches(),
        ["gang a was bound in part: 1 of 2 required pods bound"]
    );
}

#[test]
fn bounds_follow_groups_and_queues_that_change() {
    let limit = |parent: Option<&str>, count| QueueView {
        parent: parent.map(name),
        limit: gpus(count),
        ..QueueView::default()
    };
    let start = || {
        let mut history = History::new();
        history.auditor.observe_queue(at(0), &name("r"), Some(limit(None, 1)));
        history.gang("a", 1).gang("b", 1).pod(1, "a1").pod(1, "b1").bind(10, "a1");
        history
    };
    let over = ["with pod b1, queue r uses 2 nvidia.com/gpu; its limit is 1"];
    let mut below = start();
    below.auditor.observe_queue(at(20), &name("q"), Some(limit(Some("r"), 9)));
    assert_eq!(below.bind(30, "b1").breaches(), over);
    let mut regrouped = start();
    for group in ["a", "b"] {
        let part = SubGroupView { min_member: 1, ..SubGroupView::default() };
        let sub_groups = vec![part];
        let view = GroupView { queue: name("r"), preemptible: true, sub_groups, ..<_>::default() };
        regrouped.auditor.observe_pod_group(at(20), &name(group), Some(view));
    }
    assert_eq!(regrouped.bind(30, "b1").breaches(), over);
    let mut finished = start();
    finished.auditor.observe_queue(at(20), &name("q"), Some(limit(Some("r"), 9)));
    finished.change(25, "a1", Writer::Other, |pod| pod.phase = Phase::Succeeded);
    assert_eq!(finished.bind(30, "b1").breaches(), [""; 0]);
}

#[test]
fn the_use_of_a_pod_follows_its_node_and_its_group() {
    let job_fields = |history: &mut History, secs, pod: &str, count| {
        history.change(secs, pod, Writer::Other, |pod| pod.requests = gpus(count));
    };
    let mut moved = History::new();
    moved.auditor.observe_node(at(0), &name("m"), Some(node(8)));
    moved.pod(1, "a1").pod(1, "b1").bind(2, "a1");
    job_fields(&mut moved, 3, "a1", 8);
    job_fields(&mut moved, 3, "b1", 8);
    moved.change(4, "a1", Writer::Other, |pod| pod.node = Some(name("m")));
    let again = ["pod a1 is on node n and was bound again, to m"];
    assert_eq!(moved.bind(5, "b1").breaches(), again, "node n is free");
    let mut grown = History::new();
    grown.pod(1, "a1").pod(1, "b1").bind(2, "a1");
    job_fields(&mut grown, 3, "a1", 8);
    let over = ["with pod b1, pods on node n request 9 nvidia.com/gpu; the node has 8"];
    assert_eq!(grown.bind(5, "b1").breaches(), over);
    let mut given = History::new();
    let limit = QueueView { limit: gpus(1), ..QueueView::default() };
    given.auditor.observe_queue(at(0), &name("q"), Some(limit));
    given.gang("a", 1).pod(1, "a1").pod(1, "b1").bind(2, "b1");
    given.change(3, "b1", Writer::Other, |pod| pod.group = Some(name("a")));
    let over = ["with pod a1, queue q uses 2 nvidia.com/gpu; its limit is 1"];
    assert_eq!(given.bind(4, "a1").breaches(), over);
    let mut leaves = History::new();
    leaves.auditor.observe_queue(
        at(0),
        &name("q"),
        Some(QueueView { limit: gpus(1), ..<_>::default() }),
    );
    leaves.gang("a", 1).gang("b", 1).pod(1, "a1").pod(1, "b1").bind(2, "b1").evict(3, "b1");
    assert_eq!(leaves.bind(4, "a1").breaches(), [""; 0], "a leaving pod does not count");
}

#[test]
fn the_rest_of_a_gang_that_lost_a_sub_group_may_be_evicted() {
    let of_parts = |min_sub_groups| {
        let mut history = History::new();
        let part = |part: &str| SubGroupView {
            name: name(part),
            min_member: 1,
            ..SubGroupView::default()
        };
        let sub_groups = vec![part("l"), part("r")];
        let queue = name("q");
        let view = GroupView { queue, sub_groups, min_sub_groups, ..GroupView::default() };
        history.auditor.observe_pod_group(at(0), &name("a"), Some(view));
        for (member, part) in [("a1", "l"), ("a2", "r")] {
            history.pod(1, member);
            history.change(1, member, Writer::Other, |pod| pod.sub_group = Some(name(part)));
            history.bind(2, member);
        }
        history.change(3, "a1", Writer::Other, |pod| pod.phase = Phase::Failed);
        history.change(9, "a2", Writer::Scheduler, |pod| pod.leaving = true).breaches()
    };
    assert_eq!(of_parts(None), [""; 0]);
    assert_eq!(
        of_parts(Some(1)),
        ["pod a2 was evicted, but it is not preemptible and its gang is whole"]
    );
}

#[test]
fn requests_are_not_negative_and_only_the_scheduler_is_audited() {
    let mut negative = History::new();
    negative.pod(1, "a1").change(2, "a1", Writer::Other, |pod| pod.requests = gpus(-1));
    assert_eq!(
        negative.bind(3, "a1").breaches(),
        ["pod a1 requests -1 nvidia.com/gpu and was bound"]
    );
    let mut unbound = History::new();
    unbound.pod(1, "a1").bind(2, "a1");
    unbound.change(3, "a1", Writer::Other, |pod| pod.node = None);
    assert_eq!(unbound.breaches(), ["pod a1 lost its node n"]);
    let fixed = |writer| {
        let mut history = History::new();
        let view = GroupView { sub_groups: vec![SubGroupView::default()], ..GroupView::default() };
        history.auditor.observe_pod_group(at(0), &name("a"), Some(view));
        history.pod(1, "a1").bind(2, "a1");
        history.change(3, "a1", writer, |pod| pod.leaving = true).breaches()
    };
    assert_eq!(fixed(Writer::Other), [""; 0]);
    assert_eq!(
        fixed(Writer::Scheduler),
        ["pod a1 was evicted, but it is not preemptible and its gang is whole"]
    );
}
