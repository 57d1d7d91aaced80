@placement
Feature: Nodes are bin-packed or spread

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And a queue "team" with a quota of 32

  @bin-packing
  Scenario: Bin-packing fills one node before the next
    When 2 pods "large" with 6 GPUs each are submitted to queue "team"
    And everything has settled
    And 2 pods "middle" with 3 GPUs each are submitted to queue "team"
    And everything has settled
    And 6 pods "small" with 1 GPU each are submitted to queue "team"
    Then node "node-1" has 0 free GPUs
    And 1 node has no GPU in use
    And the placement matches its snapshot

  Scenario: Spreading gives each node its part
    Given the placement strategy "spread"
    When these workloads are submitted:
      | name  | kind | queue | pods | gpus |
      | large | gang | team  | 2    | 4    |
    And everything has settled
    And these workloads are submitted:
      | name  | kind | queue | pods | gpus |
      | small | gang | team  | 8    | 1    |
    Then 0 nodes have no GPU in use
    And gang "small" is on 2 nodes
    And the placement matches its snapshot

  @bin-packing
  Scenario: Bin-packing leaves whole nodes to those that need them
    Given 12 pods "small" with 1 GPU each are submitted to queue "team"
    And queue "team" has 12 running pods
    When 2 pods "whole" with 8 GPUs each are submitted to queue "team"
    Then queue "team" has 14 running and no pending pods
    And no pods of the cluster were evicted

  @bin-packing
  Scenario: Work without GPUs keeps off the nodes that have some
    Given a node "cpu-1" with 0 GPUs is added
    When these workloads are submitted:
      | name | kind       | queue | pods | cpu |
      | web  | deployment | team  | 4    | 2   |
    Then deployment "web" is running
    And deployment "web" is on node "cpu-1"

  @bin-packing
  Scenario: Work without GPUs goes to GPU nodes if no other node fits
    Given a node "cpu-1" with 0 GPUs is added
    And node "cpu-1" is cordoned
    When these workloads are submitted:
      | name | kind       | queue | pods | cpu |
      | web  | deployment | team  | 4    | 2   |
    Then deployment "web" is running
    And deployment "web" is on 1 node
    And deployment "web" is not on node "cpu-1"
