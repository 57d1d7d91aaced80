//! The weighted score of each plugin for each node: by the formulas of kube-scheduler and of KAI,
//! computed by hand.

use schedlab_scheduler_core::{
    Profile, Snapshot,
    framework::{Plugins, Session},
    model::{Inclusion, PodId, TopologySpread},
    profile::Placement,
};
use schedlab_testkit::{kube_snapshot_of, snapshot_of};

/// The weighted scores of `plugin` for the feasible nodes of pod `x`, by node name.
fn scores(plugin: &str, text: &str) -> Vec<i128> {
    scores_in(plugin, &kube_snapshot_of(text))
}

fn scores_in(plugin: &str, snapshot: &Snapshot) -> Vec<i128> {
    scores_by(&Profile::kube(), plugin, snapshot)
}

fn scores_by(profile: &Profile, plugin: &str, snapshot: &Snapshot) -> Vec<i128> {
    let session = Session::new(snapshot, profile);
    let pod =
        snapshot.pods.iter().position(|pod| &*pod.name == "x").expect("the cluster has pod x");
    let nodes = session.scored_nodes(PodId(u32::try_from(pod).expect("ids are 32 bits")));
    let of = |(name, score): &(String, i128)| (name == plugin).then_some(*score);
    nodes.iter().filter_map(|node| node.scores.iter().find_map(of)).collect()
}

#[test]
fn least_allocated_prefers_more_free_cpu_and_memory() {
    let least = |text: &str| scores("LeastAllocated", text);
    assert_eq!(
        least(
            "
            node n1 cpu=8 memory=8Gi
            node n2 cpu=8 memory=8Gi
            node n3 cpu=8 memory=8Gi
            job a cpu=4 memory=2Gi on n1
            job b cpu=7 memory=7Gi on n2
            job x cpu=1 memory=1Gi
        "
        ),
        // Free: 37 % of its cores and 62 % of its memory; nothing; 87 % of both.
        [49, 0, 87]
    );
    // Pods without requests count as 0.1 cores and 200 MiB; a node without memory counts by its
    // cores.
    assert_eq!(
        least(
            "
            node n1 cpu=1 memory=2000Mi
            node n2 cpu=1 memory=2000Mi
            node n3 cpu=1 memory=0
            job a on n1
            job b releasing on n1
            job x cpu=0.5 memory=0
        "
        ),
        [55, 75, 50]
    );
    assert_eq!(least("\nnode n1 cpu=1 memory=2000Mi\njob x"), [90]);
    assert_eq!(least("\nnode n1 cpu=1 memory=2000Mi\njob a on n1\njob x"), [80]);
}

#[test]
fn balanced_allocation_prefers_nodes_whose_cpu_and_memory_use_become_more_equal() {
    let balanced = |text: &str| scores("BalancedAllocation", text);
    assert_eq!(
        balanced(
            "
            node n1 cpu=8 memory=8Gi
            node n2 cpu=8 memory=8Gi
            node n3 cpu=8 memory=8Gi
            node n4 cpu=8 memory=0
            job a cpu=4 memory=1Gi on n1
            job b cpu=1 memory=5Gi on n2
            job x cpu=2 memory=0
        "
        ),
        // Balance with and without the pod: 68 and 81; 87 and 75; 87 and 100; 100 and 100.
        [68, 81, 68, 75]
    );
    assert_eq!(balanced("\nnode n1 cpu=8 memory=8Gi\njob x memory=4Gi"), [62]);
    assert_eq!(balanced("\nnode n1 cpu=8 memory=8Gi\njob x"), [], "the pod requests neither");
}

#[test]
fn taint_toleration_prefers_fewer_untolerated_taints() {
    let cluster = "
        node n1 taint a=b:PreferNoSchedule taint c=d:PreferNoSchedule taint e=f:PreferNoSchedule
        node n2 taint a=b:PreferNoSchedule
        node n3
        node n4 taint c=d:PreferNoSchedule taint k=l:NoSchedule
    ";
    let of = |pod: &str| scores("TaintToleration", &format!("{cluster}\n{pod}"));
    assert_eq!(of("job x tolerates k"), [0, 3 * (100 - 33), 300, 3 * (100 - 33)]);
    assert_eq!(of("job x tolerates a=b"), [0, 300, 300]);
    assert_eq!(of("job x tolerates a=c"), [0, 3 * (100 - 33), 300]);
    assert_eq!(of("job x tolerates a=b:NoSchedule"), [0, 3 * (100 - 33), 300]);
    assert_eq!(scores("TaintToleration", "\nnode n1\njob x"), [300]);
}

