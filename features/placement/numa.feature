@placement @numa @virtual-time
Feature: NUMA zones of nodes
  A topology updater publishes the NUMA zones of a node (`NodeResourceTopology`). A kubelet rejects
  pods that it cannot align with them, so the scheduler does not bind such pods to the node.

  Background:
    Given a fleet:
      | pool | nodes | gpus | cpu |
      | n    | 2     | 2    | 64  |
    And a queue "team" with a quota of 8
    And the manifest "placement/zones.yaml" is applied

  Scenario: Pods with CPUs of their own go where one zone has them, and no zone is overfilled
    When the manifest "placement/pinned.yaml" is applied
    Then node "n-1" has 2 running pods
    And queue "team" has 2 running and 1 pending pods and stays so for 5 cycles
    And queue "team" is pending because "cannot NUMA-align the pod's resources"
    When pod "pinned-0" is deleted
    Then node "n-1" has 2 running pods
    And queue "team" has 2 running pods

  Scenario: Devices of two zones are not given to one pod
    When 1 pod "pair" with 2 GPUs each is submitted to queue "team"
    Then pod "pair" is pending because "cannot NUMA-align the pod's resources"
    When 4 pods "single" with 1 GPU each are submitted to queue "team"
    Then pod "single" has 4 running pods

  Scenario: A NodeResourceTopology that changes counts from then on
    Given the manifest "placement/pinned.yaml" is applied
    And queue "team" has 2 running and 1 pending pods
    When this manifest is applied:
      """
      apiVersion: topology.node.k8s.io/v1alpha2
      kind: NodeResourceTopology
      metadata: {name: n-2}
      attributes: [{name: topologyManagerPolicy, value: none}]
      zones: []
      """
    Then queue "team" has 3 running pods
    And node "n-2" has 1 running pod

  Scenario: Predicted NUMA zones also hold with BindRequests
    Given pods are bound by requests
    When the manifest "placement/pinned.yaml" is applied
    Then node "n-1" has 2 running pods
    And queue "team" has 2 running and 1 pending pods and stays so for 5 cycles
