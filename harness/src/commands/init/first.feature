Feature: A gang and a queue
  Two nodes with 8 GPUs each, and a team that may use 12 of their 16 GPUs.

  Background:
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue  | quota | limit |
      | team-a | 8     | 12    |

  Scenario: A gang within the limit of its queue starts whole
    When a gang "training" of 3 pods with 4 GPUs each is submitted to queue "team-a"
    Then eventually within 1 minute gang "training" is running
    And queue "team-a" has 3 running pods

  Scenario: A gang beyond the limit of its queue waits whole
    When a gang "training" of 4 pods with 4 GPUs each is submitted to queue "team-a"
    Then never within 1 hour queue "team-a" has at least 1 running pod