#[test]
fn node_affinity_prefers_a_larger_sum_of_weights() {
    let affinity = |text: &str| scores("NodeAffinity", text);
    assert_eq!(
        affinity(
            "
            node n1 label zone=a
            node n2 label kind=fast
            node n3 label zone=a label kind=fast
            node n4
            job x prefers zone=a:10 prefers kind=fast:30
        "
        ),
        [2 * 25, 2 * 75, 2 * 100, 0]
    );
    assert_eq!(affinity("\nnode n1\njob x prefers zone=a:10"), [0]);
}

#[test]
fn an_image_counts_by_its_size_and_by_the_part_of_nodes_that_have_it() {
    // An image of the table has 1 GiB; up to 23 MiB score 0, 1000 MiB per container score the
    // maximum.
    let images = |text: &str| scores("ImageLocality", text);
    assert_eq!(
        images(
            "
            node n1 image a
            node n2 image a image b
            node n3
            node n4
            job x image a image b
        "
        ),
        [100 * (512 - 23) / (2000 - 23), 100 * (512 + 256 - 23) / (2000 - 23), 0, 0]
    );
    assert_eq!(images("\nnode n1 image a\njob x image a"), [100]);
    assert_eq!(images("\nnode n1 image b\njob x image a"), []);
}

#[test]
fn inter_pod_affinity_scores_terms_of_both_pods() {
    let affinity = |text: &str| scores("InterPodAffinity", text);
    assert_eq!(
        affinity(
            "
            node n1 label zone=a
            node n2 label zone=a
            node n3 label zone=b
            node n4
            job a label app=x on n1
            job b label app=x on n2
            job c label app=x on n3
            job d label app=y on n3
            job x likes app=x/zone likes app=y/zone
        "
        ),
        [200, 200, 200, 0],
        "two of x in zone a, one of x and one of y in zone b"
    );
    assert_eq!(
        affinity(
            "
            node n1
            node n2
            node n3
            job a likes app=x/host on n1
            job b near app=x/host on n2
            job x label app=x
        "
        ),
        [200, 2, 0],
        "a required term counts a hundredth of a preferred one"
    );
    assert_eq!(affinity("\nnode n1\njob a label app=y on n1\njob x likes app=x/host"), []);
}

#[test]
fn topology_spread_prefers_domains_with_fewer_matching_pods() {
    let spread = |text: &str| scores("PodTopologySpread", text);
    // Three hosts weigh ln 5: 3, 2 and 0 matching pods are 5, 3 and 0 with a skew of 1.
    let hosts = "
        node n1
        node n2
        node n3
        job a pods=3 label app=x on n1 n1 n1
        job b pods=2 label app=x on n2 n2
        job c pods=2 label app=y on n3 n3
        job x label app=x evenly app=x/host/1
    ";
    assert_eq!(spread(hosts), [0, 2 * (100 * (5 - 3) / 5), 200]);
    // Two zones weigh ln 4: 3 and 1 matching pods are 4 and 1; a node without a zone scores 0.
    let zones = "
        node n1 label zone=a
        node n2 label zone=a
        node n3 label zone=b
        node n4
        job a pods=3 label app=x on n1 n1 n2
        job b label app=x on n3
        job x label app=x evenly app=x/zone/1
    ";
    assert_eq!(spread(zones), [2 * 25, 2 * 25, 2 * 100, 0]);
    assert_eq!(spread("\nnode n1\nnode n2\njob x label app=x evenly app=x/host/1"), [200, 200]);
}

#[test]
fn a_replica_set_spreads_over_hosts_and_zones_by_default() {
    let spread = |text: &str| scores("PodTopologySpread", text);
    // Hosts weigh ln 5 and have a skew of 3, zones weigh ln 4 and have a skew of 5.
    let cluster = "
        node n1 label topology.kubernetes.io/zone=a
        node n2 label topology.kubernetes.io/zone=a
        node n3 label topology.kubernetes.io/zone=b
        job a pods=3 label pod-template-hash=h on n1 n1 n3
        job other label pod-template-hash=i on n2
        job x label pod-template-hash=h
    ";
    // 2 ln 5 + 2 and 2 ln 4 + 4 are 12; 0 + 2 and 2 ln 4 + 4, 9; ln 5 + 2 and ln 4 + 4, 9.
    assert_eq!(spread(cluster), [2 * (100 * 9 / 12), 2 * 100, 2 * 100]);
    assert_eq!(spread("\nnode n1\njob x label app=h"), []);
    let numbered = "
        node n1
        node n2
        job a label controller-revision-hash=h label apps.kubernetes.io/pod-index=0 on n1
        job x label controller-revision-hash=h label apps.kubernetes.io/pod-index=1
    ";
    // ln 4 + 2 and 2, rounded; a node without a zone is included.
    assert_eq!(spread(numbered), [2 * (100 * 2 / 3), 200]);
}

