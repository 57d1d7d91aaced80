@gang
Feature: A gang runs whole or not at all

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And a queue "team-a" with a quota of 32

  @virtual-time
  Scenario: A gang that needs ten GPUs with eight free holds none until ten are free
    Given 24 pods "filler" with 1 GPU each are submitted to queue "team-a"
    And queue "team-a" has 24 running pods
    When a gang "train" of 10 pods with 1 GPU each is submitted to queue "team-a"
    Then for 10 minutes gang "train" has 10 pending pods
    And never within 1 hour gang "train" has at least 1 running pod
    And 8 GPUs are free
    When 2 pods of workload "filler" are deleted
    Then eventually within 1 minute gang "train" has 10 running pods
    And gang "train" is whole or absent

  @virtual-time
  Scenario: A gang is whole all along while it starts, runs and finishes
    Given these workloads are submitted:
      | name   | kind | queue  | pods | gpus | run time |
      | filler | pod  | team-a | 32   | 1    | 5m       |
    And queue "team-a" has 32 running pods
    When these workloads are submitted:
      | name  | kind | queue  | pods | gpus | run time |
      | train | gang | team-a | 8    | 1    | 10m      |
    Then for 10 minutes gang "train" is whole or absent
    When 1 pod of gang "train" finishes
    Then gang "train" has 7 running and 1 succeeded pods
    And gang "train" is whole or absent

  @id:gang.kinds
  Scenario Outline: A <kind> is one gang
    Given 29 pods "filler" with 1 GPU each are submitted to queue "team-a"
    And queue "team-a" has 29 running pods
    When these workloads are submitted:
      | name  | kind   | queue  | pods | gpus |
      | train | <kind> | team-a | 4    | 1    |
    Then <kind> "train" has 4 pending pods
    When 1 pod of workload "filler" is deleted
    Then <kind> "train" has 4 running pods

    Examples:
      | kind       |
      | gang       |
      | pytorchjob |
      | trainjob   |
      | jobset     |

  @robustness
  Scenario Outline: A scheduler that dies at write <n> of a gang's start leaves no partial gang
    Given the scheduler dies before its write number <n> and is restarted
    When a gang "train" of 4 pods with 8 GPUs each is submitted to queue "team-a"
    Then gang "train" has 4 running pods and stays so for 5 cycles
    And no pods of the cluster were evicted

    Examples:
      | n |
      | 1 |
      | 2 |
      | 3 |
      | 4 |
      | 5 |
      | 6 |
      | 7 |
      | 8 |
      | 9 |

  @robustness @virtual-time
  Scenario: A gang loses a node
    Given a gang "train" of 2 pods with 8 GPUs each is submitted to queue "team-a"
    And gang "train" is running
    When node "node-1" dies
    Then eventually within 2 minutes node "node-1" is not ready
    And after 15 minutes the cluster has no pending pods
    When node "node-1" returns
    Then eventually within 1 minute node "node-1" is ready
    And eventually within 2 minutes gang "train" is gone
    And 1 pod of gang "train" was evicted with "minimum required number of pods (2)"
    And 32 GPUs are free

  @robustness
  Scenario: A scheduler that dies after every fourth write still starts every pod
    Given the scheduler dies after every 4 writes
    When a gang "train" of 4 pods with 8 GPUs each is submitted to queue "team-a"
    Then eventually within 10 minutes gang "train" has 4 running pods
