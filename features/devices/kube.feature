@claims @placement @kube
Feature: Devices through resource claims with the default kube-scheduler
  The default kube-scheduler writes the allocated devices to claims before it binds their pods, and
  evicts no pods for devices.

  Background:
    Given the fleet "fleets/claims.yaml"
    And the scheduler profile "kube"
    And the manifest "claims/template.yaml" is applied

  Scenario: Pods run where the devices of their claims are
    When the manifest "claims/kube-own.yaml" is applied
    Then deployment "own" is running
    And node "published-0" has 2 running pods
    And node "published-1" has 2 running pods
    And node "plugged-0" has no running pods

  Scenario: No pod is evicted for devices, whatever the priorities are
    Given the manifest "claims/kube-own.yaml" is applied
    And deployment "own" is running
    When the manifest "claims/kube-late.yaml" is applied
    Then pod "late" is pending because "0/3 nodes are available: 3 cannot allocate all claims. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    And deployment "own" is running and stays so for 5 cycles
    When workload "own" is deleted
    Then pod "late" is running

  Scenario: Devices that are published are no resources of the node
    Given the manifest "claims/kube-own.yaml" is applied
    And deployment "own" is running
    When these workloads are submitted:
      | name  | kind       | pods | gpus |
      | plain | deployment | 3    | 1    |
    Then deployment "plain" has 2 running and 1 pending pods
    And node "plugged-0" has 2 running pods

  Scenario: A shared claim is allocated once, with the configuration for its driver
    When the manifest "claims/kube-shared.yaml" is applied
    Then pod "sharing-0" is running
    And pod "sharing-1" is running
    And claim "pair" has 2 running pods
    And the field "status.allocation.devices.results.0.request" of claim "pair" is "gpus/all"
    And the field "status.allocation.devices.results.1.device" of claim "pair" is "gpu-1"
    And the field "status.allocation.devices.config.0.source" of claim "pair" is "FromClaim"
    And the field "status.allocation.devices.config.0.opaque.parameters.sharing.strategy" of claim "pair" is "TimeSlicing"

  Scenario: Admin access gets all devices of a node, allocated or not
    Given the manifest "claims/kube-own.yaml" is applied
    And deployment "own" is running
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Namespace
      metadata: {name: monitoring, labels: {resource.kubernetes.io/admin-access: "true"}}
      ---
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: all, namespace: monitoring}
      spec: {devices: {requests: [{name: watched, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All, adminAccess: true}}]}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: exporter, namespace: monitoring}
      spec:
        resourceClaims: [{name: gpus, resourceClaimName: all}]
        containers: [{name: main, image: dcgm-exporter, resources: {claims: [{name: gpus}]}}]
      """
    Then pod "monitoring/exporter" is running
    And deployment "own" is running
    And the field "status.allocation.devices.results.0.adminAccess" of claim "all" is "true"
    And the field "status.allocation.devices.results.1.device" of claim "all" is "gpu-1"
    And the field "status.allocation.nodeSelector.nodeSelectorTerms.0.matchFields.0.key" of claim "all" is "metadata.name"

  Scenario: An unused claim is deallocated if it keeps a pod off its node
    Given this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: kept, namespace: default}
      spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
      """
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
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: user, namespace: default}
      spec:
        nodeSelector: {kubernetes.io/hostname: published-1}
        resourceClaims: [{name: gpu, resourceClaimName: kept}]
        containers: [{name: main, image: train, resources: {claims: [{name: gpu}]}}]
      """
    Then pod "user" is running
    And the field "status.allocation.devices.results.0.pool" of claim "kept" is "published-1"

  Scenario: Devices that a leaving pod has are free when its claim is given back
    Given the manifest "claims/kube-own.yaml" is applied
    And deployment "own" is running
    When the manifest "claims/kube-late.yaml" is applied
    Then pod "late" is pending because "cannot allocate all claims"
    When deployment "own" is scaled to 3
    Then pod "late" is running
    And deployment "own" is running

  Scenario Outline: A scheduler that dies at any write allocates nothing twice
    When the scheduler dies before its write number <write> and is restarted
    And the manifest "claims/kube-shared.yaml" is applied
    And the manifest "claims/kube-late.yaml" is applied
    Then pod "late" is running
    And claim "pair" has 2 running pods
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
