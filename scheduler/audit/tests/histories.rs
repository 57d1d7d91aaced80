//! The rules of the audit, tested with histories of raw API objects: for each rule, histories that
//! violate it, and similar ones that do not.

#[path = "histories/claims.rs"]
mod claims;
#[path = "histories/history.rs"]
mod history;

use history::{
    first_violation_in_full, violations_in, violations_in_real_time, violations_under_kube,
};
use insta::assert_snapshot;

const CLUSTER: &str = "
    +0s node n1 gpus=2
    +0s node n2 gpus=2
    +0s queue dept quota=4 limit=4
    +0s queue q parent=dept quota=2 limit=-1
    +0s queue r parent=dept quota=2 limit=-1
";

fn violations(history: &str) -> String {
    violations_in(&format!("{CLUSTER}{history}"))
}

#[test]
fn pods_on_a_node_do_not_exceed_its_capacity() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +0s pod b group=g gpus=1
        +1s bind a n1
        +2s bind b n1
    ";
    assert_snapshot!(violations(history), @"rule 1 (capacity): with pod default/b, pods on node n1 request 3 nvidia.com/gpu; the node has 2");
}

#[test]
fn capacity_is_released_when_a_pod_finishes_but_not_while_it_terminates() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +0s pod b group=g gpus=2
        +1s bind a n1
        +9s finish a
        +9s bind b n1
    ";
    assert_eq!(violations(history), "");
    let terminating = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +0s pod b group=g gpus=2
        +1s bind a n1
        +8s evict a
        +9s bind b n1
    ";
    assert_snapshot!(violations(terminating), @"rule 1 (capacity): with pod default/b, pods on node n1 request 4 nvidia.com/gpu; the node has 2");
}

#[test]
fn no_device_is_allocated_twice_or_out_of_range() {
    let twice = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +1s bind a n1
        +1s devices a 0
        +2s bind b n1
        +2s devices b 0
    ";
    assert_snapshot!(violations(twice), @"rule 2 (devices): pod default/b was given GPU 0 of node n1, which pod default/a has");
    let invented = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +1s bind a n1
        +1s devices a 1,2
    ";
    assert_snapshot!(violations(invented), @"rule 2 (devices): pod default/a was given GPU 2 of node n1, which has 2");
    let too_few = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +1s bind a n1
        +1s devices a 1
    ";
    assert_snapshot!(violations(too_few), @"rule 2 (devices): pod default/a was given 1 GPUs and requests 2");
}

#[test]
fn a_device_of_a_deleted_pod_may_be_allocated_again() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +1s bind a n1
        +1s devices a 0
        +2s delete a
        +2s bind b n1
        +2s devices b 0
    ";
    assert_eq!(violations(history), "");
}

#[test]
fn a_pod_is_bound_once() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +1s bind a n1
        +2s bind a n2
    ";
    assert_snapshot!(violations(history), @"rule 3 (valid binding): pod default/a is on node n1 and was bound again, to n2");
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +1s bind a n1
        +2s delete a
        +2s pod a group=g gpus=1
        +3s bind a n2
    ";
    assert_eq!(violations(history), "");
}

#[test]
fn a_pod_is_bound_only_to_a_feasible_node() {
    let history = "
        +0s node cordoned gpus=2 cordoned
        +0s node broken gpus=2 notready
        +0s node tainted gpus=2 taint=team
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +0s pod c group=g gpus=1
        +0s pod d group=g gpus=1 selector=zone:a
        +1s bind a cordoned
        +2s bind b broken
        +3s bind c tainted
        +4s bind d n1
    ";
    assert_snapshot!(violations(history), @"
    rule 3 (valid binding): pod default/a was bound to node cordoned, which is cordoned
    rule 3 (valid binding): pod default/b was bound to node broken, which is not ready
    rule 3 (valid binding): pod default/c was bound to node tainted, whose taint team the pod does not tolerate
    rule 3 (valid binding): pod default/d was bound to node n1, which lacks the label zone=a of the pod's node selector
    ");
}

#[test]
fn tolerations_and_labels_make_nodes_feasible() {
    let history = "
        +0s node special gpus=2 taint=team label=zone:a
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1 tolerates=team selector=zone:a
        +1s bind a special
    ";
    assert_eq!(violations(history), "");
}

#[test]
fn a_gated_or_terminating_pod_is_not_bound() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1 gated
        +0s pod b group=g gpus=1
        +1s bind a n1
        +2s cancel b
        +3s bind b n1
    ";
    assert_snapshot!(violations(history), @"
    rule 3 (valid binding): pod default/a was bound to n1, but it has scheduling gates
    rule 3 (valid binding): pod default/b was bound to n1, but it is being deleted
    ");
}

#[test]
fn a_cordon_at_the_time_of_the_binding_is_no_violation() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +1s node n1 gpus=2 cordoned
        +1s bind a n1
    ";
    assert_eq!(violations(history), "");
}

