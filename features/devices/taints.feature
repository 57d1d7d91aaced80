@claims @placement @kube @DRADeviceTaints
Feature: Taints of devices
  A tainted device is allocated only to requests that tolerate its taints.

  Background:
    Given the scheduler profile "kube"
    And a fleet of 1 node with 0 GPUs each
    And this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: card.io}
      spec: {selectors: [{cel: {expression: "device.driver == 'card.io'"}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: cards}
      spec:
        driver: card.io
        nodeName: node-1
        pool: {name: cards, generation: 1, resourceSliceCount: 1}
        devices:
        - {name: ill, taints: [{key: card.io/health, value: hot, effect: NoSchedule}]}
        - {name: noted, taints: [{key: card.io/health, value: warm, effect: None}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: careful, namespace: default}
      spec: {devices: {requests: [{name: card, exactly: {deviceClassName: card.io}}]}}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: careful-too, namespace: default}
      spec: {devices: {requests: [{name: card, exactly: {deviceClassName: card.io}}]}}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: tolerant, namespace: default}
      spec: {devices: {requests: [{name: card, exactly: {deviceClassName: card.io, tolerations: [{key: card.io/health, operator: Exists, effect: NoSchedule}]}}]}}
      """

  Scenario: A request gets a tainted device only if it tolerates the taint
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: first, namespace: default}
      spec:
        resourceClaims: [{name: card, resourceClaimName: careful}]
        containers: [{name: main, image: train}]
      """
    Then pod "first" is running
    And the field "status.allocation.devices.results.0.device" of claim "careful" is "noted"
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: second, namespace: default}
      spec:
        resourceClaims: [{name: card, resourceClaimName: careful-too}]
        containers: [{name: main, image: train}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: third, namespace: default}
      spec:
        resourceClaims: [{name: card, resourceClaimName: tolerant}]
        containers: [{name: main, image: train}]
      """
    Then pod "third" is running
    And the field "status.allocation.devices.results.0.device" of claim "tolerant" is "ill"
    And the field "status.allocation.devices.results.0.tolerations.0.key" of claim "tolerant" is "card.io/health"
    And pod "second" is pending because "cannot allocate all claims" and stays so for 5 cycles

  Scenario: A device is allocated again once its taint is gone
    Given this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: first, namespace: default}
      spec:
        resourceClaims: [{name: card, resourceClaimName: careful}]
        containers: [{name: main, image: train}]
      """
    And pod "first" is running
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: second, namespace: default}
      spec:
        resourceClaims: [{name: card, resourceClaimName: careful-too}]
        containers: [{name: main, image: train}]
      """
    Then pod "second" is pending because "cannot allocate all claims" and stays so for 5 cycles
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: cards}
      spec:
        driver: card.io
        nodeName: node-1
        pool: {name: cards, generation: 2, resourceSliceCount: 1}
        devices: [{name: ill}, {name: noted}]
      """
    Then pod "second" is running

  @DRADeviceTaintRules @kubernetes-1.37
  Scenario: A rule taints devices of a driver
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceTaintRule
      metadata: {name: maintenance}
      spec:
        deviceSelector: {driver: card.io, pool: cards, device: noted}
        taint: {key: card.io/maintenance, effect: NoSchedule}
      """
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: first, namespace: default}
      spec:
        resourceClaims: [{name: card, resourceClaimName: careful}]
        containers: [{name: main, image: train}]
      """
    Then pod "first" is pending because "cannot allocate all claims" and stays so for 5 cycles
    When workload "maintenance" is deleted
    Then pod "first" is running
