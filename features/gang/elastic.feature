@gang @elastic
Feature: An elastic gang runs between its minimum and all of its pods

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 32    |

  @id:gang.elastic-grows
  Scenario: An elastic gang starts with the free GPUs and grows as more become free
    Given 26 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 26 running pods
    When these workloads are submitted:
      | name    | kind | queue    | pods | gpus | min |
      | elastic | gang | training | 10   | 1    | 4   |
    Then gang "elastic" has 6 running and 4 pending pods
    When 3 pods of pod "filler" finish
    Then gang "elastic" has 9 running and 1 pending pods

  @id:gang.elastic-minimum
  Scenario: An elastic gang does not start below its minimum
    Given 29 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 29 running pods
    When these workloads are submitted:
      | name    | kind | queue    | pods | gpus | min |
      | elastic | gang | training | 10   | 1    | 4   |
    Then gang "elastic" has 10 pending pods and stays so for 5 cycles
    And gang "elastic" is pending because "Resources were found for 3 pods while 4 are required for gang scheduling"
    When 1 pod of pod "filler" finishes
    Then gang "elastic" has 4 running and 6 pending pods

  Scenario: Every gang gets its minimum before any gets more
    Given 20 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 20 running pods
    When these workloads are submitted:
      | name | kind | queue    | pods | gpus | min |
      | a    | gang | training | 12   | 1    | 4   |
      | b    | gang | training | 12   | 1    | 4   |
      | c    | gang | training | 12   | 1    | 4   |
    Then gang "a" has 4 running and 8 pending pods
    And gang "b" has 4 running and 8 pending pods
    And gang "c" has 4 running and 8 pending pods
    And the placement matches its snapshot

  Scenario: Surplus pods of an elastic gang may fail without an eviction of the others
    Given these workloads are submitted:
      | name    | kind | queue    | pods | gpus | min |
      | elastic | gang | training | 6    | 1    | 4   |
    And gang "elastic" has 6 running pods
    When 2 pods of gang "elastic" fail
    Then for 10 minutes gang "elastic" has 4 running pods
    When 1 pod of gang "elastic" fails
    Then eventually within 2 minutes gang "elastic" has no running pods

  Scenario: An elastic gang grows up to the limit of its queue
    Given these queues:
      | queue  | quota | limit |
      | narrow | 4     | 6     |
    When these workloads are submitted:
      | name    | kind | queue  | pods | gpus | min |
      | elastic | gang | narrow | 10   | 1    | 4   |
    Then gang "elastic" has 6 running and 4 pending pods and stays so for 5 cycles
    And gang "elastic" is pending because "narrow quota has reached the allowable limit of GPUs. Limit is 6 GPUs, currently 6 GPUs allocated and workload requested 1 GPUs"
