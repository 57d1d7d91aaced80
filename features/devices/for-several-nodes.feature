@claims @placement
Feature: Devices that several nodes reach
  Cards of a network fabric, or a switch of a rack, are published for all nodes, or for those that a
  selector selects. A pod on any of them may be given one, and each is given once.

  Background:
    Given a fleet:
      | pool  | gpus | labels  |
      | one   | 1    | rack=r1 |
      | two   | 1    | rack=r1 |
      | three | 1    | rack=r2 |
    And these queues:
      | queue  | quota |
      | team-a | 3     |
    And the manifest "claims/fabric.yaml" is applied

  Scenario: A card is given once, whichever nodes reach it
    Given the manifest "claims/fabric-pods.yaml" is applied
    And queue "team-a" has 2 running pods
    When the manifest "claims/fabric-third.yaml" is applied
    Then queue "team-a" has 2 running and 1 pending pods and stays so for 5 cycles
    And queue "team-a" is pending because "devices of class fabric.example.com"
    When pod "left" is deleted
    Then queue "team-a" has 2 running and 0 pending pods
    And no pods of queue "team-a" were evicted

  Scenario: A claim on all cards waits until nobody has any, and then keeps them from all nodes
    Given the manifest "claims/fabric-pods.yaml" is applied
    And queue "team-a" has 2 running pods
    When pod "right" is deleted
    And the manifest "claims/all-nics.yaml" is applied
    Then pod "greedy" is pending because "devices of class fabric.example.com" and stays so for 5 cycles
    When pod "left" is deleted
    Then pod "greedy" is running
    And the field "status.allocation.devices.results.1.device" of claim "all-nics" is "nic-1"
    When the manifest "claims/fabric-pods.yaml" is applied
    Then pod "left" is pending because "devices of class fabric.example.com" and stays so for 5 cycles

  Scenario: Who shares a claim runs on any node that its devices are for
    When the manifest "claims/switch-pods.yaml" is applied
    Then claim "the-switch" has 2 running pods
    And the field "status.allocation.nodeSelector.nodeSelectorTerms.0.matchExpressions.0.key" of claim "the-switch" is "rack"
    And node "one" has 1 running pod
    And node "two" has 1 running pod
    And node "three" has no running pods
    And queue "team-a" is pending because "not where claim default/the-switch is"

  @gang
  Scenario: A gang on two nodes gets two cards, or none
    When the manifest "claims/nic-gang.yaml" is applied
    Then gang "pair" is running
    When the manifest "claims/fabric-pods.yaml" is applied
    Then pod "left" is pending because "devices of class fabric.example.com" and stays so for 5 cycles

  @gang
  Scenario: A gang for which one card is left waits for the other
    Given the manifest "claims/fabric-pods.yaml" is applied
    And queue "team-a" has 2 running pods
    When pod "right" is deleted
    And the manifest "claims/nic-gang.yaml" is applied
    Then gang "pair" has 2 pending pods and stays so for 5 cycles
    And pod "left" is running
    When pod "left" is deleted
    Then gang "pair" is running

  @reclaim
  Scenario: Who has a card on another node leaves for a queue that wants its share
    Given these queues:
      | queue  | quota |
      | team-b | 3     |
    And the manifest "claims/fabric-pods.yaml" is applied
    And queue "team-a" has 2 running pods
    When the quota of queue "team-a" becomes 0
    And this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: owner, namespace: default, labels: {kai.scheduler/queue: team-b}}
      spec:
        schedulerName: kai-scheduler
        priorityClassName: train
        nodeSelector: {rack: r2}
        resourceClaims: [{name: nic, resourceClaimTemplateName: one-nic}]
        containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}, claims: [{name: nic}]}}]
      """
    Then pod "owner" is running
    And 1 pods of queue "team-a" were evicted for queue "team-b"
    And queue "team-a" has 1 running pod and stays so for 5 cycles

  @kube
  Scenario: Under the default kube-scheduler a card is given once, too
    Given the scheduler profile "kube"
    When this manifest is applied:
      """yaml
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: own, namespace: default}
      spec:
        replicas: 3
        selector: {matchLabels: {app: own}}
        template:
          metadata: {labels: {app: own}}
          spec:
            resourceClaims: [{name: nic, resourceClaimTemplateName: one-nic}]
            containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}, claims: [{name: nic}]}}]
      """
    Then deployment "own" has 2 running and 1 pending pods and stays so for 5 cycles
