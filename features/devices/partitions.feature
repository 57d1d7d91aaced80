@claims @placement @kube @DRAPartitionableDevices
Feature: Partitions of a device
  The partitions of a device consume counters that they share, so that only some of them can be allocated
  at once.

  Background:
    Given the scheduler profile "kube"
    And a fleet of 1 node with 0 GPUs each
    And the manifest "devices/partitions.yaml" is applied

  Scenario: Partitions are allocated as far as their shared counters suffice
    When this manifest is applied:
      """yaml
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: halves, namespace: default}
      spec:
        replicas: 2
        selector: {matchLabels: {app: halves}}
        template:
          metadata: {labels: {app: halves}}
          spec:
            resourceClaims: [{name: part, resourceClaimTemplateName: half}]
            containers: [{name: main, image: train}]
      """
    Then deployment "halves" is running
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: whole, namespace: default}
      spec:
        resourceClaims: [{name: part, resourceClaimTemplateName: whole}]
        containers: [{name: main, image: train}]
      """
    Then pod "whole" is pending because "cannot allocate all claims" and stays so for 5 cycles
    When deployment "halves" is scaled to 0
    Then pod "whole" is running

  Scenario: A whole device leaves no partition
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: first, namespace: default}
      spec:
        resourceClaims: [{name: part, resourceClaimTemplateName: whole-or-half}]
        containers: [{name: main, image: train}]
      """
    Then pod "first" is running
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: second, namespace: default}
      spec:
        resourceClaims: [{name: part, resourceClaimTemplateName: half}]
        containers: [{name: main, image: train}]
      """
    Then pod "second" is pending because "cannot allocate all claims" and stays so for 5 cycles
    When pod "first" is deleted
    Then pod "second" is running

  Scenario: A claim falls back to a partition if another claim of the pod needs one
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: both, namespace: default}
      spec:
        resourceClaims: [{name: easy, resourceClaimTemplateName: whole-or-half}, {name: picky, resourceClaimTemplateName: half}]
        containers: [{name: main, image: train}]
      """
    Then pod "both" is running

  Scenario: Each device of a pool selects its own node
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: spread}
      spec:
        driver: spread.io
        perDeviceNodeSelection: true
        pool: {name: spread, generation: 1, resourceSliceCount: 1}
        devices:
        - {name: here, nodeName: node-1}
        - {name: elsewhere, nodeName: node-2}
      ---
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: spread.io}
      spec: {selectors: [{cel: {expression: "device.driver == 'spread.io'"}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: near, namespace: default}
      spec: {devices: {requests: [{name: one, exactly: {deviceClassName: spread.io}}]}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: user, namespace: default}
      spec:
        resourceClaims: [{name: near, resourceClaimName: near}]
        containers: [{name: main, image: train}]
      """
    Then pod "user" is running
    And the field "status.allocation.devices.results.0.device" of claim "near" is "here"
    And the field "status.allocation.nodeSelector.nodeSelectorTerms.0.matchFields.0.values.0" of claim "near" is "node-1"
