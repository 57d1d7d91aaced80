@robustness @crash
Feature: A scheduler that crashes loses and repeats nothing

  Background:
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 8     |
      | guests   | 0     |

  Scenario Outline: A gang starts whole though the scheduler dies before write <write> of its start
    Given the scheduler dies before its write number <write> and is restarted
    When a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    Then gang "train" has 4 running pods and stays so for 5 cycles
    And the scheduler has died <deaths> times
    And 4 events of gang "train" say "Scheduled"
    And no pods of the cluster were evicted
    And 12 GPUs are free

    Examples: each of the writes, and one more than there are
      | write | deaths |
      | 1     | 1      |
      | 2     | 1      |
      | 3     | 1      |
      | 4     | 1      |
      | 5     | 1      |
      | 6     | 1      |
      | 7     | 1      |
      | 8     | 1      |
      | 9     | 1      |
      | 10    | 1      |
      | 11    | 1      |
      | 12    | 0      |

  @reclaim
  Scenario Outline: The owner gets its share though the scheduler dies before write <write> of a reclaim
    Given these workloads are submitted:
      | name     | kind | queue  | pods | gpus | grace | termination |
      | borrowed | pod  | guests | 16   | 1    | 60    | 30s         |
    And pod "borrowed" is running
    And the scheduler dies before its write number <write> and is restarted
    When a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    Then eventually within 2 minutes gang "train" has 4 running pods
    And gang "train" has 4 running pods and stays so for 5 cycles
    And the scheduler has died <deaths> times
    And queue "guests" has 12 running pods
    And 4 pods of queue "guests" were evicted for gang "train"
    And 4 pods of queue "guests" were evicted

    Examples: each of the writes
      | write | deaths |
      | 1     | 1      |
      | 2     | 1      |
      | 3     | 1      |
      | 4     | 1      |
      | 5     | 1      |
      | 6     | 1      |
      | 7     | 1      |
      | 8     | 1      |
      | 9     | 1      |
      | 10    | 1      |
      | 11    | 1      |
      | 12    | 1      |
      | 13    | 1      |
      | 14    | 1      |
      | 15    | 1      |
      | 16    | 1      |
      | 17    | 1      |
      | 18    | 1      |
      | 19    | 1      |
      | 20    | 1      |
      | 21    | 1      |
      | 22    | 1      |
      | 23    | 1      |
      | 24    | 1      |
      | 25    | 1      |
      | 26    | 1      |
      | 27    | 1      |
      | 28    | 1      |
      | 29    | 1      |
      | 30    | 1      |
      | 31    | 1      |
      | 32    | 1      |
      | 33    | 1      |
      | 34    | 1      |
      | 35    | 1      |
      | 36    | 1      |
      | 37    | 1      |
      | 38    | 1      |
      | 39    | 1      |
      | 40    | 1      |
      | 41    | 1      |
      | 42    | 1      |
      | 43    | 1      |
      | 44    | 1      |
      | 45    | 1      |
      | 46    | 1      |
      | 47    | 1      |
      | 48    | 1      |
      | 49    | 1      |

    @virtual-time
    Examples: one more than there are, where what takes 30 seconds takes as many cycles each time
      | write | deaths |
      | 50    | 0      |

  @reclaim
  Scenario Outline: A scheduler that dies after every <writes> writes still places and reclaims
    Given the scheduler dies after every <writes> writes
    And 16 pods "borrowed" with 1 GPU each are submitted to queue "guests"
    And pod "borrowed" is running
    When a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    Then gang "train" has 4 running pods and stays so for 5 cycles
    And 4 pods of queue "guests" were evicted
    And queue "guests" has 12 running pods
    And the scheduler has died at least 3 times

    Examples:
      | writes |
      | 4      |
      | 5      |
      | 7      |
      | 13     |

  @bug-kubernetes-106361
  @id:robustness.restart-counts-bound
  Scenario: A new scheduler counts pods that are bound and have not started
    Given these workloads are submitted:
      | name | kind | queue  | pods | gpus | startup |
      | slow | pod  | guests | 16   | 1    | 5m      |
    And 2 seconds pass
    When the scheduler is restarted
    And 4 pods "late" with 1 GPU each are submitted to queue "guests"
    Then after 1 minute pod "slow" has 16 starting pods
    And now pod "late" has 4 pending pods
    And pod "late" is pending because "didn't have enough resources: GPUs"
    And pod "slow" has 16 running pods

  @id:robustness.restart-learns
  Scenario: A new scheduler learns what happened while none ran
    Given 16 pods "a" with 1 GPU each are submitted to queue "guests"
    And pod "a" is running
    And 8 pods "b" with 1 GPU each are submitted to queue "guests"
    And pod "b" has 8 pending pods
    When the scheduler is stopped
    And 6 pods of pod "a" finish
    And 2 pods of pod "b" are deleted
    And a node "node-3" with 1 GPU is added
    And the scheduler is started
    Then pod "b" has 6 running pods
    And 1 GPU is free
