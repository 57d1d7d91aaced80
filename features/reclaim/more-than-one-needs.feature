@reclaim
Feature: GPUs freed beyond the need of the reclaiming job go to other jobs

  Background:
    Given a fleet of 1 node with 8 GPUs each

  Scenario: A lent gang leaves for the first of several jobs of the owner
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

  Scenario: Only as many large pods leave as the owner's small ones need
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
