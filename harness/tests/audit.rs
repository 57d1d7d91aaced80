//! Every rule of the audit, by histories of raw API objects: one that breaks it and is caught,
//! one that looks like it and is legal.

#[path = "audit/claims.rs"]
mod claims;
#[path = "audit/history.rs"]
mod history;

use history::{breaches_in_real_time, breaches_of, breaches_under_kube, first_breach_in_full};
use insta::assert_snapshot;

const LAB: &str = "
    +0s node n1 gpus=2
    +0s node n2 gpus=2
    +0s queue dept quota=4 limit=4
    +0s queue q parent=dept quota=2 limit=-1
    +0s queue r parent=dept quota=2 limit=-1
";

fn audited(history: &str) -> String {
    breaches_of(&format!("{LAB}{history}"))
}

#[test]
fn a_node_is_not_given_more_than_it_has() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +0s pod b group=g gpus=1
        +1s bind a n1
        +2s bind b n1
    ";
    assert_snapshot!(audited(history), @"rule 1 (capacity): with pod default/b, pods on node n1 ask for 3 nvidia.com/gpu; it has 2");
}

#[test]
fn room_is_free_again_when_a_pod_has_finished_and_not_while_it_leaves() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +0s pod b group=g gpus=2
        +1s bind a n1
        +9s finish a
        +9s bind b n1
    ";
    assert_eq!(audited(history), "");
    let leaving = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +0s pod b group=g gpus=2
        +1s bind a n1
        +8s evict a
        +9s bind b n1
    ";
    assert_snapshot!(audited(leaving), @"rule 1 (capacity): with pod default/b, pods on node n1 ask for 4 nvidia.com/gpu; it has 2");
}

#[test]
fn no_device_is_given_twice_or_invented() {
    let twice = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +1s bind a n1
        +1s devices a 0
        +2s bind b n1
        +2s devices b 0
    ";
    assert_snapshot!(audited(twice), @"rule 2 (devices): pod default/b was given GPU 0 of node n1, which pod default/a has");
    let invented = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +1s bind a n1
        +1s devices a 1,2
    ";
    assert_snapshot!(audited(invented), @"rule 2 (devices): pod default/a was given GPU 2 of node n1, which has 2");
    let too_few = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +1s bind a n1
        +1s devices a 1
    ";
    assert_snapshot!(audited(too_few), @"rule 2 (devices): pod default/a was given 1 GPUs and asks for 2");
}

#[test]
fn a_device_may_be_given_again_when_its_pod_is_gone() {
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
    assert_eq!(audited(history), "");
}

#[test]
fn a_pod_is_bound_once() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +1s bind a n1
        +2s bind a n2
    ";
    assert_snapshot!(audited(history), @"rule 3 (bind once, where it may run): pod default/a is on node n1 and was bound again, to n2");
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
    assert_eq!(audited(history), "");
}

#[test]
fn a_pod_is_bound_only_where_it_may_run() {
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
    assert_snapshot!(audited(history), @"
    rule 3 (bind once, where it may run): pod default/a was bound to node cordoned, which is cordoned
    rule 3 (bind once, where it may run): pod default/b was bound to node broken, which is not ready
    rule 3 (bind once, where it may run): pod default/c was bound to node tainted, whose taint team it does not tolerate
    rule 3 (bind once, where it may run): pod default/d was bound to node n1, which lacks the label zone=a of its selector
    ");
}

#[test]
fn tolerations_and_labels_open_nodes() {
    let history = "
        +0s node special gpus=2 taint=team label=zone:a
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1 tolerates=team selector=zone:a
        +1s bind a special
    ";
    assert_eq!(audited(history), "");
}

#[test]
fn a_gated_or_leaving_pod_is_not_bound() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1 gated
        +0s pod b group=g gpus=1
        +1s bind a n1
        +2s cancel b
        +3s bind b n1
    ";
    assert_snapshot!(audited(history), @"
    rule 3 (bind once, where it may run): pod default/a was bound to n1, but it has scheduling gates
    rule 3 (bind once, where it may run): pod default/b was bound to n1, but it is being deleted
    ");
}

#[test]
fn a_cordon_in_the_moment_of_the_bind_was_not_seen_yet() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +1s node n1 gpus=2 cordoned
        +1s bind a n1
    ";
    assert_eq!(audited(history), "");
}

#[test]
fn nothing_is_bound_to_a_node_that_is_gone() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +1s remove n1
        +2s bind a n1
    ";
    assert_snapshot!(audited(history), @"rule 22 (no bind to a node that is gone): pod default/a was bound to node n1, which does not exist");
    let added_again = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=1
        +1s remove n1
        +2s node n1 gpus=2
        +3s bind a n1
    ";
    assert_eq!(audited(added_again), "");
}

#[test]
fn a_gang_is_bound_within_one_moment() {
    let history = "
        +0s group g queue=q min=2
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +1s bind a n1
        +2s bind b n1
    ";
    assert_snapshot!(audited(history), @"rule 4 (gang atomicity): gang default/g was bound in part: 1 pods are bound, its minimum is 2");
    assert_eq!(audited(&history.replace("+2s", "+1s")), "");
}

