@gang @podgrouper
Feature: Workloads of every kind can be scaled, suspended and resumed

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 8     |

  Scenario Outline: A <kind> shrinks and grows
    Given these workloads are submitted:
      | name  | kind   | queue    | pods | gpus | completion mode |
      | train | <kind> | training | 4    | 1    | <mode>          |
    And <kind> "train" has 4 running pods
    When <kind> "train" is scaled to 2
    Then eventually within 30 seconds <kind> "train" has 2 running pods
    And 6 GPUs are free
    When <kind> "train" is scaled to 6
    Then eventually within 30 seconds <kind> "train" has 6 running pods
    And no pods of the cluster were evicted

    Examples:
      | kind        | mode    |
      | job         | Indexed |
      | jobset      |         |
      | trainjob    |         |
      | pytorchjob  |         |
      | raycluster  |         |
      | deployment  |         |
      | statefulset |         |

  Scenario: A LeaderWorkerSet is scaled by groups, each of them a gang
    Given these workloads are submitted:
      | name  | kind            | queue    | pods | gpus | replicas |
      | serve | leaderworkerset | training | 3    | 1    | 2        |
    And leaderworkerset "serve" has 6 running pods
    When leaderworkerset "serve" is scaled to 3
    Then leaderworkerset "serve" has 6 running and 3 pending pods and stays so for 5 cycles
    When leaderworkerset "serve" is scaled to 1
    Then eventually within 30 seconds leaderworkerset "serve" has 3 running pods
    And no pods of the cluster were evicted

  Scenario: A Job with fewer pods at once still completes
    Given these workloads are submitted:
      | name  | kind | queue    | pods | gpus |
      | batch | job  | training | 4    | 1    |
    And job "batch" has 4 running pods
    When job "batch" is scaled to 1
    Then eventually within 30 seconds job "batch" has 1 running pod

  Scenario Outline: A suspended <kind> has no pods until it is resumed
    Given these workloads are submitted:
      | name  | kind   | queue    | pods | gpus |
      | train | <kind> | training | 4    | 1    |
    And <kind> "train" has 4 running pods
    When <kind> "train" is suspended
    Then eventually within 30 seconds <kind> "train" has no running pods
    And 8 GPUs are free
    When <kind> "train" is resumed
    Then eventually within 30 seconds <kind> "train" has 4 running pods
    And no pods of the cluster were evicted

    Examples:
      | kind       |
      | job        |
      | jobset     |
      | trainjob   |
      | pytorchjob |
      | raycluster |

  Scenario: A suspended RayJob starts anew with another cluster
    Given these workloads are submitted:
      | name  | kind   | queue    | pods | gpus |
      | train | rayjob | training | 4    | 1    |
    And rayjob "train" has 5 running pods
    When rayjob "train" is suspended
    Then eventually within 30 seconds rayjob "train" has no running pods
    When rayjob "train" is resumed
    Then eventually within 1 minute rayjob "train" has 5 running pods
