@claims @placement @kube @DRADeviceBindingConditions
Feature: Devices that are prepared before a pod is bound
  A driver may prepare a device after its allocation. A pod is bound when the binding conditions of its
  devices are true, and gives the device up if a failure condition is.

  Background:
    Given the scheduler profile "kube"
    And a fleet of 1 node with 0 GPUs each
    And this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: fabric.io}
      spec: {selectors: [{cel: {expression: "device.driver == 'fabric.io'"}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: fabric}
      spec:
        driver: fabric.io
        allNodes: true
        pool: {name: fabric, generation: 1, resourceSliceCount: 1}
        devices: [{name: gpu-0, bindsToNode: true, bindingConditions: [attached], bindingFailureConditions: [broken]}]
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: remote, namespace: default}
      spec: {devices: {requests: [{name: card, exactly: {deviceClassName: fabric.io}}]}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: user, namespace: default}
      spec:
        resourceClaims: [{name: card, resourceClaimName: remote}]
        containers: [{name: main, image: train}]
      """

  Scenario: A pod is bound when its device is attached
    Then eventually within 1 minute the field "status.allocation.devices.results.0.bindingConditions.0" of claim "remote" is "attached"
    And the field "status.allocation.nodeSelector.nodeSelectorTerms.0.matchFields.0.values.0" of claim "remote" is "node-1"
    And pod "user" is pending and stays so for 5 cycles
    When this status is written:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: remote}
      status:
        devices:
        - driver: fabric.io
          pool: fabric
          device: gpu-0
          conditions: [{type: attached, status: "True", reason: Attached, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]
      """
    Then eventually within 1 minute pod "user" is running

  Scenario: A device that cannot be attached is given up
    Then eventually within 1 minute the field "status.allocation.devices.results.0.device" of claim "remote" is "gpu-0"
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: fabric}
      spec:
        driver: fabric.io
        allNodes: true
        pool: {name: fabric, generation: 2, resourceSliceCount: 1}
        devices: [{name: gpu-1, bindsToNode: true}]
      """
    And this status is written:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: remote}
      status:
        devices:
        - driver: fabric.io
          pool: fabric
          device: gpu-0
          conditions: [{type: broken, status: "True", reason: NoCable, message: "no cable", lastTransitionTime: "2026-01-01T00:00:00Z"}]
      """
    Then eventually within 5 minutes pod "user" is running
    And the field "status.allocation.devices.results.0.device" of claim "remote" is "gpu-1"

  @virtual-time
  Scenario: A device that is not attached in time is given up
    Then eventually within 1 minute the field "status.allocation.devices.results.0.device" of claim "remote" is "gpu-0"
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: fabric}
      spec:
        driver: fabric.io
        allNodes: true
        pool: {name: fabric, generation: 2, resourceSliceCount: 1}
        devices: [{name: gpu-1, bindsToNode: true}]
      """
    When 5 minutes pass
    Then pod "user" is pending
    And eventually within 15 minutes pod "user" is running
    And the field "status.allocation.devices.results.0.device" of claim "remote" is "gpu-1"