#[test]
fn every_part_of_a_gang_counts_by_itself() {
    let history = "
        +0s group g queue=q parts=leader:1,worker:2
        +0s pod l group=g part=leader gpus=1
        +0s pod w group=g part=worker gpus=1
        +0s pod v group=g part=worker gpus=1
        +1s bind l n1
        +1s bind w n1
    ";
    assert_snapshot!(audited(history), @"rule 4 (gang atomicity): gang default/g was bound in part: 1 pods of part worker are bound, its minimum is 2");
    assert_eq!(audited(&format!("{history}\n+1s bind v n2")), "");
}

#[test]
fn a_part_of_a_gang_does_not_come_without_the_others() {
    let history = "
        +0s group g queue=q parts=leader:1,worker:1
        +0s pod l group=g part=leader gpus=1
        +1s bind l n1
    ";
    assert_snapshot!(audited(history), @"rule 4 (gang atomicity): gang default/g was bound in part: 1 parts are whole, 2 must be");
    assert_eq!(audited(&history.replace("queue=q", "queue=q minparts=1")), "");
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
    assert_eq!(audited(history), "");
}

#[test]
fn what_a_crash_cut_short_is_completed_or_rolled_back() {
    let cut = "
        +0s group g queue=q min=2
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +1s bind a n1
        +1s kill
    ";
    assert_eq!(audited(&format!("{cut}\n+3s bind b n1\n+9s rest")), "");
    assert_eq!(audited(&format!("{cut}\n+3s evict a\n+9s rest")), "");
    assert_snapshot!(audited(&format!("{cut}\n+9s rest")), @"rule 4 (gang atomicity): gang default/g stays bound in part: 1 pods are bound, its minimum is 2");
}

#[test]
fn a_limit_holds_at_every_level() {
    let leaf = "
        +0s queue q parent=dept quota=0 limit=1
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +1s bind a n1
    ";
    assert_snapshot!(audited(leaf), @"rule 5 (quota and limit): with pod default/a, queue q uses 2 nvidia.com/gpu; 1 is its limit");
    let above = "
        +0s queue dept quota=4 limit=1
        +0s group g queue=q min=1
        +0s group h queue=r min=1
        +0s pod a group=g gpus=1
        +0s pod b group=h gpus=1
        +1s bind a n1
        +2s bind b n1
    ";
    assert_snapshot!(audited(above), @"rule 5 (quota and limit): with pod default/b, queue dept uses 2 nvidia.com/gpu; 1 is its limit");
}

#[test]
fn non_preemptible_work_stays_within_quota_and_other_work_may_borrow() {
    let history = "
        +0s queue q parent=dept quota=1 limit=-1
        +0s group g queue=q min=1 class=build
        +0s pod a group=g gpus=2
        +1s bind a n1
    ";
    assert_snapshot!(audited(history), @"rule 5 (quota and limit): with pod default/a, non-preemptible work of q uses 2 nvidia.com/gpu; 1 is its quota");
    assert_eq!(audited(&history.replace("class=build", "class=train")), "");
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
    assert_eq!(audited(history), "");
}

#[test]
fn at_rest_a_queue_says_what_its_pods_add_up_to() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +1s bind a n1
        +2s status q gpus=1
        +2s status dept gpus=2
        +3s rest
    ";
    assert_snapshot!(audited(history), @"rule 6 (queue status): queue q says that 1 nvidia.com/gpu of it are in use; its bound pods add up to 2");
    assert_eq!(audited(&history.replace("status q gpus=1", "status q gpus=2")), "");
}

#[test]
fn nothing_is_negative() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=-1
        +1s bind a n1
    ";
    assert_snapshot!(audited(history), @"rule 29 (no negative amounts): pod default/a asks for -1 nvidia.com/gpu and was bound");
}

#[test]
fn only_preemptible_pods_are_evicted() {
    let history = "
        +0s group g queue=q min=1 class=build
        +0s pod a group=g gpus=2
        +1s bind a n1
        +2s evict a
    ";
    assert_snapshot!(audited(history), @"rule 9 (who may be evicted): pod default/a is not preemptible, its gang is whole, and it was evicted");
    assert_eq!(audited(&history.replace("class=build", "class=train")), "");
    assert_eq!(audited(&history.replace("evict a", "cancel a")), "", "others may delete it");
}

#[test]
fn the_cause_that_a_victim_was_told_is_one_by_which_it_may_go() {
    let history = "
        +0s group g queue=q min=1
        +0s group h queue=r min=1
        +0s pod a group=g gpus=2
        +0s pod b group=h gpus=2
        +1s bind a n1
    ";
    let told = |cause| audited(&format!("{history}\n+2s disrupt a {cause}"));
    assert_eq!(told("was preempted by workload default/h. Usage."), "");
    assert_snapshot!(told("was preempted by workload default/g."), @"rule 9 (who may be evicted): pod default/a was evicted for default/g, its own job");
    assert_snapshot!(told("was preempted by higher priority workload default/h"), @"rule 9 (who may be evicted): pod default/a was evicted for default/h, which is in queue r; it is in queue q: priority counts inside a queue");
}

