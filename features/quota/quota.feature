@quota
Feature: A queue gets its quota

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue         | parent     | quota |
      | ai-factory    |            | 32    |
      | team-research | ai-factory | 8     |
      | team-prod     | ai-factory | 8     |

  Scenario: Two teams fill their quota
    When 8 pods "research" with 1 GPU each are submitted to queue "team-research"
    And 8 pods "prod" with 1 GPU each are submitted to queue "team-prod"
    Then queue "team-research" has 8 running pods and stays so for 5 cycles
    And queue "team-prod" has 8 running and no pending pods
    And queue "ai-factory" uses 16 GPUs
    And no pods of the cluster were evicted
    And the placement matches its snapshot
