@robustness @crash
Feature: With BindRequests, nothing is lost between scheduler and binder

  Background:
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 8     |
      | guests   | 0     |
    And pods are bound by requests

  Scenario Outline: A gang starts whole though scheduler and binder die before write <write> of its start
    Given the scheduler dies before its write number <write> and is restarted
    When a gang "train" of 2 pods with 1 GPU each is submitted to queue "training"
    Then gang "train" has 2 running pods and stays so for 5 cycles
    And the scheduler has died <deaths> times
    And 2 events of gang "train" say "Scheduled"
    And 2 events of gang "train" say "Bound"
    And no pods of the cluster were evicted
    And 14 GPUs are free

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
      | 12    | 1      |
      | 13    | 1      |
      | 14    | 1      |
      | 15    | 1      |
      | 16    | 0      |

  Scenario: The owner gets its share by requests too
    Given these workloads are submitted:
      | name     | kind | queue  | pods | gpus | termination |
      | borrowed | pod  | guests | 16   | 1    | 30s         |
    And pod "borrowed" is running
    When a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    Then eventually within 2 minutes gang "train" has 4 running pods
    And 4 pods of queue "guests" were evicted
    And queue "guests" has 12 running pods

  Scenario Outline: Scheduler and binder that die after every <writes> writes still get on
    Given the scheduler dies after every <writes> writes
    When a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    Then gang "train" has 4 running pods and stays so for 5 cycles
    And 12 GPUs are free
    And the scheduler has died at least 2 times

    Examples:
      | writes |
      | 4      |
      | 7      |
