@placement @volumes
Feature: Pods run where their volumes can be used

  A pod with a bound claim runs on a node that can use the volume. A claim whose class waits for its
  first consumer gets its volume when the scheduler has chosen a node, before the pod is bound.

  Background:
    Given a fleet:
      | pool | nodes | gpus | labels                        |
      | a    | 2     | 8    | topology.kubernetes.io/zone=a |
      | b    | 2     | 8    | topology.kubernetes.io/zone=b |
    And a queue "team" with a quota of 32
    And the manifest "volumes/classes.yaml" is applied

  Scenario: A pod waits until its claim exists and has a volume
    When the manifest "volumes/reader.yaml" is applied
    Then pod "reader" is pending because 'persistentvolumeclaim "data" not found'
    When the manifest "volumes/claim.yaml" is applied
    Then pod "reader" is pending because "pod has unbound immediate PersistentVolumeClaims"
    When the manifest "volumes/on-shelf.yaml" is applied
    Then pod "reader" is running
    And pod "reader" is on node "b-1"

  @id:placement.volume-zone
  Scenario: Labels of a volume say in which zones it can be used
    Given the manifest "volumes/in-zone.yaml" is applied
    And the manifest "volumes/claim.yaml" is applied
    When the manifest "volumes/reader.yaml" is applied
    Then pod "reader" is running
    And pod "reader" is not on node "a-1"
    And pod "reader" is not on node "a-2"

  Scenario: A pod whose volume is on a full node waits with a reason that says so
    Given the manifest "volumes/on-shelf.yaml" is applied
    And the manifest "volumes/claim.yaml" is applied
    And these workloads are submitted:
      | name   | kind | queue | pods | gpus | node selector              |
      | filler | pod  | team  | 8    | 1    | kubernetes.io/hostname=b-1 |
    And pod "filler" is running
    When the manifest "volumes/reader.yaml" is applied
    Then pod "reader" is pending because "3 node(s) had volume node affinity conflict"
    When 1 pod of pod "filler" is deleted
    Then pod "reader" is running

  @id:placement.volume-once
  Scenario: A ReadWriteOncePod claim is used by one pod after the other
    Given the manifest "volumes/for-one.yaml" is applied
    And the manifest "volumes/single-claim.yaml" is applied
    And the manifest "volumes/reader.yaml" is applied
    And pod "reader" is running
    When the manifest "volumes/second.yaml" is applied
    Then pod "second" is pending because 'another pod has persistentvolumeclaim "data"'
    When pod "reader" is deleted
    Then pod "second" is running

  @id:placement.volume-limit
  Scenario: A node takes no more volumes of a driver than it says
    Given the manifest "volumes/one-disk.yaml" is applied
    And the manifest "volumes/reader.yaml" is applied
    And pod "reader" is running
    When the manifest "volumes/another-reader.yaml" is applied
    Then pod "other" is pending because "1 node(s) exceed max volume count"
    When pod "reader" is deleted
    Then pod "other" is running
    And pod "other" is on node "a-1"

  Scenario: A pod gets the local volume of the node that it is placed on
    Given the manifest "volumes/disk-claim.yaml" is applied
    When the manifest "volumes/reader.yaml" is applied
    Then pod "reader" is pending because "4 node(s) didn't find available persistent volumes to bind"
    When the manifest "volumes/disk.yaml" is applied
    Then pod "reader" is running
    And pod "reader" is on node "b-1"

  Scenario: A volume that is bound to one claim is not given to another
    Given the manifest "volumes/disk.yaml" is applied
    And the manifest "volumes/disk-claim.yaml" is applied
    And the manifest "volumes/reader.yaml" is applied
    And pod "reader" is running
    When the manifest "volumes/more-claim.yaml" is applied
    And the manifest "volumes/another-reader.yaml" is applied
    Then pod "other" is pending because "4 node(s) didn't find available persistent volumes to bind"

  Scenario: A pod keeps its node until its volume is provisioned there
    Given the manifest "volumes/cloud-claim.yaml" is applied
    When the manifest "volumes/reader.yaml" is applied
    Then pod "reader" is pending because 'Waits on node b-1 until persistentvolumeclaim "data" is bound'
    When the manifest "volumes/made.yaml" is applied
    Then pod "reader" is running
    And pod "reader" is on node "b-1"

  Scenario: A gang waits for the volumes of all its pods and binds none before
    Given the manifest "volumes/disk.yaml" is applied
    And the manifest "volumes/disk-claim.yaml" is applied
    And the manifest "volumes/more-claim.yaml" is applied
    When the manifest "volumes/gang.yaml" is applied
    Then gang "train" has no running and 2 pending pods and stays so for 5 cycles
    And gang "train" is pending because "didn't find available persistent volumes to bind"
    When the manifest "volumes/other-disk.yaml" is applied
    Then gang "train" has 2 running pods
    And gang "train" is on 2 nodes

  Scenario: A pod whose volume is not provisioned gives up its node after two minutes
    Given this manifest is applied:
      """yaml
      apiVersion: v1
      kind: PersistentVolumeClaim
      metadata: {name: never, namespace: default}
      spec: {storageClassName: cloud, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: doomed, namespace: default, labels: {kai.scheduler/queue: team}}
      spec:
        schedulerName: kai-scheduler
        volumes: [{name: data, persistentVolumeClaim: {claimName: never}}]
        containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 8}}}]
      """
    And 30 seconds pass
    When 4 pods "fine" with 8 GPUs each are submitted to queue "team"
    Then eventually within 10 minutes pod "fine" has 4 running pods
    And pod "doomed" is pending because "4 node(s) didn't have enough resources: GPUs"

  @crash
  Scenario Outline: A pod gets its volume though the scheduler dies before write <write> of its start
    Given the manifest "volumes/disk.yaml" is applied
    And the manifest "volumes/disk-claim.yaml" is applied
    And the scheduler dies before its write number <write> and is restarted
    When the manifest "volumes/reader.yaml" is applied
    Then pod "reader" is running
    And pod "reader" is on node "b-1"
    And the scheduler has died 1 time

    Examples: each of the writes
      | write |
      | 1     |
      | 2     |
      | 3     |
      | 4     |
      | 5     |
      | 6     |
      | 7     |
