//! Claims on devices: rule 2.

use super::audited;

#[test]
fn a_device_is_in_one_claim_and_a_claim_on_one_node_for_who_is_bound() {
    let begun = "
        +0s group g queue=q min=1
        +0s pod a group=g claim=x
        +0s pod b group=g claim=x
        +0s claim x
    ";
    let right = "
        +1s claim x device=0 on=n1 for=a
        +1s bind a n1
    ";
    assert_eq!(audited(&format!("{begun}{right}")), "");
    let unallocated = audited(&format!("{begun}+1s bind a n1"));
    assert!(unallocated.contains("but claim default/x is not allocated"), "{unallocated}");
    let of_another = audited(&format!("{begun}{right}+2s bind b n1"));
    assert!(of_another.contains("but claim default/x is not reserved for it"), "{of_another}");
    let elsewhere = audited(&format!("{begun}+1s claim x device=0 on=n1 for=a\n+1s bind a n2"));
    assert!(elsewhere.contains("but claim default/x is allocated on n1"), "{elsewhere}");
    let twice = audited(&format!("{begun}{right}+2s claim y device=0 on=n1"));
    assert!(
        twice.contains("claim default/y was given device 0 of pool n1 (gpu), which default/x has"),
        "{twice}"
    );
    let anew = audited(&format!("{begun}{right}+2s claim x device=1 on=n1 for=a"));
    assert!(anew.contains("claim default/x was allocated anew while it is in use"), "{anew}");
}

#[test]
fn a_claim_on_a_device_of_several_nodes_is_used_on_those_alone() {
    let begun = "
        +0s node e1 gpus=8 label=zone:e
        +0s node e2 gpus=8 label=zone:e
        +0s group g queue=q min=1
        +0s pod a group=g claim=x
        +0s pod b group=g claim=x
    ";
    let right = "
        +1s claim x device=0 zone=e for=a
        +1s bind a e1
        +1s claim x device=0 zone=e for=b
        +1s bind b e2
    ";
    assert_eq!(audited(&format!("{begun}{right}")), "");
    let elsewhere = audited(&format!("{begun}+1s claim x device=0 zone=e for=a\n+1s bind a n1"));
    assert!(
        elsewhere.contains("bound to n1, from where the devices of claim default/x cannot be used"),
        "{elsewhere}"
    );
}
