@reclaim
Feature: An owner gets its GPUs back

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue         | parent     | quota |
      | ai-factory    |            | 32    |
      | team-research | ai-factory | 16    |
      | team-prod     | ai-factory | 16    |

  Scenario: The borrower gives back what the owner needs and no more
    Given 32 pods "borrow" with 1 GPU each are submitted to queue "team-prod"
    And queue "team-prod" has 32 running pods
    When 10 pods "own" with 1 GPU each are submitted to queue "team-research"
    Then queue "team-research" has 10 running pods and stays so for 5 cycles
    And 10 pods of queue "team-prod" were evicted for queue "team-research"
    And the placement matches its snapshot
    And the events match their snapshot
