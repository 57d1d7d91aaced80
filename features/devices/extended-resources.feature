@claims @placement @kube @DRAExtendedResource
Feature: Extended resources that devices serve
  A DeviceClass names an extended resource that its devices serve, and implies one. A pod that requests
  it gets a claim where no device plugin provides the resource.

  Background:
    Given the scheduler profile "kube"
    And a fleet of 1 node with 0 GPUs each
    And this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: card.io}
      spec:
        extendedResourceName: card.io/card
        selectors: [{cel: {expression: "device.driver == 'card.io'"}}]
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: cards}
      spec:
        driver: card.io
        nodeName: node-1
        pool: {name: cards, generation: 1, resourceSliceCount: 1}
        devices: [{name: card-0}, {name: card-1}]
      """

  Scenario: A pod that requests the resource of a class gets devices of it
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: user, namespace: default}
      spec:
        containers: [{name: main, image: train, resources: {requests: {card.io/card: "2"}, limits: {card.io/card: "2"}}}]
      """
    Then pod "user" is running
    And the field "status.extendedResourceClaimStatus.requestMappings.0.containerName" of pod "user" is "main"
    And the field "status.extendedResourceClaimStatus.requestMappings.0.resourceName" of pod "user" is "card.io/card"
    And the field "status.extendedResourceClaimStatus.requestMappings.0.requestName" of pod "user" is "container-0-request-0"
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: late, namespace: default}
      spec:
        containers: [{name: main, image: train, resources: {requests: {card.io/card: "1"}, limits: {card.io/card: "1"}}}]
      """
    Then pod "late" is pending and stays so for 5 cycles
    When pod "user" is deleted
    Then pod "late" is running

  Scenario: Every class implies a resource
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: user, namespace: default}
      spec:
        containers: [{name: main, image: train, resources: {requests: {deviceclass.resource.kubernetes.io/card.io: "1"}, limits: {deviceclass.resource.kubernetes.io/card.io: "1"}}}]
      """
    Then pod "user" is running
    And the field "status.extendedResourceClaimStatus.requestMappings.0.resourceName" of pod "user" is "deviceclass.resource.kubernetes.io/card.io"
