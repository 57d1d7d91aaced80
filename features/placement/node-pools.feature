@placement @kai-settings
Feature: A scheduler for each node pool
  A shard serves the nodes and pods of its pool only, and says which pool it speaks of.

  Background:
    Given a fleet:
      | pool | nodes | gpus | labels                       |
      | a    | 1     | 2    | kai.scheduler/node-pool=a100 |
      | b    | 1     | 8    |                              |
    And a queue "team" with a quota of 16
    And the scheduler serves node pool "a100"

  Scenario: Pods of the pool run in it, and those of others are left alone
    When these workloads are submitted:
      | name  | queue | pods | gpus | labels                       |
      | inner | team  | 2    | 1    | kai.scheduler/node-pool=a100 |
      | outer | team  | 2    | 1    |                              |
    Then pod "inner" is on node "a-1"
    And pod "outer" has 2 pending pods and stays so for 5 cycles

  Scenario: Who has the label on the owner alone runs in the pool, and pods go with their group
    When the manifest "placement/pools.yaml" is applied
    Then deployment "labelled" has 2 running pods
    And pod "moved" has 1 pending pod and stays so for 5 cycles

  Scenario: Why a group waits is told for its pool
    When these workloads are submitted:
      | name | kind | queue | pods | gpus | labels                       |
      | wide | gang | team  | 4    | 1    | kai.scheduler/node-pool=a100 |
    Then gang "wide" has 4 pending pods and stays so for 5 cycles
    And the field "status.schedulingConditions.0.nodePool" of gang "wide" is "a100"
    And the field "status.schedulingConditions.0.status" of gang "wide" is "True"

  Scenario: What runs on a node that leaves the pool goes on counting
    Given a fleet:
      | pool | nodes | gpus | labels                       |
      | x    | 2     | 8    | kai.scheduler/node-pool=a100 |
    And the scheduler serves node pool "a100"
    And a queue "a" with a quota of 8
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | labels                       | preemptible |
      | w    | deployment | a     | 12   | 1    | kai.scheduler/node-pool=a100 | no          |
    And deployment "w" has 8 running and 4 pending pods
    When the label "kai.scheduler/node-pool" of node "x-1" becomes "h100"
    Then for 1 minute deployment "w" has 8 running and 4 pending pods
    And queue "a" uses 8 GPUs
