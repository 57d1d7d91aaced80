@quota
Feature: A limit holds at every level of the tree

  Background:
    # slack: 4, 8
    Given a fleet of 4 nodes with 8 GPUs each

  @id:quota.limit
  Scenario: A queue stops at its limit while GPUs are idle
    # slack: quota 4
    Given these queues:
      | queue  | quota | limit |
      | team-a | 4     | 6     |
    When 10 pods "work" with 1 GPU each are submitted to queue "team-a"
    Then queue "team-a" has 6 running and 4 pending pods and stays so for 5 cycles
    And queue "team-a" is pending because "quota has reached the allowable limit of GPUs. Limit is 6 GPUs, currently 6 GPUs allocated and workload requested 1 GPUs"
    And 26 GPUs are free

  @id:quota.limit-finished
  Scenario: A pod that finishes frees its place below the limit
    # slack: quota 4
    Given these queues:
      | queue  | quota | limit |
      | team-a | 4     | 4     |
    And 6 pods "work" with 1 GPU each are submitted to queue "team-a"
    And queue "team-a" has 4 running and 2 pending pods
    When 1 pod of pod "work" finishes
    Then queue "team-a" has 4 running and 1 pending pods and stays so for 5 cycles
    And 28 GPUs are free

  @id:quota.limit-raised
  Scenario: A raised limit lets waiting pods start
    # slack: quota 4
    Given these queues:
      | queue  | quota | limit |
      | team-a | 4     | 4     |
    And 6 pods "work" with 1 GPU each are submitted to queue "team-a"
    And queue "team-a" has 4 running and 2 pending pods
    When the limit of queue "team-a" becomes 5
    Then queue "team-a" has 5 running and 1 pending pods and stays so for 5 cycles
    And 27 GPUs are free

  @id:quota.limit-of-parent
  Scenario: The limit of a department holds over the sum of its teams
    Given these queues:
      | queue      | parent     | quota | limit |
      | department |            | 8     | 10    |
      | team-a     | department | 4     |       |
      | team-b     | department | 4     |       |
    And these workloads are submitted:
      | name | kind | queue  | pods | gpus |
      | a    | pod  | team-a | 5    | 1    |
      | b    | pod  | team-b | 5    | 1    |
    And queue "department" has 10 running pods
    When 3 pods "more-a" with 1 GPU each are submitted to queue "team-a"
    And 3 pods "more-b" with 1 GPU each are submitted to queue "team-b"
    Then queue "team-a" has 5 running and 3 pending pods and stays so for 5 cycles
    And queue "team-b" has 5 running and 3 pending pods
    And queue "department" uses 10 GPUs

  Scenario: Three levels of limits, the tightest holds
    Given these queues:
      | queue   | parent | quota | limit |
      | company |        | 32    | 20    |
      | lab     | company | 16   | 12    |
      | team    | lab    | 8     | 16    |
      | other   | company | 16   |       |
    When 16 pods "team" with 1 GPU each are submitted to queue "team"
    Then queue "team" has 12 running and 4 pending pods and stays so for 5 cycles
    When 16 pods "other" with 1 GPU each are submitted to queue "other"
    Then queue "company" has 20 running and 12 pending pods and stays so for 5 cycles
    And the placement matches its snapshot

  @id:quota.limit-values
  Scenario Outline: A limit of <limit> lets <running> of 10 pods run
    # slack: limit 2, quota 2
    Given these queues:
      | queue  | quota | limit   |
      | team-a | 2     | <limit> |
      | team-b | 2     | 2       |
    # slack: 1
    When 10 pods "work" with 1 GPU each are submitted to queue "team-a"
    # slack: 1, 2
    And 2 pods "other" with 1 GPU each are submitted to queue "team-b"
    Then queue "team-b" has 2 running pods
    And queue "team-a" has <running> running and <pending> pending pods and stays so for 5 cycles

    Examples:
      | limit     | running | pending |
      | 0         | 0       | 10      |
      | 2         | 2       | 8       |
      | 9         | 9       | 1       |
      | unlimited | 10      | 0       |

  @id:quota.limit-cpu
  Scenario: A limit on CPU holds as one on GPUs does
    Given these queues:
      | queue  | quota | cpu limit |
      | team-a | 8     | 6         |
    When these workloads are submitted:
      | name | kind | queue  | pods | gpus | cpu |
      | work | pod  | team-a | 4    | 1    | 2   |
    Then queue "team-a" has 3 running and 1 pending pods and stays so for 5 cycles
    And queue "team-a" is pending because "limit of CPU"

  @id:quota.limit-gang
  Scenario: A gang that would pass the limit waits whole
    Given these queues:
      | queue  | quota | limit |
      | team-a | 8     | 8     |
    And 2 pods "work" with 1 GPU each are submitted to queue "team-a"
    And queue "team-a" has 2 running pods
    When a gang "train" of 7 pods with 1 GPU each is submitted to queue "team-a"
    Then gang "train" has 7 pending pods and stays so for 5 cycles
    And gang "train" is pending because "Limit is 8 GPUs, currently 2 GPUs allocated and workload requested 7 GPUs"
