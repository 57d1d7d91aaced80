@reclaim
Feature: GPUs are reclaimed once, for a job that then runs

  @bug-volcano-4947
  Scenario: A victim of reclaim does not retake the GPUs before the owner has them
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue | quota |
      | q1    | 3     |
      | q2    | 5     |
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | preemptible |
      | one  | deployment | q1    | 1    | 4    | yes         |
      | two  | deployment | q2    | 1    | 1    | yes         |
    And the cluster has 2 running pods
    When these workloads are submitted:
      | name  | kind       | queue | pods | gpus | preemptible |
      | three | deployment | q2    | 1    | 4    | yes         |
    Then eventually within 2 minutes deployment "three" is running
    And for 10 minutes 1 pod of the cluster was evicted
    And deployment "one" is pending

  @bug-kueue-13662
  Scenario: GPUs that become free early are kept for the pod they were reclaimed for
    Given a fleet of 1 node with 5 GPUs each
    And these queues:
      | queue    | quota |
      | borrower | 2     |
      | owner    | 5     |
    And these workloads are submitted:
      | name | kind       | queue    | pods | gpus | preemptible | grace | termination |
      | slow | deployment | borrower | 1    | 3    | yes         | 120   | 90s         |
    And deployment "slow" is running
    # The younger job is evicted first: without the older one the queue would only have its quota left.
    And these workloads are submitted:
      | name  | kind       | queue    | pods | gpus | preemptible | grace | termination |
      | quick | deployment | borrower | 1    | 2    | yes         | 120   | 2s          |
    And the cluster has 2 running pods
    When a gang "whole" of 1 pod with 4 GPUs each is submitted to queue "owner"
    Then for 10 minutes at most 2 pods of the cluster were evicted
    And gang "whole" is running

  @bug-kueue-6947
  Scenario: A head of line that fits nowhere neither blocks the next job nor evicts for ever
    Given a fleet of 1 node with 3 GPUs each
    And these queues:
      | queue | quota |
      | a     | 4     |
      | b     | 0     |
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | preemptible |
      | w1   | deployment | b     | 1    | 1    | yes         |
    And deployment "w1" is running
    When these workloads are submitted:
      | name | kind | queue | pods | gpus |
      | w4   | gang | a     | 4    | 1    |
      | w3   | gang | a     | 3    | 1    |
    Then eventually within 1 minute gang "w3" is running
    And gang "w4" is pending
    And for 10 minutes 1 pod of the cluster was evicted

  @bug-volcano-4648
  Scenario: No pod is evicted for pods whose anti-affinity would still not be satisfied
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | borrower | 8     |
      | owner    | 8     |
    And these workloads are submitted:
      | name     | kind | queue    | pods | gpus | preemptible | node selector                 |
      | fixed    | pod  | borrower | 8    | 1    | no          | kubernetes.io/hostname=node-1 |
      | borrowed | pod  | borrower | 8    | 1    | yes         | kubernetes.io/hostname=node-2 |
    And the cluster has 16 running pods
    When these workloads are submitted:
      | name | kind | queue | pods | gpus | apart by               |
      | pair | gang | owner | 2    | 4    | kubernetes.io/hostname |
    Then for 10 minutes no pods of the cluster were evicted
    And gang "pair" is pending

  @bug-scheduler-plugins-683
  Scenario: A department at its limit still gives its owner back what a sibling borrowed
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue      | parent     | quota | limit |
      | department |            | 5     | 5     |
      | borrower   | department | 3     |       |
      | owner      | department | 2     |       |
    And 5 pods "borrowed" with 1 GPU each are submitted to queue "borrower"
    And queue "borrower" has 5 running pods
    When 1 pod "owned" with 1 GPU each is submitted to queue "owner"
    Then eventually within 1 minute queue "owner" has 1 running pod and stays so for 5 cycles
    And 1 pod of queue "borrower" was evicted for queue "owner"
