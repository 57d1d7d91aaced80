@claims @placement @kube @DRAConsumableCapacity
Feature: Devices that pods share by capacity
  A device that allows multiple allocations serves requests as long as its capacity suffices. What a
  request consumes is rounded up to an amount that the device's policy allows.

  Background:
    Given the scheduler profile "kube"
    And a fleet of 1 node with 0 GPUs each
    And the manifest "devices/links.yaml" is applied

  Scenario: A device is shared until its capacity is consumed
    When this manifest is applied:
      """yaml
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: fast, namespace: default}
      spec:
        replicas: 3
        selector: {matchLabels: {app: fast}}
        template:
          metadata: {labels: {app: fast}}
          spec:
            resourceClaims: [{name: link, resourceClaimTemplateName: fast}]
            containers: [{name: main, image: train}]
      """
    Then deployment "fast" has 2 running and 1 pending pods and stays so for 5 cycles
    When this manifest is applied:
      """yaml
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: slow, namespace: default}
      spec:
        replicas: 5
        selector: {matchLabels: {app: slow}}
        template:
          metadata: {labels: {app: slow}}
          spec:
            resourceClaims: [{name: link, resourceClaimTemplateName: slow}]
            containers: [{name: main, image: train}]
      """
    Then deployment "slow" has 4 running and 1 pending pods and stays so for 5 cycles
    When deployment "slow" is scaled to 0
    And deployment "fast" is scaled to 2
    Then deployment "fast" is running

  Scenario: The allocation says what it consumes, by the policy of the device
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: uplink, namespace: default}
      spec: {devices: {requests: [{name: link, exactly: {deviceClassName: link.io, capacity: {requests: {bandwidth: "5"}}}}]}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: user, namespace: default}
      spec:
        resourceClaims: [{name: link, resourceClaimName: uplink}]
        containers: [{name: main, image: train}]
      """
    Then pod "user" is running
    And the field "status.allocation.devices.results.0.device" of claim "uplink" is "link-a"
    And the field "status.allocation.devices.results.0.consumedCapacity.bandwidth" of claim "uplink" is "6"

  Scenario: Two requests of a claim share a device
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: pair, namespace: default}
      spec: {devices: {requests: [{name: one, exactly: {deviceClassName: link.io}}, {name: two, exactly: {deviceClassName: link.io}}]}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: user, namespace: default}
      spec:
        resourceClaims: [{name: link, resourceClaimName: pair}]
        containers: [{name: main, image: train}]
      """
    Then pod "user" is running
    And the field "status.allocation.devices.results.0.device" of claim "pair" is "link-a"
    And the field "status.allocation.devices.results.1.device" of claim "pair" is "link-a"

  Scenario: The devices of a distinct attribute differ in it
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: pair, namespace: default}
      spec:
        devices:
          requests: [{name: one, exactly: {deviceClassName: link.io}}, {name: two, exactly: {deviceClassName: link.io}}]
          constraints: [{distinctAttribute: link.io/port}]
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: triple, namespace: default}
      spec:
        devices:
          requests: [{name: one, exactly: {deviceClassName: link.io}}, {name: two, exactly: {deviceClassName: link.io}}, {name: three, exactly: {deviceClassName: link.io}}]
          constraints: [{distinctAttribute: link.io/port}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: two-ports, namespace: default}
      spec:
        resourceClaims: [{name: links, resourceClaimName: pair}]
        containers: [{name: main, image: train}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: three-ports, namespace: default}
      spec:
        resourceClaims: [{name: links, resourceClaimName: triple}]
        containers: [{name: main, image: train}]
      """
    Then pod "two-ports" is running
    And the field "status.allocation.devices.results.0.device" of claim "pair" is "link-a"
    And the field "status.allocation.devices.results.1.device" of claim "pair" is "link-b"
    And pod "three-ports" is pending because "cannot allocate all claims" and stays so for 5 cycles
