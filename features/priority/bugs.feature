@priority @preemption
Feature: Preemption evicts the right pods once, and the preemptor runs

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue | quota |
      | team  | 8     |
    And a priority class "low" with value 10
    And a priority class "middle" with value 20
    And a priority class "high" with value 30

  @bug-volcano-2622
  Scenario: The lowest priority goes first, however long it has run
    Given these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority |
      | low    | pod  | team  | 4    | 1    | low      |
      | middle | pod  | team  | 4    | 1    | middle   |
    And the cluster has 8 running pods
    When these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority |
      | urgent | pod  | team  | 2    | 1    | high     |
    Then eventually within 1 minute pod "urgent" is running
    And 2 pods of workload "low" were evicted for pod "urgent"
    And no pods of workload "middle" were evicted

  @bug-kubernetes-141694
  Scenario: While its victims terminate, the preemptor evicts no more pods
    Given these workloads are submitted:
      | name | kind | queue | pods | gpus | priority | grace | termination |
      | low  | pod  | team  | 8    | 1    | low      | 120   | 100s        |
    And the cluster has 8 running pods
    When these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority |
      | urgent | pod  | team  | 2    | 1    | high     |
    Then for 95 seconds at most 2 pods of the cluster were evicted
    And eventually within 1 minute pod "urgent" is running
    And 2 pods of the cluster were evicted

  @bug-kueue-6143 @virtual-time
  Scenario: A victim that does not go is waited for two minutes, then another goes
    Given these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority |
      | prompt | pod  | team  | 1    | 4    | low      |
    And 1 second passes
    And these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority | grace | termination |
      | sticky | pod  | team  | 1    | 4    | low      | 10800 | 3h          |
    And the cluster has 2 running pods
    When these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority |
      | urgent | gang | team  | 1    | 4    | high     |
    And 10 seconds pass
    Then now workload "sticky" is terminating
    And eventually within 5 minutes gang "urgent" is running
    And now workload "sticky" is terminating
    And 1 pod of workload "prompt" was evicted for gang "urgent"