/// The cluster, with a changed spread constraint of pod `x`.
fn spread_with(text: &str, change: impl Fn(&mut TopologySpread)) -> Snapshot {
    let mut snapshot = kube_snapshot_of(text);
    let shapes = snapshot.shapes.iter_mut();
    shapes.flat_map(|shape| &mut shape.topology_spread).for_each(change);
    snapshot
}

#[test]
fn a_spread_counts_pods_on_the_nodes_that_its_policies_name() {
    let cluster = "
        node n1 label zone=a label kind=x
        node n2 label zone=a label kind=y taint dedicated=z:NoSchedule
        node n3 label zone=b label kind=x
        job there pods=2 label app=x on n2 n2
        job here label app=x on n3
        job x label app=x evenly app=x/zone/1 needs kind=x
    ";
    let spread = |affinity, taints| {
        let changed = spread_with(cluster, |spread| {
            (spread.node_affinity_policy, spread.node_taints_policy) = (affinity, taints);
        });
        scores_in("PodTopologySpread", &changed)
    };
    // Zones a and b have 0 and 1 matching pods, or 2 and 1.
    assert_eq!(spread(Inclusion::Honor, Inclusion::Ignore), [200, 0]);
    assert_eq!(spread(Inclusion::Honor, Inclusion::Honor), [200, 0]);
    assert_eq!(spread(Inclusion::Ignore, Inclusion::Honor), [200, 0]);
    assert_eq!(spread(Inclusion::Ignore, Inclusion::Ignore), [2 * 33, 200]);
}

