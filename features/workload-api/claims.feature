@workload-api @kubernetes-1.37 @claims @GenericWorkload @DRAWorkloadResourceClaims
Feature: Pods of a PodGroup of Kubernetes share its claims

  Background:
    Given the fleet "fleets/claims.yaml"
    And these queues:
      | queue    | quota |
      | training | 6     |

  Scenario: One claim is made for the group, and its pods run where its devices are
    When this manifest is applied:
      """yaml
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaimTemplate
      metadata: {name: two-gpus, namespace: default}
      spec:
        metadata: {labels: {kai.scheduler/queue: training}}
        spec:
          devices:
            requests:
            - {name: gpus, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}
      ---
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: train, namespace: default, labels: {kai.scheduler/queue: training}}
      spec:
        schedulingPolicy: {gang: {minCount: 2}}
        resourceClaims: [{name: gpus, resourceClaimTemplateName: two-gpus}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: train-0, namespace: default, labels: {kai.scheduler/queue: training}}
      spec:
        schedulerName: kai-scheduler
        schedulingGroup: {podGroupName: train}
        restartPolicy: Never
        resourceClaims: [{name: gpus, resourceClaimTemplateName: two-gpus}]
        containers: [{name: main, image: train, resources: {claims: [{name: gpus}]}}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: train-1, namespace: default, labels: {kai.scheduler/queue: training}}
      spec:
        schedulerName: kai-scheduler
        schedulingGroup: {podGroupName: train}
        restartPolicy: Never
        resourceClaims: [{name: gpus, resourceClaimTemplateName: two-gpus}]
        containers: [{name: main, image: train, resources: {claims: [{name: gpus}]}}]
      """
    Then podgroup "train" has 2 running pods
    And podgroup "train" is on 1 node
