@claims @placement
Feature: Devices for several claims at once
  The claims of a pod, and those of a gang, are allocated together: a claim that is content with less
  leaves a device to a claim that is not. Where no allocation exists, no claim gets devices and no pod
  is evicted.

  Background:
    Given a fleet of 1 node with 0 GPUs each
    And these queues:
      | queue | quota |
      | owner | 3     |
      | guest | 0     |
    And the manifest "claims/colours.yaml" is applied

  Scenario: A claim gets its second choice if another claim of the pod has no other
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: both, namespace: default, labels: {kai.scheduler/queue: owner}}
      spec:
        schedulerName: kai-scheduler
        resourceClaims: [{name: easy, resourceClaimTemplateName: red-or-any}, {name: picky, resourceClaimTemplateName: red}]
        containers: [{name: main, image: train}]
      """
    Then pod "both" is running
    And queue "owner" uses 2 GPUs

  Scenario: A claim on equal devices leaves them to a claim that has no other choice
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: nic.io}
      spec: {selectors: [{cel: {expression: "device.driver == 'nic.io'"}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: nics}
      spec:
        driver: nic.io
        nodeName: node-1
        pool: {name: nics, generation: 1, resourceSliceCount: 1}
        devices:
        - {name: n0, attributes: {root: {int: 0}}}
        - {name: n1, attributes: {root: {int: 0}}}
        - {name: n2, attributes: {root: {int: 1}}}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: easy, namespace: default}
      spec:
        devices:
          requests: [{name: nic, firstAvailable: [{name: two, deviceClassName: nic.io, count: 2}, {name: one, deviceClassName: nic.io}]}]
          constraints: [{matchAttribute: nic.io/root}]
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: picky, namespace: default}
      spec:
        devices:
          requests: [{name: nic, exactly: {deviceClassName: nic.io, count: 2}}]
          constraints: [{matchAttribute: nic.io/root}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: both, namespace: default, labels: {kai.scheduler/queue: owner}}
      spec:
        schedulerName: kai-scheduler
        resourceClaims: [{name: easy, resourceClaimName: easy}, {name: picky, resourceClaimName: picky}]
        containers: [{name: main, image: train}]
      """
    Then pod "both" is running
    And the field "status.allocation.devices.results.0.device" of claim "easy" is "n2"
    And the field "status.allocation.devices.results.0.device" of claim "picky" is "n0"
    And the field "status.allocation.devices.results.1.device" of claim "picky" is "n1"

  @gang
  Scenario: The claims of a gang are allocated together
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: pair, namespace: default}
      spec: {minMember: 2, queue: owner}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: easy, namespace: default, labels: {kai.scheduler/queue: owner}, annotations: {pod-group-name: pair}}
      spec:
        schedulerName: kai-scheduler
        resourceClaims: [{name: gpu, resourceClaimTemplateName: red-or-any}]
        containers: [{name: main, image: train}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: picky, namespace: default, labels: {kai.scheduler/queue: owner}, annotations: {pod-group-name: pair}}
      spec:
        schedulerName: kai-scheduler
        resourceClaims: [{name: gpu, resourceClaimTemplateName: red}]
        containers: [{name: main, image: train}]
      """
    Then pod "easy" is running
    And pod "picky" is running

  @gang
  Scenario: A gang that cannot have all its devices gets none
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: either, namespace: default, labels: {kai.scheduler/queue: owner}}
      spec: {devices: {requests: [{name: gpu, firstAvailable: [{name: red, deviceClassName: red.gpu.io}, {name: blue, deviceClassName: blue.gpu.io}]}]}}
      ---
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: pair, namespace: default}
      spec: {minMember: 2, queue: owner}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: a, namespace: default, labels: {kai.scheduler/queue: owner}, annotations: {pod-group-name: pair}}
      spec:
        schedulerName: kai-scheduler
        resourceClaims: [{name: gpu, resourceClaimName: either}]
        containers: [{name: main, image: train}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: b, namespace: default, labels: {kai.scheduler/queue: owner}, annotations: {pod-group-name: pair}}
      spec:
        schedulerName: kai-scheduler
        resourceClaims: [{name: gpu, resourceClaimTemplateName: red-and-blue}]
        containers: [{name: main, image: train}]
      """
    Then pod "a" is pending because "devices that satisfy claim"
    And queue "owner" has no running pods and stays so for 10 cycles
    And the field "status.allocation" of claim "either" is ""

  @reclaim
  Scenario: No pod is evicted for claims that no victim's devices would satisfy
    Given this manifest is applied:
      """yaml
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: guests, namespace: default, labels: {kai.scheduler/queue: guest}}
      spec:
        replicas: 3
        selector: {matchLabels: {app: guests}}
        template:
          metadata: {labels: {app: guests, kai.scheduler/queue: guest}}
          spec:
            schedulerName: kai-scheduler
            priorityClassName: train
            resourceClaims: [{name: gpu, resourceClaimTemplateName: any-colour}]
            containers: [{name: main, image: train}]
      """
    And queue "guest" has 3 running pods
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: hopeless, namespace: default, labels: {kai.scheduler/queue: owner}}
      spec:
        schedulerName: kai-scheduler
        priorityClassName: train
        resourceClaims: [{name: either, resourceClaimTemplateName: red-or-blue}, {name: both, resourceClaimTemplateName: red-and-blue}]
        containers: [{name: main, image: train}]
      """
    Then pod "hopeless" is pending because "had no devices that satisfy claims"
    And queue "guest" has 3 running pods and stays so for 10 cycles
    And no pods of queue "guest" were evicted
    When pod "hopeless" is deleted
    And this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: hopeful, namespace: default, labels: {kai.scheduler/queue: owner}}
      spec:
        schedulerName: kai-scheduler
        priorityClassName: train
        resourceClaims: [{name: either, resourceClaimTemplateName: red-or-any}, {name: both, resourceClaimTemplateName: red-and-blue}]
        containers: [{name: main, image: train}]
      """
    Then pod "hopeful" is running
    And 3 pods of queue "guest" were evicted for queue "owner"

  Scenario: A pod waits with a reason if the search for devices takes too long
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: DeviceClass
      metadata: {name: nic.io}
      spec: {selectors: [{cel: {expression: "device.driver == 'nic.io'"}}]}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: nics}
      spec:
        driver: nic.io
        nodeName: node-1
        pool: {name: nics, generation: 1, resourceSliceCount: 1}
        devices:
        - {name: d0, attributes: {id: {int: 0}}}
        - {name: d1, attributes: {id: {int: 1}}}
        - {name: d2, attributes: {id: {int: 2}}}
        - {name: d3, attributes: {id: {int: 3}}}
        - {name: d4, attributes: {id: {int: 4}}}
        - {name: d5, attributes: {id: {int: 5}}}
        - {name: d6, attributes: {id: {int: 6}}}
        - {name: d7, attributes: {id: {int: 7}}}
        - {name: d8, attributes: {id: {int: 8}}}
        - {name: d9, attributes: {id: {int: 9}}}
        - {name: d10, attributes: {id: {int: 10}}}
        - {name: d11, attributes: {id: {int: 11}}}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: equal-ids, namespace: default}
      spec:
        devices:
          constraints: [{matchAttribute: nic.io/id, requests: [equal]}]
          requests:
          - {name: r0, exactly: {deviceClassName: nic.io}}
          - {name: r1, exactly: {deviceClassName: nic.io}}
          - {name: r2, exactly: {deviceClassName: nic.io}}
          - {name: r3, exactly: {deviceClassName: nic.io}}
          - {name: r4, exactly: {deviceClassName: nic.io}}
          - {name: r5, exactly: {deviceClassName: nic.io}}
          - {name: r6, exactly: {deviceClassName: nic.io}}
          - {name: r7, exactly: {deviceClassName: nic.io}}
          - {name: equal, exactly: {deviceClassName: nic.io, count: 2}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: puzzle, namespace: default, labels: {kai.scheduler/queue: owner}}
      spec:
        schedulerName: kai-scheduler
        resourceClaims: [{name: nics, resourceClaimName: equal-ids}]
        containers: [{name: main, image: train}]
      """
    Then pod "puzzle" is pending because "too many combinations of devices for claim default/equal-ids: the search stopped after 20000 steps"

  @kube
  Scenario: The default kube-scheduler allocates the claims of a pod together
    Given the scheduler profile "kube"
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: both, namespace: default}
      spec:
        resourceClaims: [{name: easy, resourceClaimTemplateName: red-or-any}, {name: picky, resourceClaimTemplateName: red}]
        containers: [{name: main, image: train}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: hopeless, namespace: default}
      spec:
        resourceClaims: [{name: either, resourceClaimTemplateName: red-or-blue}, {name: both, resourceClaimTemplateName: red-and-blue}]
        containers: [{name: main, image: train}]
      """
    Then pod "both" is running
    And pod "hopeless" is pending because "cannot allocate all claims" and stays so for 5 cycles