#[test]
fn no_pod_is_bound_to_a_deleted_node() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +1s remove n1
        +2s bind a n1
    ";
    assert_snapshot!(violations(history), @"rule 22 (no bind to a deleted node): pod default/a was bound to node n1, which does not exist");
    let added_again = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +1s remove n1
        +2s node n1 gpus=2
        +3s bind a n1
    ";
    assert_eq!(violations(added_again), "");
}

#[test]
fn a_gang_is_bound_at_once() {
    let history = "
        +0s group g queue=q min=2
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +1s bind a n1
        +2s bind b n1
    ";
    assert_snapshot!(violations(history), @"rule 4 (gang atomicity): gang default/g was bound in part: 1 of 2 required pods bound");
    assert_eq!(violations(&history.replace("+2s", "+1s")), "");
}

#[test]
fn a_gang_may_be_bound_without_members_whose_binding_the_api_server_refuses() {
    let history = "
        +0s group g queue=q min=2
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +1s bind a n1
        +1s refuse b
        +9s rest
    ";
    assert_eq!(violations(history), "");
    let too_late = history.replace("+1s refuse", "+3s refuse");
    assert_snapshot!(violations(&too_late), @"rule 4 (gang atomicity): gang default/g was bound in part: 1 of 2 required pods bound");
    let third = history.replace("min=2", "min=3\n+0s pod c group=g gpus=1");
    assert_snapshot!(violations(&third), @r"
    rule 4 (gang atomicity): gang default/g was bound in part: 2 of 3 required pods bound
    rule 4 (gang atomicity): gang default/g stays bound in part: 2 of 3 required pods bound
    ");
}

#[test]
fn each_sub_group_of_a_gang_needs_its_minimum() {
    let history = "
        +0s group g queue=q parts=leader:1,worker:2
        +0s pod l group=g part=leader gpus=1
        +0s pod w group=g part=worker gpus=1
        +0s pod v group=g part=worker gpus=1
        +1s bind l n1
        +1s bind w n1
    ";
    assert_snapshot!(violations(history), @"rule 4 (gang atomicity): gang default/g was bound in part: 1 of 2 required pods of sub-group worker bound");
    assert_eq!(violations(&format!("{history}\n+1s bind v n2")), "");
}

#[test]
fn a_sub_group_is_not_bound_without_the_others() {
    let history = "
        +0s group g queue=q parts=leader:1,worker:1
        +0s pod l group=g part=leader gpus=1
        +1s bind l n1
    ";
    assert_snapshot!(violations(history), @"rule 4 (gang atomicity): gang default/g was bound in part: 1 of 2 required sub-groups whole");
    assert_eq!(violations(&history.replace("queue=q", "queue=q minparts=1")), "");
}

#[test]
fn an_elastic_gang_grows_pod_by_pod_and_a_failed_member_is_replaced() {
    let history = "
        +0s group g queue=q min=2
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +0s pod c group=g gpus=1
        +1s bind a n1
        +1s bind b n1
        +2s bind c n2
        +3s fail a
        +3s fail b
        +4s pod d group=g gpus=1
        +5s bind d n1
        +6s rest
    ";
    assert_eq!(violations(history), "");
}

#[test]
fn a_gang_bound_in_part_before_a_crash_is_completed_or_evicted() {
    let history = "
        +0s group g queue=q min=2
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +1s bind a n1
        +1s kill
    ";
    assert_eq!(violations(&format!("{history}\n+3s bind b n1\n+9s rest")), "");
    assert_eq!(violations(&format!("{history}\n+3s evict a\n+9s rest")), "");
    assert_snapshot!(violations(&format!("{history}\n+9s rest")), @"rule 4 (gang atomicity): gang default/g stays bound in part: 1 of 2 required pods bound");
}

#[test]
fn a_limit_holds_at_every_queue_level() {
    let leaf = "
        +0s queue q parent=dept quota=0 limit=1
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +1s bind a n1
    ";
    assert_snapshot!(violations(leaf), @"rule 5 (quota and limit): with pod default/a, queue q uses 2 nvidia.com/gpu; its limit is 1");
    let above = "
        +0s queue dept quota=4 limit=1
        +0s group g queue=q min=1
        +0s group h queue=r min=1
        +0s pod a group=g gpus=1
        +0s pod b group=h gpus=1
        +1s bind a n1
        +2s bind b n1
    ";
    assert_snapshot!(violations(above), @"rule 5 (quota and limit): with pod default/b, queue dept uses 2 nvidia.com/gpu; its limit is 1");
}

#[test]
fn non_preemptible_work_stays_within_quota_and_other_work_may_borrow() {
    let history = "
        +0s queue q parent=dept quota=1 limit=-1
        +0s group g queue=q min=1 class=build
        +0s pod a group=g gpus=2
        +1s bind a n1
    ";
    assert_snapshot!(violations(history), @"rule 5 (quota and limit): with pod default/a, non-preemptible pods of queue q use 2 nvidia.com/gpu; its quota is 1");
    assert_eq!(violations(&history.replace("class=build", "class=train")), "");
}

#[test]
fn a_quota_may_be_edited_below_its_use() {
    let history = "
        +0s group g queue=q min=1 class=build
        +0s pod a group=g gpus=2
        +1s bind a n1
        +2s queue q parent=dept quota=1 limit=1
        +3s rest
    ";
    assert_eq!(violations(history), "");
}

#[test]
fn the_status_of_a_queue_equals_the_sum_of_its_pods_at_rest() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +1s bind a n1
        +2s status q gpus=1
        +2s status dept gpus=2
        +3s rest
    ";
    assert_snapshot!(violations(history), @"rule 6 (queue status): status of queue q reports 1 nvidia.com/gpu in use; its bound pods use 2");
    assert_eq!(violations(&history.replace("status q gpus=1", "status q gpus=2")), "");
}