#[test]
fn max_skew_and_min_domains_bound_the_pods_of_a_domain() {
    let cluster = "
        node n1 label zone=a
        node n2 label zone=b
        node n3
        job a pods=2 label app=x on n1 n1
        job b label app=x on n2
        job y label app=y on n2
        job x label app=x spread app=x/zone/1
    ";
    let takes = |max_skew, min_domains| {
        let changed = spread_with(cluster, |spread| {
            (spread.max_skew, spread.min_domains) = (max_skew, min_domains);
        });
        let (profile, count) = (Profile::kube(), changed.pods.len());
        let session = Session::new(&changed, &profile);
        let pod =
            (0..count).find(|at| &*changed.pods[*at].name == "x").expect("the cluster has pod x");
        let pod = PodId(u32::try_from(pod).expect("ids are 32 bits"));
        session.node_ids().map(|node| session.fit(pod, node).is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(takes(1, None), [false, true, false]);
    assert_eq!(takes(2, None), [true, true, false]);
    assert_eq!(takes(2, Some(2)), [true, true, false]);
    assert_eq!(takes(2, Some(3)), [false, true, false]);
    assert_eq!(takes(1, Some(3)), [false, false, false]);
}

/// One point of a KAI score.
const POINT: i128 = 1_000_000_000;

/// The scores of profile `kai` with this placement strategy.
fn kai_scores(placement: Placement, plugin: &str, text: &str) -> Vec<i128> {
    let profile = Profile { gpu_placement: placement, cpu_placement: placement, ..Profile::kai() };
    scores_by(&profile, plugin, &snapshot_of(text))
}

#[test]
fn placement_compares_gpus_or_for_cpu_jobs_cores() {
    let cluster = "
        node n1 gpus=4 cpu=8
        node n2 gpus=8 cpu=8
        node n3 gpus=8 cpu=8
        job a gpus=2 cpu=6 on n1
        job b gpus=1 cpu=2 releasing on n1
        job c gpus=6 cpu=1 on n2
    ";
    let of = |placement, request: &str| {
        kai_scores(placement, "ResourcePlacement", &format!("{cluster}\njob x {request}"))
    };
    let packed = |free: [i128; 3]| free.map(|free| 9 * POINT - free).to_vec();
    assert_eq!(of(Placement::BinPack, "gpus=1"), packed([2000, 2000, 8000]));
    assert_eq!(of(Placement::BinPack, "part=0.5"), packed([2000, 2000, 8000]));
    assert_eq!(of(Placement::BinPack, "cpu=0"), packed([2000, 7000, 8000]));
    assert_eq!(of(Placement::Spread, "gpus=1"), [POINT / 2, POINT / 4, POINT]);
    assert_eq!(of(Placement::Spread, "cpu=0"), [POINT / 4, POINT * 7 / 8, POINT]);
    // The node label gives the number of GPUs, whatever is allocatable.
    let labelled = ["8", "0", "many"]
        .map(|count| format!("node n gpus=7 label nvidia.com/gpu.count={count}\njob x gpus=1"));
    let of = |text: &String| kai_scores(Placement::Spread, "ResourcePlacement", text);
    assert_eq!(labelled.each_ref().map(of), [[POINT * 7 / 8], [0], [POINT]]);
}

#[test]
fn spreading_counts_the_free_fractions_of_shared_devices() {
    let cluster = "
        node n1 gpus=2 gpu-memory=1000
        node n2 gpus=2 gpu-memory=1000
        node n3 gpus=2 gpu-memory=1000
        node n4 gpus=2 gpu-memory=1000
        job a part=0.6 on n1/g1
        job b part=0.3 on n2/g1
        job c part=0.3 on n3/g1
        job d part=0.2 releasing on n3/g1
        job e part=0.3 releasing on n4/g1
    ";
    let of = |placement, request: &str| {
        kai_scores(placement, "ResourcePlacement", &format!("{cluster}\njob x {request}"))
    };
    let tenths = |tenths: i128| tenths * POINT / 20;
    let left = [tenths(14), tenths(17), tenths(17), tenths(20)];
    assert_eq!(of(Placement::Spread, "part=0.1"), left);
    assert_eq!(of(Placement::Spread, "gpus=1"), left);
    let packed = [1000, 1000, 1000, 2000].map(|free| 9 * POINT - free);
    assert_eq!(of(Placement::BinPack, "part=0.1"), packed, "whole devices only");
}

#[test]
fn a_nomination_outweighs_shared_devices_and_those_outweigh_the_kind_of_node() {
    let of = |plugin: &str, text: &str| kai_scores(Placement::BinPack, plugin, text);
    let cluster = "
        node n1 gpus=2
        node n2 gpus=2
        node n3
        job a part=0.5 on n2/g1
    ";
    let output = |plugin: &str, request: &str| of(plugin, &format!("{cluster}\njob x {request}"));
    assert_eq!(output("NominatedNode", "nominated=n2"), [0, 10_000_000 * POINT, 0]);
    assert_eq!(output("NominatedNode", ""), []);
    assert_eq!(output("SharedDevicesFirst", "part=0.5"), [0, 10_000 * POINT]);
    assert_eq!(output("SharedDevicesFirst", "part=0.6"), [0, 0]);
    assert_eq!(
        output("SharedDevicesFirst", "part=0.5 devices=2"),
        [0, 10_000 * POINT],
        "one of several devices is enough"
    );
    assert_eq!(output("SharedDevicesFirst", "gpus=1"), []);
    assert_eq!(output("NodeAvailability", "gpus=1"), [1_000 * POINT, 1_000 * POINT]);
    assert_eq!(output("NodeResourceType", "cpu=1"), [0, 0, 10 * POINT]);
    assert_eq!(output("NodeResourceType", "gpus=1"), []);
    let spread = format!("{cluster}\njob x part=0.5");
    assert_eq!(kai_scores(Placement::Spread, "SharedDevicesFirst", &spread), []);
}

#[test]
fn kai_pod_affinity_adds_weights_and_ignores_required_terms() {
    let output = |text: &str| kai_scores(Placement::BinPack, "KaiPodAffinity", text);
    let cluster = "
        node n1
        node n2
        node n3
        job a label app=x likes app=x/host on n1
        job b label app=x near app=x/host on n2
    ";
    let weight = |likes: i128| likes * 100 * 1_000_000 * POINT;
    assert_eq!(
        output(&format!("{cluster}\njob x label app=x likes app=x/host")),
        [weight(2), weight(1), 0],
        "on n1 both like each other, on n2 the one that comes"
    );
    assert_eq!(output(&format!("{cluster}\njob x label app=x")), [weight(1), 0, 0]);
    assert_eq!(output("\nnode n1\njob b label app=x near app=x/host on n1\njob x label app=x"), []);
}

#[test]
fn pod_preferences_count_only_with_plugin_podaffinity() {
    let without = |plugin: &str| {
        let mut profile = Profile::kai();
        profile.plugins = Plugins::kai_with_active(|name| name != plugin);
        let text = "
            node n1
            node n2
            job a label app=x on n2
            job x likes app=x/host
        ";
        scores_by(&profile, "KaiPodAffinity", &snapshot_of(text)).len()
    };
    assert_eq!((without("podaffinity"), without("predicates")), (0, 2));
}

#[test]
fn numa_prefers_fewer_zones_and_assumes_all_without_alignment() {
    let cluster = "
        node n1 cpu=8 numa=best-effort/pod zone z0:cpu=4 zone z1:cpu=4
        node n2 cpu=8 numa=restricted/pod zone z0:cpu=2 zone z1:cpu=2 zone z2:cpu=2 zone z3:cpu=2
        node n3 cpu=8 numa=none/pod zone z0:cpu=4 zone z1:cpu=4
        node n4 cpu=8
        job x cpu=4
    ";
    let numa = |request: &str| {
        kai_scores(Placement::BinPack, "Numa", &cluster.replace("job x cpu=4", request))
    };
    assert_eq!(numa("job x cpu=4 guaranteed"), [100 * POINT, 50 * POINT, 50 * POINT, 25 * POINT]);
    assert_eq!(numa("job x cpu=4"), []);
}

#[test]
fn fragmentation_prefers_nodes_that_lose_less_usable_gpu() {
    let of = |text: &str| kai_scores(Placement::LeastFragmentation, "ResourcePlacement", text);
    // A thousandth of a GPU that is lost to the pods on average costs a ten-thousandth of a point.
    let lost = |milli: i128, pods: i128| 9 * POINT / 2 - milli * POINT / 10_000 / pods;
    let shared = "
        node n1 gpus=1 cpu=8
        node n2 gpus=1 cpu=8
        job a part=0.5 cpu=1 on n2/g1
        job x part=0.5 cpu=1
    ";
    assert_eq!(of(shared), [lost(0, 2); 2], "only halves are free");
    // For a pod with a whole GPU, the idle half of n2 was lost before (as too small, and as
    // remainder), and the other device would be lost, too.
    let whole = format!("{shared}\njob w gpus=1 cpu=1");
    assert_eq!(of(&whole), [lost(1000, 3), lost(-1000, 3)]);
    // Two cores would be left for a device that needs three: it is too small for one pod, and lost
    // as remainder; the second device of n2 is still usable.
    let cores = "
        node n1 gpus=2 cpu=5
        node n2 gpus=2 cpu=8
        job x gpus=1 cpu=3
    ";
    assert_eq!(of(cores), [lost(1000, 1), lost(0, 1)]);
    let memory = "
        node n1 gpus=2 memory=5Gi
        node n2 gpus=2 memory=8Gi
        job x gpus=1 memory=3Gi
    ";
    assert_eq!(of(memory), [lost(1000, 1), lost(0, 1)]);
}

#[test]
fn fragmentation_keeps_cores_for_gpus() {
    let text = "
        node n1 gpus=2 cpu=8
        node n2 gpus=2 cpu=8
        job a gpus=2 cpu=2 on n2
        job w gpus=1 cpu=4
        job x cpu=6
    ";
    let output = kai_scores(Placement::LeastFragmentation, "ResourcePlacement", text);
    // Both devices of n1 would be lost to w, twice as two; to a, they were usable as a pair.
    let lost = |milli: i128| 9 * POINT / 2 - milli * POINT / 10_000 / 2;
    assert_eq!(output, [lost(4000), lost(0)]);
}

#[test]
fn fragmentation_counts_fractions_and_memory_by_device() {
    let text = "
        node n1 gpus=3 gpu-memory=8000
        node n2 gpus=3 gpu-memory=4000
        job a part=0.6 on n1/g1
        job x part-memory=3200 devices=2
    ";
    let output = kai_scores(Placement::LeastFragmentation, "ResourcePlacement", text);
    // n1 has 0.4, 1 and 1 free, and x takes 0.4 of two devices: 0.6 and 1 are left. n2 has three
    // free devices, and x takes 0.8 of two: 0.2, 0.2 and 1 are left.
    let lost = |to_a: i128, to_x: i128| 9 * POINT / 2 - (to_a + to_x) * POINT / 10_000 / 2;
    let before_a = (400) + (2400 - 2 * 600);
    let after_a = 1600 - 2 * 600;
    let before_x = 2400 - 2 * 800;
    let after_x = 1600 - 800;
    let on_n1 = lost(after_a - before_a, after_x - before_x);
    let (before_a, after_a) = (3000 - 3 * 600, 400 + 1400 - 600);
    let (before_x, after_x) = (3000 - 1600, 1400 + 1400);
    let on_n2 = lost(after_a - before_a, after_x - before_x);
    assert_eq!(output, [on_n1, on_n2]);
}

#[test]
fn dynamic_resources_prefers_nodes_where_claims_get_their_first_alternative() {
    let text = "
        node n1 device d0:any
        node n2 device d0:any,big
        job x template big|any
    ";
    // The first of at most 8 alternatives counts 8, the second 7; weight 2.
    assert_eq!(scores("DynamicResources", text), [174, 200]);
}
