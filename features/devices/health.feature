@placement
Feature: An unhealthy GPU is given to no pod
  The kubelet takes an unhealthy GPU of a device plugin out of the node's allocatable ones, and a driver
  withdraws a published device. A pod that has the GPU keeps running.

  Background:
    # slack: quota 8
    Given these queues:
      | queue  | quota |
      | team-a | 8     |

  @id:devices.unhealthy
  Scenario: The pods of a node keep running, and new ones wait for a healthy GPU
    Given a fleet of 1 node with 4 GPUs each
    And 3 pods "work" with 1 GPU each are submitted to queue "team-a"
    And pod "work" has 3 running pods
    When GPU 0 of node "node-1" becomes unhealthy
    Then the field "status.allocatable.nvidia.com/gpu" of node "node-1" is "3"
    And the field "status.capacity.nvidia.com/gpu" of node "node-1" is "4"
    When 1 pod "late" with 1 GPU each is submitted to queue "team-a"
    Then pod "late" is pending and stays so for 5 cycles
    And pod "work" has 3 running pods
    And no pods of the cluster were evicted
    When GPU 0 of node "node-1" becomes healthy
    Then pod "late" is running

  @id:devices.one-node
  Scenario: GPUs of two nodes do not serve one pod
    Given a fleet of 2 nodes with 8 GPUs each
    And 2 pods "large" with 5 GPUs each are submitted to queue "team-a"
    And pod "large" has 2 running pods
    When 1 pod "late" with 4 GPUs each is submitted to queue "team-a"
    Then pod "late" has 1 pending pod and stays so for 5 cycles
    And 6 GPUs are free
    When 1 pod of pod "large" is deleted
    Then pod "late" has 1 running pod
    And 7 GPUs are free

  Scenario: A gang goes to the node whose GPUs are healthy
    Given a fleet of 2 nodes with 4 GPUs each
    When 2 GPUs of node "node-1" become unhealthy
    And a gang "train" of 1 pod with 4 GPUs each is submitted to queue "team-a"
    Then node "node-2" has 1 running pod

  @claims
  @id:devices.claim-withdrawn
  Scenario: A published device that is withdrawn is allocated to no claim
    Given a fleet:
      | pool | nodes | gpus | gpus by |
      | p    |       | 4    | claim   |
    And the manifest "claims/template.yaml" is applied
    When 2 GPUs of node "p" become unhealthy
    And the manifest "claims/four-pods.yaml" is applied
    Then queue "team-a" has 2 running and 2 pending pods and stays so for 5 cycles
    When GPU 0 of node "p" becomes healthy
    Then queue "team-a" has 3 running and 1 pending pods
