@claims @placement
Feature: Queues and devices that are partitioned, shared or tainted
  Each partition of a GPU is charged as a GPU. Shares of a device are not charged. GPUs that a device
  class serves as an extended resource are charged like others.

  Background:
    Given a fleet of 1 node with 0 GPUs each
    And these queues:
      | queue | quota |
      | owner | 2     |
      | guest | 0     |

  @reclaim @DRAPartitionableDevices
  Scenario: Partitions are reclaimed only if their counters suffice afterwards
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: whole.gpu.io}
      spec: {selectors: [{cel: {expression: "device.driver == 'gpu.io' && device.attributes['gpu.io'].profile == 'whole'"}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: half.gpu.io}
      spec: {selectors: [{cel: {expression: "device.driver == 'gpu.io' && device.attributes['gpu.io'].profile == 'half'"}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: gpu-counters}
      spec:
        driver: gpu.io
        nodeName: node-1
        pool: {name: gpu, generation: 1, resourceSliceCount: 2}
        sharedCounters: [{name: gpu-0, counters: {memory: {value: 80Gi}}}]
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: gpu-devices}
      spec:
        driver: gpu.io
        nodeName: node-1
        pool: {name: gpu, generation: 1, resourceSliceCount: 2}
        devices:
        - {name: whole, attributes: {profile: {string: whole}}, consumesCounters: [{counterSet: gpu-0, counters: {memory: {value: 80Gi}}}]}
        - {name: half-a, attributes: {profile: {string: half}}, consumesCounters: [{counterSet: gpu-0, counters: {memory: {value: 40Gi}}}]}
        - {name: half-b, attributes: {profile: {string: half}}, consumesCounters: [{counterSet: gpu-0, counters: {memory: {value: 40Gi}}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaimTemplate
      metadata: {name: whole, namespace: default}
      spec: {spec: {devices: {requests: [{name: part, exactly: {deviceClassName: whole.gpu.io}}]}}}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaimTemplate
      metadata: {name: half, namespace: default}
      spec: {spec: {devices: {requests: [{name: part, exactly: {deviceClassName: half.gpu.io}}]}}}
      ---
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: guests, namespace: default, labels: {kai.scheduler/queue: guest}}
      spec:
        replicas: 2
        selector: {matchLabels: {app: guests}}
        template:
          metadata: {labels: {app: guests, kai.scheduler/queue: guest}}
          spec:
            schedulerName: kai-scheduler
            priorityClassName: train
            resourceClaims: [{name: gpu, resourceClaimTemplateName: half}]
            containers: [{name: main, image: train}]
      """
    And queue "guest" has 2 running pods
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: whole, namespace: default, labels: {kai.scheduler/queue: owner}}
      spec:
        schedulerName: kai-scheduler
        priorityClassName: train
        resourceClaims: [{name: gpu, resourceClaimTemplateName: whole}]
        containers: [{name: main, image: train}]
      """
    Then eventually within 2 minutes pod "whole" is running
    And 2 pods of queue "guest" were evicted for queue "owner"

  @DRAConsumableCapacity
  Scenario: Shares of a device are not charged
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: gpu.io}
      spec: {selectors: [{cel: {expression: "device.driver == 'gpu.io'"}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: gpus}
      spec:
        driver: gpu.io
        nodeName: node-1
        pool: {name: gpus, generation: 1, resourceSliceCount: 1}
        devices: [{name: gpu-0, allowMultipleAllocations: true, capacity: {memory: {value: 80Gi}}}]
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaimTemplate
      metadata: {name: share, namespace: default}
      spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.io, capacity: {requests: {memory: 30Gi}}}}]}}}
      ---
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: sharing, namespace: default, labels: {kai.scheduler/queue: owner}}
      spec:
        replicas: 3
        selector: {matchLabels: {app: sharing}}
        template:
          metadata: {labels: {app: sharing, kai.scheduler/queue: owner}}
          spec:
            schedulerName: kai-scheduler
            priorityClassName: train
            resourceClaims: [{name: gpu, resourceClaimTemplateName: share}]
            containers: [{name: main, image: train}]
      """
    Then queue "owner" has 2 running and 1 pending pods and stays so for 5 cycles
    And queue "owner" uses 0 GPUs

  @DRAExtendedResource
  Scenario: GPUs of a class that names them are charged whether a device plugin or a claim serves them
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: gpu.io}
      spec:
        extendedResourceName: nvidia.com/gpu
        selectors: [{cel: {expression: "device.driver == 'gpu.io'"}}]
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: gpus}
      spec:
        driver: gpu.io
        nodeName: node-1
        pool: {name: gpus, generation: 1, resourceSliceCount: 1}
        devices: [{name: gpu-0}, {name: gpu-1}]
      """
    When 3 pods "plain" with 1 GPU each are submitted to queue "owner"
    Then queue "owner" has 2 running and 1 pending pods and stays so for 5 cycles
    And queue "owner" uses 2 GPUs
