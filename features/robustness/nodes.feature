@robustness @nodes
Feature: Nodes are added and removed while pods run

  Background:
    Given a fleet of 3 nodes with 8 GPUs each
    # slack: quota 24
    And these queues:
      | queue    | quota |
      | training | 24    |

  @virtual-time
  Scenario: A gang restarts elsewhere when one of its nodes fails
    Given the manifest "gang/patient-job.yaml" is applied
    And job "train" has 16 running pods
    And job "train" is on 2 nodes
    When node "node-1" dies
    Then eventually within 2 minutes node "node-1" is not ready
    And after 16 minutes job "train" has 16 running and 8 terminating pods
    And no pods of the cluster were evicted
    And the placement matches its snapshot

  @virtual-time
  @id:robustness.not-ready-node
  Scenario: No pod is placed on a node that is not ready
    Given node "node-1" dies
    And 2 minutes pass
    When 20 pods "work" with 1 GPU each are submitted to queue "training"
    Then pod "work" has 16 running and 4 pending pods and stays so for 5 cycles
    And pod "work" is not on node "node-1"
    And pod "work" is pending because "1 node(s) were not ready"
    When node "node-1" returns
    Then pod "work" has 20 running pods

  @bug-kubernetes-63262
  @id:robustness.node-replaced
  Scenario: A node that is deleted and added again under its name starts clean
    Given 24 pods "old" with 1 GPU each are submitted to queue "training"
    And pod "old" is running
    When node "node-2" is deleted
    And 1 minute passes
    Then pod "old" has 16 running pods
    When node "node-2" is added again
    And 10 pods "new" with 1 GPU each are submitted to queue "training"
    Then pod "new" has 8 running and 2 pending pods
    And pod "new" is on node "node-2"
    And the placement matches its snapshot

  @bin-packing @bug-kubernetes-94437
  Scenario: A deleted node has no capacity and appears in no reason
    Given 16 pods "old" with 1 GPU each are submitted to queue "training"
    And pod "old" is running
    And pod "old" is on 2 nodes
    When node "node-1" is deleted
    And 20 pods "new" with 1 GPU each are submitted to queue "training"
    And 1 minute passes
    Then pod "new" has 8 running and 12 pending pods
    And pod "new" is on node "node-3"
    And pod "new" is pending because "found: 2 node(s) didn't have enough resources: GPUs"

  @bug-kubernetes-140306
  Scenario: A member on a lost node does not count when the rest of its gang starts
    Given these workloads are submitted:
      | name  | kind | queue    | pods | gpus |
      | train | gang | training | 3    | 8    |
    And the scheduler dies before its write number 2
    When 2 seconds pass
    Then now gang "train" has 1 running and 2 pending pods
    When the node of gang "train" is deleted
    And the scheduler is started
    Then gang "train" has 2 pending pods and stays so for 5 cycles
    And gang "train" is pending because "Waiting for 3 pods, currently 2 exist, 0 are gated"
    When a node "node-4" with 8 GPUs is added
    And 1 minute passes
    And the manifest "gang/the-fourth.yaml" is applied
    Then gang "train" has 3 running pods

  @virtual-time
  Scenario: A node that returns in time keeps its pods
    Given a gang "train" of 24 pods with 1 GPU each is submitted to queue "training"
    And gang "train" is running
    When node "node-2" dies
    And 2 minutes pass
    And node "node-2" returns
    Then for 10 minutes gang "train" has 24 running pods
    And no pods of the cluster were evicted

  @bin-packing
  Scenario: A cordoned node keeps its pods and takes no more
    Given 4 pods "early" with 1 GPU each are submitted to queue "training"
    And pod "early" is running
    And pod "early" is on 1 node
    When node "node-1" is cordoned
    And 18 pods "late" with 1 GPU each are submitted to queue "training"
    Then pod "early" has 4 running pods
    And pod "late" has 16 running and 2 pending pods
    And pod "late" is not on node "node-1"
    When node "node-1" is uncordoned
    Then pod "late" has 18 running pods

  @id:placement.cordon
  Scenario: A cordoned node takes no pods until it is uncordoned
    Given node "node-1" is cordoned
    When 20 pods "work" with 1 GPU each are submitted to queue "training"
    Then pod "work" has 16 running and 4 pending pods and stays so for 5 cycles
    And pod "work" is not on node "node-1"
    When node "node-1" is uncordoned
    Then pod "work" has 20 running pods

  @virtual-time
  Scenario: The gang of a drained node restarts whole elsewhere
    Given the manifest "gang/patient-job.yaml" is applied
    And job "train" has 16 running pods
    And job "train" is on 2 nodes
    When node "node-1" is drained
    Then eventually within 5 minutes job "train" has 16 running pods
    And job "train" is not on node "node-1"

  @id:robustness.drain-with-budget
  Scenario: A pod that a budget protects leaves a drained node after its replacement runs
    Given this manifest is applied:
      """yaml
      apiVersion: policy/v1
      kind: PodDisruptionBudget
      metadata: {name: keep, namespace: default}
      spec: {minAvailable: 7, selector: {matchLabels: {app: web}}}
      """
    And these workloads are submitted:
      | name | kind       | queue    | pods | gpus | labels  |
      | web  | deployment | training | 8    | 1    | app=web |
    And workload "web" has 8 running pods
    When node "node-1" is drained
    Then queue "training" has 8 running pods
    And workload "web" is not on node "node-1"

  @id:robustness.no-execute
  Scenario: A NoExecute taint that no pod tolerates empties the node
    Given 24 pods "work" with 1 GPU each are submitted to queue "training"
    And pod "work" has 24 running pods
    Then 0 GPUs are free
    When node "node-3" is tainted with "gpu=broken:NoExecute"
    Then pod "work" has 16 running pods
    And node "node-3" has 8 free GPUs
    When 2 pods "more" with 1 GPU each are submitted to queue "training"
    Then pod "more" has 2 pending pods
    And pod "more" is pending because "untolerated taint {gpu: broken}"
    When the taint "gpu" of node "node-3" is removed
    Then pod "more" has 2 running pods
    And pod "more" is on node "node-3"
    And node "node-3" has 6 free GPUs

  @quota
  Scenario: Pods of a node that is deleted count until they go, too
    Given these queues:
      | queue | quota | limit |
      | a     | 8     | 8     |
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | preemptible |
      | w    | deployment | a     | 12   | 1    | yes         |
    And deployment "w" has 8 running and 4 pending pods
    When node "node-1" is deleted
    Then eventually within 2 minutes deployment "w" has 8 running pods and stays so for 5 cycles
