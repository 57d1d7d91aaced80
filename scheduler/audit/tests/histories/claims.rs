//! Resource claims: rule 2 of the audit.

use super::violations;

#[test]
fn a_claim_is_allocated_and_reserved_for_each_bound_pod() {
    let start = "
        +0s group g queue=q min=1
        +0s pod a group=g claim=x
        +0s pod b group=g claim=x
        +0s claim x
    ";
    let valid = "
        +1s claim x device=0 on=n1 for=a
        +1s bind a n1
    ";
    assert_eq!(violations(&format!("{start}{valid}")), "");
    let unallocated = violations(&format!("{start}+1s bind a n1"));
    assert!(unallocated.contains("but claim default/x is not allocated"), "{unallocated}");
    let unreserved = violations(&format!("{start}{valid}+2s bind b n1"));
    assert!(unreserved.contains("but claim default/x is not reserved for the pod"), "{unreserved}");
    let other_node = violations(&format!("{start}+1s claim x device=0 on=n1 for=a\n+1s bind a n2"));
    assert!(other_node.contains("but claim default/x is allocated on n1"), "{other_node}");
    let twice = violations(&format!("{start}{valid}+2s claim y device=0 on=n1"));
    assert!(
        twice.contains("claim default/y was given device 0 of pool n1 (gpu), which default/x has"),
        "{twice}"
    );
    let reallocated = violations(&format!("{start}{valid}+2s claim x device=1 on=n1 for=a"));
    assert!(reallocated.contains("claim default/x was reallocated while in use"), "{reallocated}");
}

#[test]
fn a_claim_on_a_device_of_several_nodes_is_used_on_these_nodes_only() {
    let start = "
        +0s node e1 gpus=8 label=zone:e
        +0s node e2 gpus=8 label=zone:e
        +0s group g queue=q min=1
        +0s pod a group=g claim=x
        +0s pod b group=g claim=x
    ";
    let valid = "
        +1s claim x device=0 zone=e for=a
        +1s bind a e1
        +1s claim x device=0 zone=e for=b
        +1s bind b e2
    ";
    assert_eq!(violations(&format!("{start}{valid}")), "");
    let other_node =
        violations(&format!("{start}+1s claim x device=0 zone=e for=a\n+1s bind a n1"));
    assert!(
        other_node.contains("bound to n1, which cannot use the devices of claim default/x"),
        "{other_node}"
    );
}
