@claims @placement
Feature: Devices that several nodes can use
  A driver may publish devices for all nodes, or for the nodes of a selector, such as devices on a
  network. A pod runs on a node that can use a free device, each device is allocated once, and the
  claim's node selector lists the nodes that can use it.

  Background:
    Given a fleet:
      | pool | nodes | gpus | labels                        |
      | east | 2     | 1    | topology.kubernetes.io/zone=e |
      | west | 1     | 1    | topology.kubernetes.io/zone=w |
    And these queues:
      | queue  | quota |
      | team-a | 4     |
    And the manifest "claims/wide.yaml" is applied

  Scenario: Pods on different nodes get the devices that are for all nodes, and no more
    When the manifest "claims/wide-two.yaml" is applied
    Then queue "team-a" has 2 running pods
    When the manifest "claims/wide-third.yaml" is applied
    Then queue "team-a" has 2 running and 1 pending pods
    And queue "team-a" is pending because "cannot allocate all claims"
    And queue "team-a" has 2 running and 1 pending pods and stays so for 5 cycles
    When pod "wide-0" is deleted
    Then pod "wide-2" is running

  Scenario: A pod goes where the device of its claim can be used
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: western, namespace: default}
      spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: west.example.com}}]}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: drawn, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec:
        schedulerName: kai-scheduler
        resourceClaims: [{name: nic, resourceClaimName: western}]
        containers: [{name: main, image: train}]
      """
    Then pod "drawn" is running
    And node "west-1" has 1 running pods
    And the field "status.allocation.devices.results.0.device" of claim "western" is "w-0"
    And the field "status.allocation.nodeSelector.nodeSelectorTerms.0.matchExpressions.0.key" of claim "western" is "topology.kubernetes.io/zone"

  Scenario: A claim that pods on several nodes share is allocated once
    When the manifest "claims/wide-shared.yaml" is applied
    Then queue "team-a" has 3 running pods
    And node "east-1" has 1 running pods
    And node "east-2" has 1 running pods
    And node "west-1" has 1 running pods
    And the field "status.allocation.devices.results.0.device" of claim "both" is "a-0"
    And the field "status.allocation.devices.results.1.device" of claim "both" is ""
    And the field "status.allocation.nodeSelector" of claim "both" is ""
    And the field "status.reservedFor.2.resource" of claim "both" is "pods"
    When this manifest is applied:
      """yaml
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: more, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec:
        replicas: 2
        selector: {matchLabels: {app: more}}
        template:
          metadata: {labels: {app: more, kai.scheduler/queue: team-a}}
          spec:
            schedulerName: kai-scheduler
            resourceClaims: [{name: nic, resourceClaimTemplateName: one-of-fabric}]
            containers: [{name: main, image: train}]
      """
    Then deployment "more" has 1 running and 1 pending pods

  Scenario Outline: A scheduler that dies at any write gives no device twice
    When the scheduler dies before its write number <write> and is restarted
    And the manifest "claims/wide-two.yaml" is applied
    And the manifest "claims/wide-third.yaml" is applied
    Then eventually within 1 minute queue "team-a" has 2 running and 1 pending pods and stays so for 5 cycles
    And the scheduler has died 1 time

    Examples:
      | write |
      | 1     |
      | 3     |
      | 5     |
      | 7     |
      | 9     |

  @kube
  Scenario: The default kube-scheduler allocates multi-node devices too
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
            resourceClaims: [{name: nic, resourceClaimTemplateName: one-of-fabric}]
            containers: [{name: main, image: train, resources: {claims: [{name: nic}], limits: {nvidia.com/gpu: 1}}}]
      """
    Then deployment "own" has 2 running and 1 pending pods
    And deployment "own" is pending because "1 cannot allocate all claims"
    When deployment "own" is scaled to 2
    Then deployment "own" is running

  Scenario: A claim gets node-local devices together with a multi-node device
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: disk.example.com}
      spec: {selectors: [{cel: {expression: device.driver == 'disk.example.com'}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: disks-east-2}
      spec:
        nodeName: east-2
        driver: disk.example.com
        pool: {name: east-2, generation: 1, resourceSliceCount: 1}
        devices: [{name: d-0}, {name: d-1}]
      """
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: both, namespace: default}
      spec:
        devices:
          requests:
          - {name: nic, exactly: {deviceClassName: fabric.example.com}}
          - {name: disks, exactly: {deviceClassName: disk.example.com, count: 2}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: drawn, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec:
        schedulerName: kai-scheduler
        resourceClaims: [{name: both, resourceClaimName: both}]
        containers: [{name: main, image: train}]
      """
    Then pod "drawn" is running
    And node "east-2" has 1 running pods
    And the field "status.allocation.devices.results.0.device" of claim "both" is "a-0"
    And the field "status.allocation.devices.results.2.device" of claim "both" is "d-1"
    And the field "status.allocation.nodeSelector.nodeSelectorTerms.0.matchFields.0.values.0" of claim "both" is "east-2"
    When the manifest "claims/wide-two.yaml" is applied
    Then queue "team-a" has 2 running and 1 pending pods
    And queue "team-a" is pending because "cannot allocate all claims"
    When pod "drawn" is deleted
    Then queue "team-a" has 2 running pods

  @DRAPartitionableDevices
  Scenario: Devices that several nodes can use share the counters of their pool
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: link.example.com}
      spec: {selectors: [{cel: {expression: device.driver == 'link.example.com'}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: lanes}
      spec:
        allNodes: true
        driver: link.example.com
        pool: {name: links, generation: 1, resourceSliceCount: 2}
        sharedCounters: [{name: switch, counters: {lanes: {value: "4"}}}]
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: links}
      spec:
        allNodes: true
        driver: link.example.com
        pool: {name: links, generation: 1, resourceSliceCount: 2}
        devices:
        - {name: l-0, consumesCounters: [{counterSet: switch, counters: {lanes: {value: "2"}}}]}
        - {name: l-1, consumesCounters: [{counterSet: switch, counters: {lanes: {value: "2"}}}]}
        - {name: l-2, consumesCounters: [{counterSet: switch, counters: {lanes: {value: "2"}}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaimTemplate
      metadata: {name: one-link, namespace: default}
      spec: {spec: {devices: {requests: [{name: link, exactly: {deviceClassName: link.example.com}}]}}}
      """
    When this manifest is applied:
      """yaml
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: linked, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec:
        replicas: 3
        selector: {matchLabels: {app: linked}}
        template:
          metadata: {labels: {app: linked, kai.scheduler/queue: team-a}}
          spec:
            schedulerName: kai-scheduler
            resourceClaims: [{name: link, resourceClaimTemplateName: one-link}]
            containers: [{name: main, image: train}]
      """
    Then deployment "linked" has 2 running and 1 pending pods

  @DRAConsumableCapacity
  Scenario: Pods on several nodes share a device up to its capacity
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: store.example.com}
      spec: {selectors: [{cel: {expression: device.driver == 'store.example.com'}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: store}
      spec:
        allNodes: true
        driver: store.example.com
        pool: {name: store, generation: 1, resourceSliceCount: 1}
        devices: [{name: s-0, allowMultipleAllocations: true, capacity: {bandwidth: {value: "100"}}}]
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaimTemplate
      metadata: {name: share, namespace: default}
      spec:
        spec:
          devices:
            requests:
            - {name: share, exactly: {deviceClassName: store.example.com, capacity: {requests: {bandwidth: "40"}}}}
      """
    When this manifest is applied:
      """yaml
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: sharing, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec:
        replicas: 3
        selector: {matchLabels: {app: sharing}}
        template:
          metadata: {labels: {app: sharing, kai.scheduler/queue: team-a}}
          spec:
            schedulerName: kai-scheduler
            resourceClaims: [{name: share, resourceClaimTemplateName: share}]
            containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
      """
    Then deployment "sharing" has 2 running and 1 pending pods
