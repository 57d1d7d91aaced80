@placement @volumes
Feature: Volumes by requests of another scheduler
  KAI's scheduler leaves it to the binder to bind the volumes of a pod: what waits for its first
  consumer is bound on the node of the request, and the pod is bound after it.

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

  Scenario: A pod gets the disk of its node once there is one
    Given the manifest "volumes/disk-claim.yaml" is applied
    When the manifest "volumes/theirs.yaml" is applied
    Then pod "theirs" is pending because "Failed to bind pod default/theirs to node b-1: node b-1 has no volume for persistentvolumeclaim default/data"
    When the manifest "volumes/disk.yaml" is applied
    Then eventually within 1 minute pod "theirs" is running
    And pod "theirs" is on node "b-1"

  Scenario: A pod waits until its volume has been made where it goes
    Given the manifest "volumes/cloud-claim.yaml" is applied
    When the manifest "volumes/theirs.yaml" is applied
    Then pod "theirs" is pending and stays so for 20 cycles
    When the manifest "volumes/made.yaml" is applied
    Then eventually within 1 minute pod "theirs" is running
