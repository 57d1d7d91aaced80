@borrowing
Feature: Idle GPUs are lent

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue         | parent     | quota | limit |
      | ai-factory    |            | 32    |       |
      | team-research | ai-factory | 16    |       |
      | team-prod     | ai-factory | 16    | 24    |

  Scenario: A team borrows its idle sibling's GPUs up to its own limit
    When 32 pods "prod" with 1 GPU each are submitted to queue "team-prod"
    Then queue "team-prod" has 24 running and 8 pending pods
    And queue "team-prod" is pending because "quota has reached the allowable limit of GPUs"
    And queue "team-prod" uses 24 GPUs
    And for 10 minutes 8 GPUs are free

  Scenario: Non-preemptible work may not borrow
    When 20 non-preemptible pods "serve" with 1 GPU each are submitted to queue "team-research"
    Then queue "team-research" has 16 running and 4 pending pods
    And queue "team-research" is pending because "Non-preemptible workload is over quota"
