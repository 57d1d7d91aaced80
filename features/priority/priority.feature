@priority
Feature: Higher priority runs first

  Background:
    Given a fleet of 1 node with 8 GPUs each
    # slack: 8
    And a queue "team-a" with a quota of 8

  @id:preemption.lowest-first @preemption
  Scenario: A higher priority takes the place of the lowest below it
    # slack: 60
    Given a priority class "middle" with value 60
    # slack: pods 4
    And these workloads are submitted:
      | name | queue  | pods | gpus | priority |
      | low  | team-a | 4    | 1    | train    |
      | mid  | team-a | 4    | 1    | middle   |
    And the cluster has 8 running pods
    # slack: priority 90
    When these workloads are submitted:
      | name | queue  | pods | gpus | priority |
      | high | team-a | 2    | 1    | 90       |
    Then workload "high" has 2 running pods and stays so for 5 cycles
    And 2 pods of workload "low" were evicted for workload "high"
    And no pods of workload "mid" were evicted

  Scenario: A stream of small work does not starve a large gang
    Given every 1 minute 2 pods "small" with 1 GPU each that run for 5 minutes arrive in queue "team-a"
    And 15 minutes pass
    When a gang "large" of 1 pod with 8 GPUs each is submitted to queue "team-a"
    Then never within 10 minutes gang "large" is running
    When no more pods "small" arrive
    Then eventually within 10 minutes gang "large" is running
