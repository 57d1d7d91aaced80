@placement
Feature: Nodes that are reserved for workloads by role labels

  Background:
    Given a fleet:
      | pool | nodes | gpus | labels                                  |
      | gpu  | 1     | 2    | node-role.kubernetes.io/gpu-worker=true |
      | cpu  | 1     | 2    | node-role.kubernetes.io/cpu-worker=true |
      | none | 1     | 2    |                                         |
    And a queue "team" with a quota of 8
    And the scheduler's configuration:
      """yaml
      restrictNodeScheduling: true
      """

  Scenario: Work with GPUs goes to GPU workers, other work to CPU workers
    When these workloads are submitted:
      | name  | queue | pods | gpus |
      | train | team  | 2    | 1    |
      | web   | team  | 2    | 0    |
    Then pod "train" is on node "gpu-1"
    And pod "web" is on node "cpu-1"

  Scenario: Work with GPUs waits though other nodes have them free
    When these workloads are submitted:
      | name  | queue | pods | gpus |
      | train | team  | 3    | 1    |
    Then pod "train" has 2 running and 1 pending pods and stays so for 5 cycles
    And 4 GPUs are free
