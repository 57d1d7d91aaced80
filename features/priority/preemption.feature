@priority @preemption
Feature: A higher priority preempts inside its queue, and only if that helps

  Background:
    Given a fleet of 1 node with 8 GPUs each
    # slack: quota 8
    And these queues:
      | queue | quota |
      | team  | 8     |
    # slack: 10
    And a priority class "low" with value 10
    # slack: 20
    And a priority class "middle" with value 20
    # slack: 30
    And a priority class "high" with value 30

  Scenario: Of waiting work the higher priority starts first
    Given the scheduler is stopped
    And these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority |
      | first  | pod  | team  | 1    | 8    | low      |
      | second | pod  | team  | 1    | 8    | high     |
    When the scheduler is started
    Then pod "second" is running
    And pod "first" is pending

  @id:preemption.equal-waits
  Scenario: Equal priority waits its turn
    # slack: pods 8
    Given these workloads are submitted:
      | name    | kind | queue | pods | gpus | priority |
      | running | pod  | team  | 8    | 1    | low      |
    And the cluster has 8 running pods
    # slack: gpus 1
    When these workloads are submitted:
      | name | kind | queue | pods | gpus | priority |
      | late | pod  | team  | 1    | 1    | low      |
    Then for 1 minute workload "late" has 1 pending pod
    And no pods of the cluster were evicted

  @id:preemption.order
  Scenario: Of pods that wait for a GPU the one with the highest priority starts first
    Given these workloads are submitted:
      | name | queue | pods | gpus | priority |
      | busy | team  | 8    | 1    | high     |
    And the cluster has 8 running pods
    # slack: gpus 1
    And these workloads are submitted:
      | name   | queue | pods | gpus | priority |
      | low    | team  | 1    | 1    | low      |
      | middle | team  | 1    | 1    | middle   |
    And the cluster has 2 pending pods
    When 1 pod of workload "busy" finishes
    Then workload "middle" has 1 running pod and stays so for 5 cycles
    And workload "low" has 1 pending pod

  @id:preemption.grace
  Scenario: A preempted pod has its grace period to end before its GPU is given away
    # slack: pods 8
    Given these workloads are submitted:
      | name | queue | pods | gpus | priority | grace | termination |
      | low  | team  | 8    | 1    | low      | 60    | 20s         |
    And the cluster has 8 running pods
    When these workloads are submitted:
      | name | queue | pods | gpus | priority |
      | high | team  | 2    | 1    | high     |
    # slack: 1
    Then never within 15 seconds workload "high" has at least 1 running pod
    And workload "high" has 2 running pods and stays so for 5 cycles
    And workload "low" has 6 running pods

  @id:preemption.only-if-it-helps
  Scenario: No pod is preempted for one that would still not fit
    # slack: pods 4
    Given these workloads are submitted:
      | name | queue | pods | gpus | priority |
      | high | team  | 4    | 1    | high     |
      | low  | team  | 4    | 1    | low      |
    And the cluster has 8 running pods
    # slack: gpus 5
    When these workloads are submitted:
      | name  | queue | pods | gpus | priority |
      | large | team  | 1    | 5    | middle   |
    Then workload "large" has 1 pending pod and stays so for 5 cycles
    And no pods of the cluster were evicted
    When these workloads are submitted:
      | name  | queue | pods | gpus | priority |
      | small | team  | 1    | 4    | middle   |
    Then workload "small" has 1 running and no pending pods
    And 4 pods of workload "low" were evicted

  @id:preemption.non-preemptible
  Scenario: Non-preemptible work is not preempted by higher priority
    Given these workloads are submitted:
      | name  | kind | queue | pods | gpus | priority | preemptible |
      | fixed | pod  | team  | 8    | 1    | low      | no          |
    And the cluster has 8 running pods
    When these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority |
      | urgent | pod  | team  | 1    | 1    | high     |
    Then for 10 minutes pod "urgent" is pending
    And no pods of the cluster were evicted

  @id:preemption.non-preemptible-part
  Scenario: Preemption that would not help does not happen
    Given these workloads are submitted:
      | name  | kind | queue | pods | gpus | priority | preemptible |
      | fixed | pod  | team  | 4    | 1    | low      | no          |
      | loose | pod  | team  | 4    | 1    | low      | yes         |
    And the cluster has 8 running pods
    When these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority |
      | urgent | pod  | team  | 1    | 8    | high     |
    Then for 10 minutes pod "urgent" is pending
    And no pods of the cluster were evicted
