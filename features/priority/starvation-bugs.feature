@priority @starvation
Feature: Neither size nor age alone decides which workloads starve

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue | quota |
      | team  | 8     |
    And a priority class "low" with value 10
    And a priority class "high" with value 90

  @bug-volcano-3095
  Scenario: A stream of small jobs of low priority does not win against a large one
    Given these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority | run time |
      | stream | pod  | team  | 40   | 1    | low      | 3m       |
    And queue "team" has 8 running pods
    When these workloads are submitted:
      | name  | kind | queue | pods | gpus | priority |
      | large | gang | team  | 1    | 8    | high     |
    Then eventually within 2 minutes gang "large" is running
    And 8 pods of workload "stream" were evicted for gang "large"

  @bug-kueue-13320
  Scenario: A high-priority job that cannot run does not block the jobs behind it
    When a gang "hero" of 2 pods with 8 GPUs each is submitted to queue "team"
    And 8 pods "small" with 1 GPU each are submitted to queue "team"
    Then queue "team" has 8 running and 2 pending pods
    And gang "hero" is pending
