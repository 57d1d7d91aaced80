@claims @placement
Feature: GPUs by their attributes
  A request of a resource claim selects devices of its class with CEL expressions: by memory, by
  model, or by any other attribute that the driver publishes.

  Background:
    Given the fleet "fleets/mixed-claims.yaml"
    And these queues:
      | queue  | quota |
      | team-a | 4     |

  Scenario: A request gets only devices for which its expressions hold
    When the manifest "claims/large.yaml" is applied
    Then queue "team-a" has 2 running and 1 pending pods
    And node "large-0" has 2 running pods
    And node "small-0" has no running pods
    And queue "team-a" is pending because "where device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('60Gi')) >= 0"

  @id:devices.claim-selector
  Scenario: A device allocated by one selector is not available to another selector
    Given the manifest "claims/any.yaml" is applied
    And queue "team-a" has 1 running pods
    When the manifest "claims/the-very-first.yaml" is applied
    Then pod "choosy" is pending because "productName.startsWith('NVIDIA H100')"
    And queue "team-a" has 1 running and 1 pending pods and stays so for 5 cycles
    When pod "modest" is deleted
    Then pod "choosy" is running
    And the field "status.allocation.devices.results.0.device" of claim "first-gpu" is "gpu-0"

  @sparing-devices
  Scenario: A claim that accepts any device leaves the special ones to others
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: announced, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec:
        devices:
          requests:
          - name: gpu
            exactly:
              deviceClassName: gpu.nvidia.com
              selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].index == 0"}}]
      """
    When the manifest "claims/any.yaml" is applied
    Then pod "modest" is running
    And the field "status.allocation.devices.results.0.device" of claim "any-gpu" is "gpu-1"

  Scenario: Devices that lack an attribute of the expression are not selected
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: lost, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec:
        schedulerName: kai-scheduler
        priorityClassName: train
        resourceClaims: [{name: gpu, resourceClaimName: missing-attribute}]
        containers: [{name: main, image: train}]
      """
    And this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: missing-attribute, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec:
        devices:
          requests:
          - name: gpu
            exactly:
              deviceClassName: gpu.nvidia.com
              selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].colour == 'red'"}}]
      """
    Then pod "lost" is pending because "where device.attributes['gpu.nvidia.com'].colour == 'red'"

  @id:devices.claim-alike
  Scenario: A claim whose devices must be alike gets them where enough are
    When the manifest "claims/alike.yaml" is applied
    Then pod "same-product" is running
    And the field "status.allocation.devices.results.1.device" of claim "same-product" is "gpu-1"
    And pod "same-index" is pending because "devices alike in gpu.nvidia.com/index: 2 of class gpu.nvidia.com"

  @quota
  Scenario: A claim gets the first of its alternatives that its node has
    When the manifest "claims/first-available.yaml" is applied
    Then pod "of-large" is running
    And the field "status.allocation.devices.results.0.request" of claim "of-large" is "gpu/large"
    And node "small-0" has 2 running pods
    And queue "team-a" has 3 running and 2 pending pods
    And pod "unequal" is pending because "got firstAvailable of 1 or 2 GPUs"
    And queue "team-a" uses 3 GPUs

  Scenario: A claim on all devices gets a node on which no device is allocated
    Given the manifest "claims/any.yaml" is applied
    And queue "team-a" has 1 running pods
    When the manifest "claims/all.yaml" is applied
    Then pod "first" is running
    And the field "status.allocation.devices.results.1.device" of claim "all-gpus" is "gpu-1"
    And queue "team-a" uses 3 GPUs
    And pod "second" is pending because "GPUs" and stays so for 5 cycles
    When pod "modest" is deleted
    Then pod "second" is running
    And queue "team-a" uses 4 GPUs

  @reclaim
  Scenario: A pod with devices that a queue selects is evicted when that queue reclaims its share
    Given these queues:
      | queue  | quota |
      | team-b | 4     |
    And the manifest "claims/template.yaml" is applied
    And the manifest "claims/four-pods.yaml" is applied
    And queue "team-a" has 4 running pods
    When the quota of queue "team-a" becomes 0
    And this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: large, namespace: default, labels: {kai.scheduler/queue: team-b}}
      spec:
        devices:
          requests:
          - name: gpu
            exactly:
              deviceClassName: gpu.nvidia.com
              selectors: [{cel: {expression: "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('60Gi')) >= 0"}}]
      """
    And this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: owner, namespace: default, labels: {kai.scheduler/queue: team-b}}
      spec:
        schedulerName: kai-scheduler
        priorityClassName: train
        resourceClaims: [{name: gpu, resourceClaimName: large}]
        containers: [{name: main, image: train, resources: {claims: [{name: gpu}]}}]
      """
    Then pod "owner" is running
    And node "large-0" has 2 running pods
    And 1 pods of queue "team-a" were evicted for queue "team-b"

  @gang
  Scenario: No pod is evicted for a gang whose selectors ask for more devices than exist
    Given the manifest "claims/mixed-node.yaml" is applied
    And pod "modest" is running
    When the manifest "claims/three-of-two.yaml" is applied
    Then pod "one" is pending because "devices of class mixed.example.com" and stays so for 10 cycles
    And pod "modest" is running
    And no pods of queue "team-a" were evicted

  Scenario: A claim on equal devices leaves the only one that another claim of the pod selects
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: disk.example.com}
      spec: {selectors: [{cel: {expression: device.driver == 'disk.example.com'}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: disks}
      spec:
        nodeName: small-0
        driver: disk.example.com
        pool: {name: disks, generation: 1, resourceSliceCount: 1}
        devices:
        - {name: d-0, attributes: {fast: {bool: true}, safe: {bool: true}, calm: {bool: false}}}
        - {name: d-1, attributes: {fast: {bool: true}, safe: {bool: false}, calm: {bool: true}}}
      """
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: alike, namespace: default}
      spec:
        devices:
          requests:
          - {name: disk, exactly: {deviceClassName: disk.example.com, selectors: [{cel: {expression: "device.attributes['disk.example.com'].fast"}}]}}
          constraints: [{matchAttribute: disk.example.com/fast}]
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: safe, namespace: default}
      spec:
        devices:
          requests:
          - {name: disk, exactly: {deviceClassName: disk.example.com, selectors: [{cel: {expression: "device.attributes['disk.example.com'].safe"}}]}}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: of-nobody, namespace: default}
      spec:
        devices:
          requests:
          - {name: disk, exactly: {deviceClassName: disk.example.com, selectors: [{cel: {expression: "device.attributes['disk.example.com'].calm"}}]}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: both, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec:
        schedulerName: kai-scheduler
        resourceClaims: [{name: a, resourceClaimName: alike}, {name: b, resourceClaimName: safe}]
        containers: [{name: main, image: train}]
      """
    Then pod "both" is running
    And the field "status.allocation.devices.results.0.device" of claim "alike" is "d-1"
    And the field "status.allocation.devices.results.0.device" of claim "safe" is "d-0"
