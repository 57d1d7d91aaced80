@workload-api @kubernetes-1.37 @GenericWorkload
Feature: A PodGroup of Kubernetes is placed whole or not at all

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 32    |

  Scenario: All pods of a group start
    When these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 10   | 1    |
    Then podgroup "train" has 10 running pods
    And the field "status.conditions.0.type" of podgroup "train" is "PodGroupInitiallyScheduled"
    And the field "status.conditions.0.status" of podgroup "train" is "True"
    And the field "status.conditions.0.reason" of podgroup "train" is "Scheduled"

  Scenario: Nothing of a group is bound while it does not fit whole
    Given these workloads are submitted:
      | name   | kind | queue    | pods | gpus |
      | filler | pod  | training | 24   | 1    |
    And queue "training" has 24 running pods
    When these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 10   | 1    |
    Then podgroup "train" has 10 pending pods and stays so for 5 cycles
    And 8 GPUs are free
    And the field "status.conditions.0.status" of podgroup "train" is "False"
    And the field "status.conditions.0.reason" of podgroup "train" is "Unschedulable"

  Scenario: A waiting group starts whole as soon as enough GPUs are free
    Given these workloads are submitted:
      | name   | kind | queue    | pods | gpus |
      | filler | pod  | training | 24   | 1    |
    And queue "training" has 24 running pods
    And these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 10   | 1    |
    And podgroup "train" has 10 pending pods
    When 1 pod of pod "filler" finishes
    Then podgroup "train" has 10 pending pods
    When 1 pod of pod "filler" finishes
    Then eventually within 10 minutes podgroup "train" has 10 running pods
    And the field "status.conditions.0.status" of podgroup "train" is "True"

  Scenario: Nothing of a group is bound before its minimum exists
    When these workloads are submitted:
      | name  | kind     | queue    | pods | min | gpus |
      | train | podgroup | training | 3    | 4   | 1    |
    Then podgroup "train" has 3 pending pods and stays so for 5 cycles
    And the field "status.conditions.0.status" of podgroup "train" is ""
    When these workloads are submitted:
      | name | kind | queue    | gpus | group |
      | last | pod  | training | 1    | train |
    Then podgroup "train" has 4 running pods
    And the field "status.conditions.0.status" of podgroup "train" is "True"

  Scenario: Pods above the minimum start as far as there is room
    When these workloads are submitted:
      | name  | kind     | queue    | pods | min | gpus |
      | train | podgroup | training | 40   | 10  | 1    |
    Then podgroup "train" has 32 running and 8 pending pods
    And the field "status.conditions.0.status" of podgroup "train" is "True"

  Scenario: A pod that joins a whole group starts alone
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 4    | 1    |
    And podgroup "train" has 4 running pods
    When these workloads are submitted:
      | name  | kind | queue    | gpus | group |
      | extra | pod  | training | 1    | train |
    Then pod "extra" is running
    And podgroup "train" has 5 running pods

  Scenario: Pods of a basic group start one by one
    When these workloads are submitted:
      | name  | kind     | queue    | pods | gpus | policy |
      | train | podgroup | training | 40   | 1    | basic  |
    Then podgroup "train" has 32 running and 8 pending pods
    And the field "status.conditions.0.status" of podgroup "train" is "True"

  Scenario: A lower minimum lets a waiting group start
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 33   | 1    |
    And podgroup "train" has 33 pending pods
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: train, namespace: default}
      spec: {schedulingPolicy: {gang: {minCount: 20}}}
      """
    Then eventually within 10 minutes podgroup "train" has 32 running and 1 pending pods

  Scenario: A group of large pods needs whole nodes, not merely enough GPUs
    Given these workloads are submitted:
      | name | kind | queue    | pods | gpus | spread by              |
      | tiny | pod  | training | 4    | 1    | kubernetes.io/hostname |
    And pod "tiny" is on 4 nodes
    When these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 2    | 8    |
    Then podgroup "train" has 2 pending pods and stays so for 5 cycles
    And 28 GPUs are free
    When 2 pods of pod "tiny" finish
    Then eventually within 10 minutes podgroup "train" has 2 running pods

  Scenario: Two groups of which only one fits do not take half of the GPUs each
    When these workloads are submitted:
      | name | kind     | queue    | pods | gpus | run time |
      | red  | podgroup | training | 20   | 1    | 10m      |
      | blue | podgroup | training | 20   | 1    | 10m      |
    Then the cluster has 20 running and 20 pending pods and stays so for 5 cycles
    And podgroup "red" is whole or absent
    And podgroup "blue" is whole or absent
    And after 10 minutes the cluster has 20 succeeded and 20 running pods
    And after 10 minutes the cluster has 40 succeeded pods

  Scenario: Groups whose pods arrive alternately do not split the GPUs
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: red, namespace: default, labels: {kai.scheduler/queue: training}}
      spec: {schedulingPolicy: {gang: {minCount: 18}}}
      ---
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: blue, namespace: default, labels: {kai.scheduler/queue: training}}
      spec: {schedulingPolicy: {gang: {minCount: 18}}}
      """
    And these workloads are submitted:
      | name   | kind | queue    | pods | gpus | group |
      | red-a  | pod  | training | 9    | 1    | red   |
      | blue-a | pod  | training | 9    | 1    | blue  |
      | red-b  | pod  | training | 9    | 1    | red   |
      | blue-b | pod  | training | 9    | 1    | blue  |
    Then the cluster has 18 running and 18 pending pods and stays so for 5 cycles
    And podgroup "red" is whole or absent
    And podgroup "blue" is whole or absent

  Scenario: A pod without a group starts beside a group that waits
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 33   | 1    |
    And podgroup "train" has 33 pending pods
    When these workloads are submitted:
      | name  | kind | queue    | pods | gpus |
      | small | pod  | training | 8    | 1    |
    Then pod "small" has 8 running pods
    And podgroup "train" has 33 pending pods
