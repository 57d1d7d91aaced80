@reclaim
Feature: A job that can never run does not block its queue

  Background:
    Given a fleet of 1 node with 8 GPUs each

  Scenario Outline: The first job of the owner <why>
    Given these queues:
      | queue    | quota | limit |
      | borrower | 4     | 8     |
      | owner    | 4     | 6     |
    And these workloads are submitted:
      | name | kind       | queue    | pods | gpus | priority |
      | lent | deployment | borrower | 8    | 1    | train    |
    And queue "borrower" has 8 running pods
    When these workloads are submitted:
      | name  | kind | queue | pods   | gpus   | priority   | node selector |
      | stuck | gang | owner | <pods> | <gpus> | <priority> | <selector>    |
    And 4 pods "owned" with 1 GPU each are submitted to queue "owner"
    Then eventually within 5 minutes pod "owned" has 4 running pods and stays so for 5 cycles
    And queue "borrower" has 4 running pods
    And 4 pods of queue "borrower" were evicted

    Examples:
      | why                                    | pods | gpus | priority | selector |
      | is beyond the limit of its queue       | 7    | 1    | train    |          |
      | may not borrow and is beyond the quota | 5    | 1    | build    |          |
      | wants nodes that there are not         | 6    | 1    | train    | zone=z   |
      | is larger than every node              | 1    | 9    | train    |          |
