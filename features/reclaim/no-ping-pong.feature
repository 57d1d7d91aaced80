@reclaim
Feature: Reclaimed GPUs are not reclaimed back

  @id:fairness.no-ping-pong
  Scenario: Two queues whose quotas exceed the fleet do not reclaim from each other for ever
    Given a fleet:
      | pool | nodes | gpus |
      | gpu  | 1     | 11   |
    And these queues:
      | queue | quota |
      | q1    | 6     |
      | q2    | 6     |
    When these workloads are submitted:
      | name | kind       | queue | pods | gpus | preemptible |
      | one  | deployment | q1    | 6    | 1    | yes         |
      | two  | deployment | q2    | 6    | 1    | yes         |
    Then the cluster has 11 running and 1 pending pods
    And for 10 minutes no pods of the cluster were evicted

  Scenario: Two elastic gangs divide the fleet once
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue | quota |
      | q1    | 4     |
      | q2    | 4     |
    And these workloads are submitted:
      | name | kind | queue | pods | min | gpus | preemptible |
      | one  | gang | q1    | 8    | 2   | 1    | yes         |
    And the cluster has 8 running pods
    When these workloads are submitted:
      | name | kind | queue | pods | min | gpus | preemptible |
      | two  | gang | q2    | 8    | 2   | 1    | yes         |
    Then eventually within 2 minutes gang "two" has 4 running pods
    And for 10 minutes gang "one" has 4 running pods
    And for 10 minutes gang "two" has 4 running pods
    And 4 pods of the cluster were evicted

  Scenario: No pod is evicted for a job that would still not fit
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | borrower | 4     |
      | owner    | 12    |
    And these workloads are submitted:
      | name   | kind | queue    | pods | gpus | spread by              | preemptible |
      | pinned | pod  | borrower | 2    | 1    | kubernetes.io/hostname | no          |
    And pod "pinned" is running
    And 12 pods "borrowed" with 1 GPU each are submitted to queue "borrower"
    And the cluster has 14 running pods
    When a gang "whole" of 1 pod with 8 GPUs each is submitted to queue "owner"
    Then for 10 minutes no pods of the cluster were evicted
    And gang "whole" is pending
