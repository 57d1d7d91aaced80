@placement
Feature: The least-fragmentation strategy keeps GPUs usable for pending pods

  Background:
    Given a fleet:
      | pool | nodes | gpus | cpu |
      | n    | 2     | 2    | 16  |
    And these queues:
      | queue | quota | limit |
      | team  | 4     | 4     |
      | later | 0     | 0     |

  Scenario Outline: Work without GPUs goes to <node> by strategy <strategy>
    Given the placement strategy "<strategy>"
    And node "n-2" is cordoned
    And these workloads are submitted:
      | name | kind | queue | pods | cpu |
      | web  | pod  | team  | 1    | 2   |
    And pod "web" is running
    When node "n-2" is uncordoned
    And node "n-1" is cordoned
    And these workloads are submitted:
      | name  | kind | queue | pods | gpus | cpu |
      | train | pod  | team  | 1    | 2    | 1   |
    And everything has settled
    And node "n-1" is uncordoned
    # The pods are pending, and would fit on n-1 with 7 cores for each of its GPUs.
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | cpu |
      | next | deployment | later | 3    | 1    | 7   |
    And everything has settled
    And these workloads are submitted:
      | name  | kind | queue | pods | cpu |
      | batch | pod  | team  | 1    | 6   |
    Then pod "batch" is on node "<node>"

    Examples:
      | strategy            | node |
      | bin-pack            | n-1  |
      | least-fragmentation | n-2  |
