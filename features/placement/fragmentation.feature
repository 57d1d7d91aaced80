@placement @consolidation
Feature: Consolidation brings unusable free GPUs together

  Background:
    Given a fleet of 2 nodes with 8 GPUs each
    And a queue "team" with a quota of 16

  Scenario: Two half-full nodes are consolidated for a pod that needs a whole node
    Given these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | a    | deployment | team  | 1    | 4    | train    |
    And deployment "a" is running
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | b    | deployment | team  | 1    | 4    | train    |
    And deployment "b" is running
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | c    | deployment | team  | 1    | 4    | train    |
    And deployment "c" is running
    When deployment "b" is deleted
    And everything has settled
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | all  | deployment | team  | 1    | 8    | train    |
    Then deployment "all" is running and stays so for 5 cycles
    And deployment "a" is running
    And deployment "c" is running
    And 1 pod of the cluster was evicted
    And 1 pod of the cluster was evicted with "resource consolidation"
    And the placement matches its snapshot

  Scenario: No pod is moved if that would not be enough
    Given these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | a    | deployment | team  | 1    | 5    | train    |
    And deployment "a" is running
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | b    | deployment | team  | 1    | 3    | train    |
    And deployment "b" is running
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | c    | deployment | team  | 1    | 5    | train    |
    And deployment "c" is running
    When deployment "b" is deleted
    And everything has settled
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | big  | deployment | team  | 1    | 6    | train    |
    Then deployment "big" is pending because "2 node(s) didn't have enough resources: GPUs"
    And for 10 minutes no pods of the cluster were evicted

  Scenario: Non-preemptible pods are not moved
    Given these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | a    | deployment | team  | 1    | 4    | build    |
    And deployment "a" is running
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | b    | deployment | team  | 1    | 4    | build    |
    And deployment "b" is running
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | c    | deployment | team  | 1    | 4    | build    |
    And deployment "c" is running
    When deployment "b" is deleted
    And everything has settled
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | all  | deployment | team  | 1    | 8    | train    |
    Then deployment "all" is pending
    And for 10 minutes no pods of the cluster were evicted

  Scenario: No pod is moved under the spread strategy
    Given the placement strategy "spread"
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | a    | deployment | team  | 1    | 4    | train    |
    And deployment "a" is running
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | c    | deployment | team  | 1    | 4    | train    |
    And deployment "c" is running
    When these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | all  | deployment | team  | 1    | 8    | train    |
    Then deployment "all" is pending
    And for 10 minutes no pods of the cluster were evicted

  @gang @bug-kueue-4329
  Scenario: Quota and free GPUs for a gang are not enough: its pods need nodes with room
    Given these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | a    | deployment | team  | 1    | 3    | build    |
    And deployment "a" is running
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | b    | deployment | team  | 1    | 5    | build    |
    And deployment "b" is running
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | priority |
      | c    | deployment | team  | 1    | 3    | build    |
    And deployment "c" is running
    When deployment "b" is deleted
    And everything has settled
    And these workloads are submitted:
      | name | kind | queue | pods | gpus |
      | ring | gang | team  | 5    | 2    |
    Then gang "ring" is pending because "Resources were found for 4 pods while 5 are required for gang scheduling"
    And for 10 minutes 10 GPUs are free
    And no pods of the cluster were evicted
    When deployment "a" is deleted
    Then gang "ring" is running
