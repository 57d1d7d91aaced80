@claims @placement
Feature: GPUs through resource claims
  Dynamic resource allocation (`resource.k8s.io/v1`): a driver publishes the GPUs of a node, pods refer
  to claims, and the scheduler writes the allocated devices to a claim before it binds the pod.

  Background:
    Given the fleet "fleets/claims.yaml"
    And these queues:
      | queue  | quota |
      | team-a | 2     |
      | team-b | 2     |
    And the manifest "claims/template.yaml" is applied

  @id:devices.claim
  Scenario: A claim made from a template gets a GPU, and its pod runs where that is
    When the manifest "claims/a-fifth.yaml" is applied
    Then pod "late-0" is running
    And queue "team-a" uses 1 GPU
    And node "plugged-0" has no running pods

  @id:devices.claims-full
  Scenario: No more GPUs are claimed than are published
    Given the manifest "claims/four-pods.yaml" is applied
    And queue "team-a" has 4 running pods
    When the manifest "claims/a-fifth.yaml" is applied
    Then queue "team-a" has 4 running and 1 pending pods
    And queue "team-a" uses 4 GPUs
    And pod "late-0" is pending because "publish no GPUs for resource claims"
    When pod "own-2" is deleted
    Then pod "late-0" is running

  Scenario: Pods that ask for GPUs as a resource stay off published ones
    When 3 pods "plain" with 1 GPU each are submitted to queue "team-a"
    Then node "plugged-0" has 2 running pods
    And queue "team-a" is pending because "offer GPUs to resource claims only"

  @id:devices.claim-shared
  Scenario: A shared claim is allocated once for all pods that share it
    When the manifest "claims/shared.yaml" is applied
    Then claim "pair" has 3 running pods
    And pod "sharing-0" is on 1 node
    And the field "status.allocation.devices.results.0.device" of claim "pair" is "gpu-0"
    And the field "status.allocation.devices.results.1.device" of claim "pair" is "gpu-1"
    And the field "status.reservedFor.2.resource" of claim "pair" is "pods"
    And queue "team-a" uses 2 GPUs

  Scenario: Pods that start together are all written to the claim that they share
    When the manifest "claims/shared.yaml" is applied
    Then claim "pair" has 3 running pods
    And the field "status.reservedFor.2.resource" of claim "pair" is "pods"

  @id:devices.claim-released
  Scenario: A claim that no pod uses any more can be allocated elsewhere
    Given the manifest "claims/shared.yaml" is applied
    And claim "pair" has 3 running pods
    When pod "sharing-0" is deleted
    And pod "sharing-1" is deleted
    And pod "sharing-2" is deleted
    Then eventually within 1 minute the field "status.allocation" of claim "pair" is ""
    When the manifest "claims/four-pods.yaml" is applied
    Then queue "team-a" has 4 running pods

  Scenario: Devices of an allocated claim are taken even if no pod uses it
    Given the manifest "claims/kept.yaml" is applied
    And this status is written:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: kept}
      status:
        allocation:
          devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: published-0, device: gpu-0}]}
          nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [published-0]}]}]}
      """
    When the manifest "claims/four-pods.yaml" is applied
    Then queue "team-a" has 3 running and 1 pending pods
    And queue "team-a" is pending because "didn't have enough resources: GPUs"
    And queue "team-a" has 3 running and 1 pending pods and stays so for 5 cycles
    And the field "status.allocation.devices.results.0.device" of claim "kept" is "gpu-0"
    When workload "kept" is deleted
    Then queue "team-a" has 4 running pods

  Scenario: Admin access takes no device
    Given this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Namespace
      metadata: {name: monitoring, labels: {resource.kubernetes.io/admin-access: "true"}}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: watched, namespace: monitoring}
      spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, adminAccess: true}}]}}
      """
    And this status is written:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: watched, namespace: monitoring}
      status:
        allocation:
          devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: published-0, device: gpu-0, adminAccess: true}]}
          nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [published-0]}]}]}
      """
    When the manifest "claims/four-pods.yaml" is applied
    Then queue "team-a" has 4 running pods
    And queue "team-a" has 4 running pods and stays so for 5 cycles

  Scenario: Admin access gets allocated devices and is not charged
    Given the manifest "claims/four-pods.yaml" is applied
    And queue "team-a" has 4 running pods
    When the manifest "claims/watchers.yaml" is applied
    Then pod "monitoring/exporter" is running
    And pod "monitoring/probe" is running
    And the field "status.allocation.devices.results.0.adminAccess" of claim "all-of-a-node" is "true"
    And the field "status.allocation.devices.results.1.device" of claim "all-of-a-node" is "gpu-1"
    And queue "team-b" uses 0 GPUs
    And queue "team-a" has 4 running pods and stays so for 5 cycles

  Scenario: Admin access keeps no other pod from a device
    Given the manifest "claims/watchers.yaml" is applied
    And pod "monitoring/exporter" is running
    When the manifest "claims/four-pods.yaml" is applied
    Then queue "team-a" has 4 running pods

  @reclaim
  Scenario: A pod with admin access to one device and a device of its own is charged for its own and can reclaim it
    Given the manifest "claims/four-pods.yaml" is applied
    And queue "team-a" has 4 running pods
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Namespace
      metadata: {name: monitoring, labels: {resource.kubernetes.io/admin-access: "true"}}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: both, namespace: monitoring, labels: {kai.scheduler/queue: team-b}}
      spec:
        devices:
          requests:
          - {name: watched, exactly: {deviceClassName: gpu.nvidia.com, adminAccess: true}}
          - {name: own, exactly: {deviceClassName: gpu.nvidia.com}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: tester, namespace: monitoring, labels: {kai.scheduler/queue: team-b}}
      spec:
        schedulerName: kai-scheduler
        priorityClassName: train
        resourceClaims: [{name: gpus, resourceClaimName: both}]
        containers: [{name: main, image: probe}]
      """
    Then eventually within 2 minutes pod "monitoring/tester" is running
    And 1 pod of queue "team-a" was evicted for queue "team-b"
    And queue "team-b" uses 1 GPU
    And the field "status.allocation.devices.results.0.adminAccess" of claim "both" is "true"
    And the field "status.allocation.devices.results.1.request" of claim "both" is "own"
    And the field "status.allocation.devices.results.1.adminAccess" of claim "both" is ""

  Scenario: The reason for a claim with admin access says where devices are missing
    Given the manifest "claims/watchers.yaml" is applied
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: three, namespace: monitoring}
      spec: {devices: {requests: [{name: watched, exactly: {deviceClassName: gpu.nvidia.com, count: 3, adminAccess: true}}]}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: greedy, namespace: monitoring, labels: {kai.scheduler/queue: team-b}}
      spec:
        schedulerName: kai-scheduler
        priorityClassName: train
        resourceClaims: [{name: gpus, resourceClaimName: three}]
        containers: [{name: main, image: probe}]
      """
    Then pod "monitoring/greedy" is pending because "didn't have enough resources: devices with adminAccess: 3 of class gpu.nvidia.com"

  @queue-checks
  Scenario: A claim on GPUs serves the queue that its label names
    Given the manifest "claims/shared.yaml" is applied
    When the manifest "claims/others.yaml" is applied
    Then pod "foreign-0" is pending because "shared GPU claim with wrong queue label"

  @reclaim
  Scenario: Claimed GPUs are reclaimed like others
    Given the manifest "claims/four-pods.yaml" is applied
    And queue "team-a" has 4 running pods
    When the manifest "claims/owner.yaml" is applied
    Then eventually within 2 minutes queue "team-b" has 2 running pods and stays so for 5 cycles
    And 2 pods of queue "team-a" were evicted for queue "team-b"
    And queue "team-a" has 2 running pods

  Scenario: A claim that cannot be allocated has a reason
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: lost, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec:
        schedulerName: kai-scheduler
        priorityClassName: train
        resourceClaims: [{name: gpu, resourceClaimName: nowhere}]
        containers: [{name: main, image: train}]
      """
    Then pod "lost" is pending because "ResourceClaim nowhere, named in spec.resourceClaims, does not exist"
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: nowhere, namespace: default, labels: {kai.scheduler/queue: team-a}}
      spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: tpu.example.com}}]}}
      """
    Then pod "lost" is pending because "asks for DeviceClass tpu.example.com, which does not exist"

  Scenario Outline: A scheduler that dies at any write allocates nothing twice
    When the scheduler dies before its write number <write> and is restarted
    And the manifest "claims/shared.yaml" is applied
    And the manifest "claims/a-fifth.yaml" is applied
    Then eventually within 1 minute queue "team-a" has 4 running pods and stays so for 5 cycles
    And the scheduler has died 1 time

    Examples:
      | write |
      | 1     |
      | 2     |
      | 3     |
      | 4     |
      | 5     |
      | 6     |
      | 7     |
      | 8     |