#[test]
fn what_is_left_of_a_stale_gang_is_evicted_preemptible_or_not() {
    let history = "
        +0s group g queue=q min=2 class=build
        +0s pod a group=g gpus=1
        +0s pod b group=g gpus=1
        +1s bind a n1
        +1s bind b n1
        +2s fail a
        +62s evict b
    ";
    assert_eq!(audited(history), "");
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
    assert_snapshot!(audited(history), @"rule 12 (whole gangs are evicted): gang default/g was evicted in part: 1 pods are bound, its minimum is 2");
    assert_eq!(audited(&format!("{history}\n+3s evict a")), "");
}

/// Four pods in real time: the writes of one decision come one after the other, whatever came
/// before them.
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

fn in_real_time(history: &str) -> String {
    breaches_in_real_time(&format!("{LAB}{history}"))
}

#[test]
fn in_real_time_a_gang_comes_and_goes_by_several_writes() {
    assert_eq!(in_real_time(SLOW), "");
    assert_snapshot!(audited(SLOW), @"
    rule 4 (gang atomicity): gang default/g was bound in part: 1 pods are bound, its minimum is 3
    rule 4 (gang atomicity): gang default/g was bound in part: 2 pods are bound, its minimum is 3
    rule 12 (whole gangs are evicted): gang default/g was evicted in part: 2 pods are bound, its minimum is 3
    rule 12 (whole gangs are evicted): gang default/g was evicted in part: 1 pods are bound, its minimum is 3
    ");
}

#[test]
fn in_real_time_a_gang_that_stays_in_part_is_a_breach() {
    let but_two = SLOW.replace("+26s evict c", "").replace("+28s evict d", "");
    assert_snapshot!(in_real_time(&but_two), @"rule 12 (whole gangs are evicted): gang default/g was evicted in part: 2 pods are bound, its minimum is 3");
    let later = SLOW.replace("+26s", "+30s").replace("+28s", "+30s");
    assert_snapshot!(in_real_time(&later), @"rule 12 (whole gangs are evicted): gang default/g was evicted in part: 2 pods are bound, its minimum is 3");
    let bound = SLOW.replace("+9s", "+12s").replace("+9.5s", "+12s");
    assert_snapshot!(in_real_time(&bound), @"rule 4 (gang atomicity): gang default/g was bound in part: 2 pods are bound, its minimum is 3");
    let at_rest = SLOW.replace("+28s evict d", "+26s rest");
    assert_snapshot!(in_real_time(&at_rest), @"rule 12 (whole gangs are evicted): gang default/g was evicted in part: 1 pods are bound, its minimum is 3");
}

/// Those after which a gang is judged.
const CYCLES: &str = "+0s cycle\n+0s cycle\n+0s cycle\n";

#[test]
fn a_cycle_that_has_not_ended_may_take_any_time() {
    let slower = SLOW.replace("+26s", "+36s").replace("+28s", "+47s");
    let slower = slower.replace("+22s evict a", &format!("{CYCLES}+22s evict a"));
    assert_eq!(in_real_time(&format!("{slower}{CYCLES}")), "");
    let ended = slower.replace("+36s evict c", &format!("{CYCLES}+36s evict c"));
    assert_snapshot!(in_real_time(&ended), @"rule 12 (whole gangs are evicted): gang default/g was evicted in part: 2 pods are bound, its minimum is 3");
}

#[test]
fn default_kube_scheduler_knows_neither_gangs_nor_queues() {
    let history = "
        +0s node n1 gpus=2
        +0s queue q quota=0 limit=0
        +0s group g queue=q min=2 class=build
        +0s pod a group=g gpus=1
        +1s bind a n1
        +2s evict a
    ";
    assert_eq!(breaches_under_kube(history), "");
}

#[test]
fn a_breach_tells_the_history_that_led_to_it() {
    let history = "
        +0s group g queue=q min=1
        +0s pod a group=g gpus=2
        +0s pod b group=g gpus=1
        +1s bind a n1
        +1s devices a 0,1
        +61.5s bind b n1
    ";
    assert_snapshot!(first_breach_in_full(&format!("{LAB}{history}")), @"
    rule 1 (capacity) was violated at +1m01.5s: with pod default/b, pods on node n1 ask for 3 nvidia.com/gpu; it has 2
      history:
              +0s r1     node n1 created, is ready (by admin)
              +0s r8     pod default/b created (by admin)
              +1s r9     pod default/a bound to n1 (by kai-scheduler)
              +1s r10    pod default/a has GPU 0,1 (by kubelet)
         +1m01.5s r11    pod default/b bound to n1 (by kai-scheduler)
    ");
}
