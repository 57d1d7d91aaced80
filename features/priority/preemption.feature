@priority @preemption
Feature: A higher priority preempts inside its queue, and only if that helps

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue | quota |
      | team  | 8     |
    And a priority class "low" with value 10
    And a priority class "middle" with value 20
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

  Scenario: Equal priority waits its turn
    Given these workloads are submitted:
      | name    | kind | queue | pods | gpus | priority |
      | running | pod  | team  | 8    | 1    | low      |
    And the cluster has 8 running pods
    When these workloads are submitted:
      | name | kind | queue | pods | gpus | priority |
      | late | pod  | team  | 1    | 1    | low      |
    Then for 10 minutes workload "late" has 1 pending pod
    And no pods of the cluster were evicted

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
