@gang
Feature: The members of a gang need not be alike

  Background:
    Given a queue "training" with a quota of 32

  @bug-kuberay-1752
  Scenario: A head and its workers each find a node that suits them
    Given a fleet:
      | pool    | nodes | gpus | cpu |
      | workers | 2     | 8    | 16  |
      | heads   | 1     | 0    | 64  |
    When the manifest "gang/head-and-workers.yaml" is applied
    Then gang "ray" is running
    And pod "ray-head" is on node "heads-1"
    And gang "ray" is on 3 nodes

  Scenario: Workers do not start where their head finds no node
    Given a fleet:
      | pool    | nodes | gpus | cpu |
      | workers | 2     | 8    | 16  |
    When the manifest "gang/head-and-workers.yaml" is applied
    Then gang "ray" has 3 pending pods and stays so for 5 cycles
    And 16 GPUs are free
    And gang "ray" is pending because "CPU"

  @bug-scheduler-plugins-930
  Scenario: One member without a node keeps the whole gang from starting
    Given a fleet of 2 nodes with 8 GPUs each
    When the manifest "gang/one-is-choosy.yaml" is applied
    Then gang "train" has 3 pending pods and stays so for 5 cycles
    And gang "train" is pending because "while 3 are required for gang scheduling"
    And 16 GPUs are free
    When the label "rack" of node "node-2" becomes "r7"
    Then gang "train" is running
    And pod "train-2" is on node "node-2"
