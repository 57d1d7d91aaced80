@placement
Feature: A node runs at most its number of allocatable pods

  @id:placement.pods-per-node
  Scenario: The fifth pod goes to the next node, the ninth waits
    Given a fleet:
      | pool | nodes | gpus | pods |
      | n    | 2     | 8    | 4    |
    # slack: 16
    And a queue "team" with a quota of 16
    When 9 pods "work" with 1 GPU each are submitted to queue "team"
    Then node "n-1" has 4 running pods
    And node "n-2" has 4 running pods
    And queue "team" has 8 running and 1 pending pods
    And queue "team" is pending because "2 node(s) didn't have enough resources: pods"
    And 8 GPUs are free
