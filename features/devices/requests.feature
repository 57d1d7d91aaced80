@claims @placement
Feature: Devices in BindRequests of another scheduler
  KAI's scheduler lists the devices of resource claims in the BindRequest, and the binder writes them
  to the claims.

  Background:
    Given the fleet "fleets/claims.yaml"
    And the scheduler's configuration:
      """yaml
      binding: requests
      """
    And these queues:
      | queue  | quota |
      | team-a | 4     |
    And this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: gpu, namespace: default}
      spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: theirs, namespace: default}
      spec:
        schedulerName: theirs
        resourceClaims: [{name: gpu, resourceClaimName: gpu}]
        containers: [{name: main, image: train}]
      """

  Scenario: The claim of a pod that is bound has the devices that the request names
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v1alpha2
      kind: BindRequest
      metadata: {name: theirs, namespace: default}
      spec:
        podName: theirs
        selectedNode: published-0
        resourceClaimAllocations:
          - name: gpu
            allocation:
              devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: published-0, device: gpu-3}]}
              nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [published-0]}]}]}
      """
    Then pod "theirs" is running
    And the field "status.allocation.devices.results.0.device" of claim "gpu" is "gpu-3"
    And the field "status.reservedFor.0.name" of claim "gpu" is "theirs"

  Scenario: A claim keeps nothing of a request that cannot be carried out
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v1alpha2
      kind: BindRequest
      metadata: {name: theirs, namespace: default}
      spec:
        podName: theirs
        selectedNode: published-0
        resourceClaimAllocations:
          - name: gpu
            allocation:
              devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: published-0, device: gpu-3}]}
          - name: second
            allocation: {devices: {results: []}}
      """
    Then pod "theirs" is pending because "Failed to bind pod default/theirs to node published-0: the pod has no resource claim second, which the request names"
    And the field "status.allocation" of claim "gpu" is ""

  Scenario: A claim with admin access gets the devices of the first request
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
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: first, namespace: monitoring}
      spec:
        schedulerName: theirs
        resourceClaims: [{name: gpu, resourceClaimName: watched}]
        containers: [{name: main, image: probe}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: second, namespace: monitoring}
      spec:
        schedulerName: theirs
        resourceClaims: [{name: gpu, resourceClaimName: watched}]
        containers: [{name: main, image: probe}]
      ---
      apiVersion: scheduling.run.ai/v1alpha2
      kind: BindRequest
      metadata: {name: first, namespace: monitoring}
      spec:
        podName: first
        selectedNode: published-0
        resourceClaimAllocations:
          - name: gpu
            allocation:
              devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: published-0, device: gpu-0, adminAccess: true}]}
      """
    And pod "monitoring/first" is running
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v1alpha2
      kind: BindRequest
      metadata: {name: second, namespace: monitoring}
      spec:
        podName: second
        selectedNode: published-0
        resourceClaimAllocations:
          - name: gpu
            allocation:
              devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: published-0, device: gpu-1, adminAccess: true}]}
      """
    Then pod "monitoring/second" is pending because "ResourceClaim monitoring/watched is already allocated with other devices than the BindRequest names"
    And the field "status.allocation.devices.results.0.device" of claim "watched" is "gpu-0"
