@gang @sub-groups
Feature: A gang needs the minimum of each of its sub-groups

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 32    |

  @id:gang.sub-groups
  Scenario: No sub-group starts before every sub-group fits
    Given 29 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 29 running pods
    When these workloads are submitted:
      | name | kind | queue    | pods | gpus | sub-groups          |
      | ray  | gang | training | 5    | 1    | head 1, workers 3/4 |
    Then gang "ray" has 5 pending pods and stays so for 5 cycles
    And gang "ray" is pending because "from all sub-groups while sub-group workers requires 3 pods for gang scheduling"
    When 1 pod of pod "filler" finishes
    Then gang "ray" has 4 running and 1 pending pods
    And pod "ray-head-0" is running
    When 1 pod of pod "filler" finishes
    Then gang "ray" has 5 running pods

  Scenario: Sub-groups above their minimum do not wait for more pods
    When these workloads are submitted:
      | name | kind | queue    | gpus | sub-groups           |
      | ray  | gang | training | 4    | head 1, workers 2/12 |
    Then gang "ray" has 8 running and 5 pending pods
    And gang "ray" is whole or absent

  Scenario: The reason names the sub-group that lacks members
    When these workloads are submitted:
      | name | kind | queue    | pods | gpus | sub-groups          |
      | ray  | gang | training | 3    | 1    | head 1, workers 4/2 |
    Then gang "ray" is pending because "Waiting for 4 pods for SubGroup workers, currently 2 exist, 0 are gated."

  @bug-koordinator-872
  Scenario: Two gangs of two sub-groups do not start with one sub-group each
    Given 20 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 20 running pods
    When these workloads are submitted:
      | name | kind | queue    | gpus | run time | sub-groups |
      | one  | gang | training | 1    | 10m      | a 4, b 4   |
      | two  | gang | training | 1    | 10m      | c 4, d 4   |
    Then queue "training" has 28 running and 8 pending pods and stays so for 5 cycles
    And gang "one" is whole or absent
    And gang "two" is whole or absent
    And after 10 minutes queue "training" has 8 succeeded and 28 running pods
    And after 10 minutes queue "training" has 16 succeeded and 20 running pods

  Scenario: If some sub-groups are enough, the others start when they fit
    Given 28 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 28 running pods
    When these workloads are submitted:
      | name  | kind | queue    | gpus | min | sub-groups         |
      | serve | gang | training | 1    | 1   | left 3/3, right 3/3 |
    Then gang "serve" has 3 running and 3 pending pods
    And for 10 minutes gang "serve" has 3 running pods
    And no pods of gang "serve" were evicted
    When 1 pod of pod "filler" finishes
    Then gang "serve" has 3 running and 3 pending pods
    When 1 pod of pod "filler" finishes
    Then gang "serve" has 6 running pods

  Scenario: A sub-group that falls below its minimum makes the whole gang stale
    Given these workloads are submitted:
      | name | kind | queue    | gpus | sub-groups        |
      | ray  | gang | training | 1    | head 1, workers 3 |
    And gang "ray" has 4 running pods
    When 1 pod of pod "ray-head-0" fails
    Then for 50 seconds gang "ray" has 3 running pods
    And eventually within 20 seconds gang "ray" has no running pods

  Scenario: A pod whose label names no leaf sub-group gets a message and counts in no sub-group
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: tree, namespace: default}
      spec: {queue: training, subGroups: [{name: rack}, {name: a, parent: rack, minMember: 1}]}
      ---
      apiVersion: v1
      kind: Pod
      metadata:
        name: inner
        namespace: default
        labels: {kai.scheduler/subgroup-name: rack}
        annotations: {pod-group-name: tree}
      spec: {schedulerName: kai-scheduler, containers: [{name: main, image: train}]}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: unlabelled, namespace: default, annotations: {pod-group-name: tree}}
      spec: {schedulerName: kai-scheduler, containers: [{name: main, image: train}]}
      """
    Then pod "inner" is pending because "Sub-group rack of PodGroup tree, named in label kai.scheduler/subgroup-name, takes no pods"
    And pod "unlabelled" is pending because "PodGroup tree has sub-groups, and label kai.scheduler/subgroup-name names none of them: a"
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata:
        name: leaf
        namespace: default
        labels: {kai.scheduler/subgroup-name: a}
        annotations: {pod-group-name: tree}
      spec: {schedulerName: kai-scheduler, containers: [{name: main, image: train}]}
      """
    Then pod "leaf" has 1 running pod
    And pod "inner" has 1 pending pod
    And pod "unlabelled" has 1 pending pod
