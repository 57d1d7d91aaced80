@placement @volumes
Feature: Volumes of pods with BindRequests of another scheduler
  KAI's scheduler leaves the binding of volumes to the binder: a volume that waits for its first
  consumer is bound for the node of the BindRequest, and the pod is bound afterwards.

  Background:
    Given a fleet:
      | pool | nodes | gpus | labels                        |
      | a    | 2     | 8    | topology.kubernetes.io/zone=a |
      | b    | 2     | 8    | topology.kubernetes.io/zone=b |
    And the scheduler's configuration:
      """yaml
      binding: requests
      """
    And the manifest "volumes/classes.yaml" is applied

  Scenario: A pod gets the local volume of its node once there is one
    Given the manifest "volumes/disk-claim.yaml" is applied
    When the manifest "volumes/theirs.yaml" is applied
    Then pod "theirs" is pending because "Failed to bind pod default/theirs to node b-1: node b-1 has no volume for persistentvolumeclaim default/data"
    When the manifest "volumes/disk.yaml" is applied
    Then eventually within 1 minute pod "theirs" is running
    And pod "theirs" is on node "b-1"

  Scenario: A pod waits until its volume is provisioned for its node
    Given the manifest "volumes/cloud-claim.yaml" is applied
    When the manifest "volumes/theirs.yaml" is applied
    Then pod "theirs" is pending and stays so for 20 cycles
    When the manifest "volumes/made.yaml" is applied
    Then eventually within 1 minute pod "theirs" is running
