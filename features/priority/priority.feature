@priority
Feature: What matters more runs first

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And a queue "team-a" with a quota of 8

  Scenario: A higher priority takes the place of the lowest below it
    Given a priority class "middle" with value 60
    And these workloads are submitted:
      | name | queue  | pods | gpus | priority |
      | low  | team-a | 4    | 1    | train    |
      | mid  | team-a | 4    | 1    | middle   |
    And the cluster has 8 running pods
    When these workloads are submitted:
      | name | queue  | pods | gpus | priority |
      | high | team-a | 2    | 1    | 90       |
    Then workload "high" has 2 running pods and stays so for 5 cycles
    And 2 pods of workload "low" were evicted for workload "high"
    And no pods of workload "mid" were evicted