#[test]
fn no_request_is_negative() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=-1
        +1s bind a n1
    ";
    assert_snapshot!(violations(history), @"rule 29 (no negative amounts): pod default/a requests -1 nvidia.com/gpu and was bound");
}

#[test]
fn only_preemptible_pods_are_evicted() {
    let history = "
        +0s group g queue=q min=1 class=build
        +0s pod a group=g gpus=2
        +1s bind a n1
        +2s evict a
    ";
    assert_snapshot!(violations(history), @"rule 9 (valid victim): pod default/a was evicted, but it is not preemptible and its gang is whole");
    assert_eq!(violations(&history.replace("class=build", "class=train")), "");
    assert_eq!(violations(&history.replace("evict a", "cancel a")), "", "a user may delete it");
}

#[test]
fn the_announced_preemptor_of_a_victim_may_evict_it() {
    let history = "
        +0s group g queue=q min=1
        +0s group h queue=r min=1
        +0s pod a group=g gpus=2
        +0s pod b group=h gpus=2
        +1s bind a n1
    ";
    let with_cause = |cause| violations(&format!("{history}\n+2s disrupt a {cause}"));
    assert_eq!(with_cause("reclaim default/h"), "");
    assert_snapshot!(with_cause("reclaim default/g"), @"rule 9 (valid victim): pod default/a was evicted for default/g, its own job");
    assert_snapshot!(with_cause("preempt default/h"), @"rule 9 (valid victim): pod default/a was evicted for default/h, which is in queue r, not in the victim's queue q: priority counts within one queue");
}

