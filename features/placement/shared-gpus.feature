@placement @shared-gpus
Feature: Several pods share one GPU

  Background:
    Given a fleet:
      | pool | nodes | gpus | gpu memory |
      | n    | 2     | 2    | 16Gi       |
    And a queue "team" with a quota of 8

  Scenario: Halves fill one GPU before another is opened
    When these workloads are submitted:
      | name  | kind       | queue | pods | gpus | annotations      |
      | small | deployment | team  | 3    |      | gpu-fraction=0.5 |
    Then deployment "small" has 3 running pods
    And deployment "small" is on 1 node
    And queue "team" uses 1.5 GPUs

  @id:devices.shared-gpu
  Scenario: A shared GPU is not given to a pod that requests a whole GPU
    Given these workloads are submitted:
      | name  | kind | queue | pods | gpus | annotations      |
      | small | pod  | team  | 1    |      | gpu-fraction=0.1 |
    And everything has settled
    When 4 pods "whole" with 1 GPU each are submitted to queue "team"
    Then pod "whole" has 3 running and 1 pending pods and stays so for 5 cycles

  Scenario: Memory is a part of the GPUs that there are
    When these workloads are submitted:
      | name  | kind       | queue | pods | gpus | annotations     |
      | small | deployment | team  | 9    |      | gpu-memory=8000 |
    Then deployment "small" has 8 running and 1 pending pods
    And queue "team" uses 4 GPUs

  Scenario: Owners reclaim shared GPUs
    Given these queues:
      | queue    | quota |
      | borrower | 2     |
      | owner    | 2     |
    And these workloads are submitted:
      | name  | kind       | queue    | pods | gpus | preemptible | annotations      |
      | small | deployment | borrower | 8    |      | yes         | gpu-fraction=0.5 |
    And deployment "small" has 8 running pods
    When 2 pods "mine" with 1 GPU each are submitted to queue "owner"
    Then pod "mine" has 2 running pods
    And deployment "small" has 4 running and 4 pending pods and stays so for 5 cycles
    And queue "borrower" uses 2 GPUs

  Scenario: A fraction that cannot be is named
    When these workloads are submitted:
      | name  | kind | queue | pods | gpus | annotations      |
      | large | pod  | team  | 1    |      | gpu-fraction=1.5 |
    Then pod "large" is pending because "annotation gpu-fraction: got"

  Scenario: A GPU that cannot be reserved is reported with the missing object
    Given GPUs that pods share are reserved
    When these workloads are submitted:
      | name  | kind | queue | pods | gpus | annotations      |
      | small | pod  | team  | 1    |      | gpu-fraction=0.5 |
    Then after 10 seconds pod "small" is pending because "cannot reserve a GPU: namespaces"
    And now an event of pod "small" says "create namespace kai-resource-reservation"
    When this manifest is applied:
      """
      apiVersion: v1
      kind: Namespace
      metadata: {name: kai-resource-reservation}
      """
    Then pod "small" has 1 running pods

  Scenario: A reservation pod holds a shared GPU as long as a pod shares it
    Given GPUs that pods share are reserved
    And this manifest is applied:
      """
      apiVersion: v1
      kind: Namespace
      metadata: {name: kai-resource-reservation}
      """
    When these workloads are submitted:
      | name  | kind | queue | pods | gpus | annotations      |
      | small | pod  | team  | 2    |      | gpu-fraction=0.5 |
    Then pod "small" has 2 running pods
    And 3 GPUs are free
    When 4 pods "whole" with 1 GPU each are submitted to queue "team"
    Then pod "whole" has 3 running and 1 pending pods and stays so for 5 cycles
    When 1 pod of pod "small" is deleted
    Then pod "whole" has 3 running and 1 pending pods and stays so for 5 cycles
    When 1 pod of pod "small" is deleted
    Then eventually within 2 minutes pod "whole" has 4 running pods
    And 0 GPUs are free

  @webhooks
  Scenario: A pod that shares a GPU takes from a config map which it is
    Given GPUs that pods share are reserved
    And this manifest is applied:
      """
      apiVersion: v1
      kind: Namespace
      metadata: {name: kai-resource-reservation}
      """
    And the scheduler's webhooks are asked
    When these workloads are submitted:
      | name  | kind | queue | pods | gpus | annotations      |
      | small | pod  | team  | 1    |      | gpu-fraction=0.5 |
    And 1 pod "whole" with 1 GPU each is submitted to queue "team"
    Then pod "small" has 1 running pod
    And the field "spec.containers.0.env.0.name" of pod "small-0" is "NVIDIA_VISIBLE_DEVICES"
    And pod "whole" has 1 running pod
    And the field "spec.containers.0.env" of pod "whole-0" is ""

  @webhooks
  Scenario: A pod that requests no GPU sees none, and no pod may request all
    Given containers see only the GPUs that they ask for
    And the scheduler's webhooks are asked
    Then this manifest is refused with 'spec.containers[0].env[0]: got NVIDIA_VISIBLE_DEVICES "all"':
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: greedy, labels: {kai.scheduler/queue: team}, annotations: {gpu-fraction: "0.5"}}
      spec:
        schedulerName: kai-scheduler
        containers: [{name: c, image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]
      """
    When these workloads are submitted:
      | name | kind | queue | pods | gpus |
      | cpu  | pod  | team  | 1    |      |
    And 1 pod "whole" with 1 GPU each is submitted to queue "team"
    Then pod "cpu" has 1 running pod
    And the field "spec.containers.0.env.0.value" of pod "cpu-0" is "void"
    And pod "whole" has 1 running pod
    And the field "spec.containers.0.env" of pod "whole-0" is ""
