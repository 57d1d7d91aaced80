@gang
Feature: The status of a PodGroup shows what its pods use and request
  Users and dashboards read `status.resourcesStatus` of the PodGroup.

  Background:
    Given a fleet of 1 node with 3 GPUs each
    And a queue "team" with a quota of 3

  Scenario: Running pods count as allocated, waiting pods as requested
    When these workloads are submitted:
      | name  | kind | queue | pods | min | gpus | preemptible |
      | train | gang | team  | 4    | 1   | 1    | yes         |
    Then gang "train" has 3 running and 1 pending pods
    And the field "status.resourcesStatus.allocated.nvidia.com/gpu" of gang "train" is "3"
    And the field "status.resourcesStatus.requested.nvidia.com/gpu" of gang "train" is "4"
    And the field "status.resourcesStatus.allocatedNonPreemptible.nvidia.com/gpu" of gang "train" is ""
    When 3 pods of gang "train" finish
    Then gang "train" has 1 running pod
    And the field "status.resourcesStatus.allocated.nvidia.com/gpu" of gang "train" is "1"

  Scenario: Non-preemptible usage is reported separately
    When these workloads are submitted:
      | name  | kind | queue | pods | gpus | preemptible |
      | serve | gang | team  | 2    | 1    | no          |
    Then gang "serve" has 2 running pods
    And the field "status.resourcesStatus.allocatedNonPreemptible.nvidia.com/gpu" of gang "serve" is "2"