#[test]
fn an_eviction_without_a_known_cause_is_a_violation() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +1s bind a n1
    ";
    let with_cause = |cause| violations(&format!("{history}\n+2s disrupt a {cause}"));
    assert_eq!(with_cause("stalegangeviction"), "");
    assert_snapshot!(with_cause(""), @r#"rule 9 (valid victim): the cause of the eviction of pod default/a is unknown: no event of a pod group has the annotation evictor-action-type and the message "Pod default/a was evicted: ""#);
    assert_snapshot!(with_cause("defragment default/h"), @r#"rule 9 (valid victim): the cause of the eviction of pod default/a is unknown: annotation evictor-action-type: got "defragment", expected reclaim, preempt, consolidation or stalegangeviction"#);
    assert_snapshot!(with_cause("reclaim"), @r#"rule 9 (valid victim): the cause of the eviction of pod default/a is unknown: the event with evictor-action-type "reclaim" lacks evictor-pod-group-name or evictor-pod-group-namespace"#);
}

#[test]
fn a_stale_gang_may_be_evicted_even_if_non_preemptible() {
    let history = "
        +0s group g queue=q min=2 class=build
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +1s bind a n1
        +1s bind b n1
        +2s fail a
        +62s evict b
    ";
    assert_eq!(violations(history), "");
}

#[test]
fn a_gang_is_evicted_whole_or_down_to_its_minimum() {
    let history = "
        +0s group g queue=q min=2
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +0s pod c group=g gpus=1
        +1s bind a n1
        +1s bind b n1
        +1s bind c n2
        +2s evict c
        +3s evict b
    ";
    assert_snapshot!(violations(history), @"rule 12 (whole-gang eviction): gang default/g was evicted in part: 1 of 2 required pods bound");
    assert_eq!(violations(&format!("{history}\n+3s evict a")), "");
}

/// Four pods in real time: the writes of one decision follow each other within a few seconds.
const SLOW: &str = "
    +0s group g queue=q min=3
    +0s pod a group=g gpus=1
    +0s pod b group=g gpus=1
    +0s pod c group=g gpus=1
    +0s pod d group=g gpus=1
    +4s bind a n1
    +5.5s bind b n1
    +9s bind c n2
    +9.5s bind d n2
    +22s evict a
    +24s evict b
    +26s evict c
    +28s evict d
";

fn slow_violations(history: &str) -> String {
    violations_in_real_time(&format!("{CLUSTER}{history}"))
}

#[test]
fn in_real_time_a_gang_may_be_bound_and_evicted_by_several_writes() {
    assert_eq!(slow_violations(SLOW), "");
    assert_snapshot!(violations(SLOW), @"
    rule 4 (gang atomicity): gang default/g was bound in part: 1 of 3 required pods bound
    rule 4 (gang atomicity): gang default/g was bound in part: 2 of 3 required pods bound
    rule 12 (whole-gang eviction): gang default/g was evicted in part: 2 of 3 required pods bound
    rule 12 (whole-gang eviction): gang default/g was evicted in part: 1 of 3 required pods bound
    ");
}

#[test]
fn in_real_time_a_gang_that_stays_partial_is_a_violation() {
    let only_two = SLOW.replace("+26s evict c", "").replace("+28s evict d", "");
    assert_snapshot!(slow_violations(&only_two), @"rule 12 (whole-gang eviction): gang default/g was evicted in part: 2 of 3 required pods bound");
    let later = SLOW.replace("+26s", "+30s").replace("+28s", "+30s");
    assert_snapshot!(slow_violations(&later), @"rule 12 (whole-gang eviction): gang default/g was evicted in part: 2 of 3 required pods bound");
    let bound = SLOW.replace("+9s", "+12s").replace("+9.5s", "+12s");
    assert_snapshot!(slow_violations(&bound), @"rule 4 (gang atomicity): gang default/g was bound in part: 2 of 3 required pods bound");
    let at_rest = SLOW.replace("+28s evict d", "+26s rest");
    assert_snapshot!(slow_violations(&at_rest), @"rule 12 (whole-gang eviction): gang default/g was evicted in part: 1 of 3 required pods bound");
}

/// Enough cycles for the audit to check the gangs.
const CYCLES: &str = "+0s cycle\n+0s cycle\n+0s cycle\n";

#[test]
fn the_writes_of_an_unfinished_cycle_may_take_any_time() {
    let slower = SLOW.replace("+26s", "+36s").replace("+28s", "+47s");
    let slower = slower.replace("+22s evict a", &format!("{CYCLES}+22s evict a"));
    assert_eq!(slow_violations(&format!("{slower}{CYCLES}")), "");
    let ended = slower.replace("+36s evict c", &format!("{CYCLES}+36s evict c"));
    assert_snapshot!(slow_violations(&ended), @"rule 12 (whole-gang eviction): gang default/g was evicted in part: 2 of 3 required pods bound");
}

#[test]
fn gang_and_queue_rules_do_not_apply_to_kube_scheduler() {
    let history = "
        +0s node n1 gpus=2
        +0s queue q quota=0 limit=0
        +0s group g queue=q min=2 class=build
        +0s pod a group=g gpus=1
        +1s bind a n1
        +2s evict a
    ";
    assert_eq!(violations_under_kube(history), "");
}

#[test]
fn a_violation_shows_its_history() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +0s pod b group=g gpus=1
        +1s bind a n1
        +1s devices a 0,1
        +61.5s bind b n1
    ";
    assert_snapshot!(first_violation_in_full(&format!("{CLUSTER}{history}")), @"
    rule 1 (capacity) was violated at +1m01.5s: with pod default/b, pods on node n1 request 3 nvidia.com/gpu; the node has 2
      history:
              +0s r1     node n1 created, is ready (by admin)
              +0s r8     pod default/b created (by admin)
              +1s r9     pod default/a bound to n1 (by kai-scheduler)
              +1s r10    pod default/a has GPU 0,1 (by kubelet)
         +1m01.5s r11    pod default/b bound to n1 (by kai-scheduler)
    ");
}
