@workload-api @kubernetes-1.37 @GenericWorkload
Feature: Pods of a PodGroup of Kubernetes come and go

  Background:
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 16    |

  Scenario: A pod that is deleted and comes again starts beside the others
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 4    | 1    |
    And podgroup "train" has 4 running pods
    When pod "train-0" is deleted
    Then podgroup "train" has 3 running pods
    When these workloads are submitted:
      | name  | kind | queue    | gpus | group |
      | again | pod  | training | 1    | train |
    Then podgroup "train" has 4 running pods

  Scenario: A pod that comes again waits for a GPU that another pod took
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus | staleness grace |
      | train | podgroup | training | 16   | 1    | -1s             |
    And podgroup "train" has 16 running pods
    When pod "train-0" is deleted
    And these workloads are submitted:
      | name  | kind | queue    | gpus |
      | thief | pod  | training | 1    |
    Then pod "thief" is running
    When these workloads are submitted:
      | name  | kind | queue    | gpus | group | staleness grace |
      | again | pod  | training | 1    | train | -1s             |
    Then pod "again" is pending and stays so for 5 cycles
    And podgroup "train" has 15 running pods
    When pod "thief" is deleted
    Then eventually within 10 minutes podgroup "train" has 16 running pods

  Scenario: The condition of a group that was placed once stays
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 4    | 1    |
    And podgroup "train" has 4 running pods
    When 4 pods of podgroup "train" finish
    Then the field "status.conditions.0.status" of podgroup "train" is "True"
    When these workloads are submitted:
      | name | kind     | queue    | pods | gpus |
      | next | podgroup | training | 16   | 1    |
    Then podgroup "next" has 16 running pods
    And the field "status.conditions.0.status" of podgroup "next" is "True"

  Scenario: A group of which pods finish runs on
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 4    | 1    |
    And podgroup "train" has 4 running pods
    When 2 pods of podgroup "train" finish
    Then podgroup "train" has 2 succeeded and 2 running pods and stays so for 5 cycles

  Scenario: Gated pods hold their group back
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: train, namespace: default, labels: {kai.scheduler/queue: training}}
      spec: {schedulingPolicy: {gang: {minCount: 3}}}
      """
    And these workloads are submitted:
      | name  | kind | queue    | pods | gpus | group | gated |
      | free  | pod  | training | 2    | 1    | train | no    |
      | gated | pod  | training | 1    | 1    | train | yes   |
    Then podgroup "train" has 2 pending and 1 gated pods and stays so for 5 cycles
    When the gates of pod "gated" are lifted
    Then eventually within 10 minutes podgroup "train" has 3 running pods

  Scenario: A group starts on a node that was added
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 20   | 1    |
    And podgroup "train" has 20 pending pods
    When a node "node-3" with 8 GPUs is added
    Then eventually within 10 minutes podgroup "train" has 20 running pods

  Scenario: A group is not placed on cordoned nodes
    Given node "node-1" is cordoned
    When these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 10   | 1    |
    Then podgroup "train" has 10 pending pods and stays so for 5 cycles
    When node "node-1" is uncordoned
    Then eventually within 10 minutes podgroup "train" has 10 running pods
