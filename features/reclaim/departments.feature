@reclaim
Feature: Reclaim compares queues below their common ancestor

  Background:
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue        | parent       | quota |
      | department-1 |              | 8     |
      | team-1a      | department-1 | 4     |
      | team-1b      | department-1 | 4     |
      | department-2 |              | 8     |
      | team-2       | department-2 | 8     |

  @id:fairness.departments
  Scenario: A department takes back what another's team borrowed
    Given 16 pods "borrowed" with 1 GPU each are submitted to queue "team-2"
    And queue "team-2" has 16 running pods
    When 8 pods "owned" with 1 GPU each are submitted to queue "team-1a"
    Then eventually within 2 minutes queue "team-1a" has 8 running pods and stays so for 5 cycles
    And queue "department-2" uses 8 GPUs

  @id:fairness.sibling-first
  Scenario: A team takes back from its sibling before the department counts
    Given 8 pods "sibling" with 1 GPU each are submitted to queue "team-1b"
    And 8 pods "other" with 1 GPU each are submitted to queue "team-2"
    And the cluster has 16 running pods
    When 4 pods "owned" with 1 GPU each are submitted to queue "team-1a"
    Then eventually within 2 minutes queue "team-1a" has 4 running pods and stays so for 5 cycles
    And 4 pods of queue "team-1b" were evicted for queue "team-1a"
    And no pods of queue "team-2" were evicted
