@placement
Feature: A scheduler for each node pool
  A shard handles only the nodes, queues and pods of its node pool, and names the pool in its messages.

  Background:
    Given a fleet:
      | pool | nodes | gpus | labels                       |
      | a    | 1     | 2    | kai.scheduler/node-pool=a100 |
      | b    | 1     | 8    |                              |
    And a queue "team" with a quota of 16
    And the label "kai.scheduler/node-pool" of queue "team" becomes "a100"
    And the scheduler serves node pool "a100"

  Scenario: Pods of the pool run in it, and those of others are left alone
    When these workloads are submitted:
      | name  | queue | pods | gpus | labels                       |
      | inner | team  | 2    | 1    | kai.scheduler/node-pool=a100 |
      | outer | team  | 2    | 1    |                              |
    Then pod "inner" is on node "a-1"
    And pod "outer" has 2 pending pods and stays so for 5 cycles

  Scenario: A label on the owner alone selects the pool, and pods follow their group
    When the manifest "placement/pools.yaml" is applied
    Then deployment "labelled" has 2 running pods
    And pod "moved" has 1 pending pod and stays so for 5 cycles
    And pod "bare" has 1 running pod
    And the field "metadata.labels.kai.scheduler/node-pool" of pod "bare" is "a100"

  Scenario: The reason of a pending group refers to its pool
    When these workloads are submitted:
      | name | kind | queue | pods | gpus | labels                       |
      | wide | gang | team  | 4    | 1    | kai.scheduler/node-pool=a100 |
    Then gang "wide" has 4 pending pods and stays so for 5 cycles
    And the field "status.schedulingConditions.0.nodePool" of gang "wide" is "a100"
    And the field "status.schedulingConditions.0.status" of gang "wide" is "True"

  Scenario: Pods on a node that leaves the pool stay charged
    Given a fleet:
      | pool | nodes | gpus | labels                       |
      | x    | 2     | 8    | kai.scheduler/node-pool=a100 |
    And the scheduler serves node pool "a100"
    And a queue "a" with a quota of 8
    And the label "kai.scheduler/node-pool" of queue "a" becomes "a100"
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | labels                       | preemptible |
      | w    | deployment | a     | 12   | 1    | kai.scheduler/node-pool=a100 | no          |
    And deployment "w" has 8 running and 4 pending pods
    When the label "kai.scheduler/node-pool" of node "x-1" becomes "h100"
    Then for 1 minute deployment "w" has 8 running and 4 pending pods
    And queue "a" uses 8 GPUs

  Scenario: A queue without the pool's label does not exist in the pool until it gets the label
    Given these queues:
      | queue | quota |
      | bare  | 2     |
      | top   | 2     |
    And these queues:
      | queue | parent | quota |
      | below | top    | 2     |
    And the label "kai.scheduler/node-pool" of queue "below" becomes "a100"
    When these workloads are submitted:
      | name   | kind | queue | pods | gpus | labels                       |
      | first  | gang | bare  | 1    | 1    | kai.scheduler/node-pool=a100 |
      | second | gang | below | 1    | 1    | kai.scheduler/node-pool=a100 |
    Then gang "first" is pending because "Queue 'bare' does not exist"
    And the field "status.schedulingConditions.0.message" of gang "first" is "Queue 'bare' does not exist. Remedy: fix queue bare: label kai.scheduler/node-pool: got none or another, expected a100 in this node pool"
    And gang "second" is pending because "its parent 'top' does not exist"
    When the label "kai.scheduler/node-pool" of queue "bare" becomes "a100"
    And the label "kai.scheduler/node-pool" of queue "top" becomes "a100"
    Then gang "first" has 1 running pod
    And gang "second" has 1 running pod

  Scenario: A scheduler of the default shard serves the queues without a shard label
    Given the scheduler serves node pool ""
    And a queue "rest" with a quota of 8
    When these workloads are submitted:
      | name | kind | queue | pods | gpus |
      | in   | gang | rest  | 1    | 1    |
      | out  | gang | team  | 1    | 1    |
    Then gang "in" has 1 running pod
    And gang "out" is pending because "Queue 'team' does not exist"
