@reclaim
Feature: GPUs freed beyond the need of the reclaiming job go to other jobs

  Background:
    Given a fleet of 1 node with 8 GPUs each

  Scenario: A borrowing gang is evicted for the first of the owner's jobs
    Given these queues:
      | queue    | quota |
      | owner    | 8     |
      | borrower | 0     |
    And these workloads are submitted:
      | name | kind | queue    | pods | gpus | min |
      | lent | gang | borrower | 8    | 1    | 8   |
    And gang "lent" is running
    When 4 pods "owned" with 1 GPU each are submitted to queue "owner"
    Then eventually within 2 minutes queue "owner" has 4 running pods and stays so for 5 cycles
    And 8 pods of queue "borrower" were evicted

  Scenario: Only as many large pods are evicted as the owner's small pods need
    Given these queues:
      | queue    | quota |
      | owner    | 8     |
      | borrower | 0     |
    And these workloads are submitted:
      | name | kind | queue    | pods | gpus |
      | lent | pod  | borrower | 4    | 2    |
    And queue "borrower" has 4 running pods
    When 2 pods "owned" with 1 GPU each are submitted to queue "owner"
    Then eventually within 2 minutes queue "owner" has 2 running pods and stays so for 5 cycles
    And 1 pod of queue "borrower" was evicted
