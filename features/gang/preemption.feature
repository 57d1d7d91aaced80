@gang @preemption
Feature: A gang is evicted whole or not at all

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 32    |
      | other    | 0     |

  @id:preemption.gang-evicted-whole
  Scenario: A gang is evicted whole even if one member's GPUs would be enough
    Given these workloads are submitted:
      | name | kind | queue    | pods | gpus | priority |
      | low  | gang | training | 32   | 1    | 50       |
    And gang "low" is running
    When these workloads are submitted:
      | name   | kind | queue    | pods | gpus | priority |
      | urgent | pod  | training | 1    | 1    | 75       |
    Then pod "urgent" has 1 running pods
    And 32 pods of gang "low" were evicted for pod "urgent"

  Scenario: A gang does not evict others if not all of its pods would fit
    Given these workloads are submitted:
      | name | kind | queue    | pods | gpus | priority |
      | safe | pod  | training | 24   | 1    | build    |
      | low  | pod  | training | 8    | 1    | 50       |
    And queue "training" has 32 running pods
    When these workloads are submitted:
      | name   | kind | queue    | pods | gpus | priority |
      | urgent | gang | training | 9    | 1    | 75       |
    Then gang "urgent" has 9 pending pods and stays so for 5 cycles
    And no pods of the cluster were evicted

  @bug-armada-4232
  Scenario: A gang that loses a race for GPUs in one cycle is placed whole or not at all
    Given these workloads are submitted:
      | name   | kind | queue    | pods | gpus | min | priority |
      | low    | gang | training | 20   | 1    | 20  | 50       |
      | high   | pod  | training | 16   | 1    |     | 75       |
    Then pod "high" has 16 running pods
    And gang "low" has 20 pending pods and stays so for 5 cycles
    And gang "low" is pending because "Resources were found for 16 pods while 20 are required for gang scheduling"
    And no pods of the cluster were evicted

  Scenario: A borrowing gang gives back all of its GPUs
    Given a gang "guest" of 20 pods with 1 GPU each is submitted to queue "other"
    And gang "guest" is running
    When a gang "owner" of 16 pods with 1 GPU each is submitted to queue "training"
    Then gang "owner" has 16 running pods
    And 20 pods of gang "guest" were evicted for gang "owner"
