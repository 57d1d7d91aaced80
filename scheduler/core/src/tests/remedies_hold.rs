//! Remedies do what they say: what is told to be missing is what the pods that wait are waiting for.

use insta::assert_snapshot;

use crate::testing::remedies_of;

#[test]
fn of_parts_that_may_be_missing_the_one_whose_pods_wait_is_told() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        gang a needs=1
          part s1 pods=2 gpus=1 on n1 n1
          part s2 pods=0 min=2 gpus=1
          part s3 pods=1 min=2 gpus=1
    ", "a"), @r"
    NotReady
    create 1 more pod of sub-group s3
      then it runs on n1 (Now)
    ");
}
