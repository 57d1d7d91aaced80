@gang @podgrouper
Feature: A gang follows its owner

  When the owner of a gang is made smaller or larger, the gang needs as many pods as the owner asks
  for now: what is left of a smaller one runs on, and one that waits starts with fewer pods.

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And a queue "team" with a quota of 8

  Scenario Outline: The remaining <left> pods of a job that shrinks from 6 keep running
    Given this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata: {name: train, labels: {kai.scheduler/queue: team}, annotations: {kai.scheduler/batch-min-member: "6"}}
      spec:
        parallelism: 6
        template:
          spec: {schedulerName: kai-scheduler, restartPolicy: Never, containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
      """
    And job "train" has 6 running pods
    When this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata: {name: train, labels: {kai.scheduler/queue: team}, annotations: {kai.scheduler/batch-min-member: "<left>"}}
      spec:
        parallelism: <left>
        template:
          spec: {schedulerName: kai-scheduler, restartPolicy: Never, containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
      """
    Then never within 10 minutes at least 1 pod of the cluster was evicted
    And job "train" has <left> running pods

    Examples:
      | left |
      | 3    |
      | 1    |

  Scenario: A pending job that is too large starts when it is scaled down
    Given 6 pods "filler" with 1 GPU each are submitted to queue "team"
    And queue "team" has 6 running pods
    And this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata: {name: train, labels: {kai.scheduler/queue: team}, annotations: {kai.scheduler/batch-min-member: "4"}}
      spec:
        parallelism: 4
        completions: 4
        template:
          spec: {schedulerName: kai-scheduler, restartPolicy: Never, containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
      """
    And job "train" has 4 pending pods
    When this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata: {name: train, labels: {kai.scheduler/queue: team}, annotations: {kai.scheduler/batch-min-member: "2"}}
      spec:
        parallelism: 4
        completions: 4
        template:
          spec: {schedulerName: kai-scheduler, restartPolicy: Never, containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
      """
    Then eventually within 5 seconds job "train" has 2 running and 2 pending pods

  Scenario: A job that is scaled below its stated minimum runs on
    Given these workloads are submitted:
      | name  | kind | queue | pods | gpus | min |
      | train | job  | team  | 6    | 1    | 6   |
    And job "train" has 6 running pods
    When job "train" is scaled to 3
    Then never within 10 minutes at least 1 pod of the cluster was evicted
    And job "train" has 3 running pods

  Scenario: A pending job that is scaled below its stated minimum starts
    Given 6 pods "filler" with 1 GPU each are submitted to queue "team"
    And queue "team" has 6 running pods
    And these workloads are submitted:
      | name  | kind | queue | pods | gpus | min |
      | train | job  | team  | 4    | 1    | 4   |
    And job "train" has 4 pending pods
    When job "train" is scaled to 2
    Then eventually within 5 seconds job "train" has 2 running pods

  Scenario: The workers of a PyTorchJob that shrinks run on, and one that grows is a gang again
    Given this manifest is applied:
      """yaml
      apiVersion: kubeflow.org/v1
      kind: PyTorchJob
      metadata: {name: llm, namespace: default, labels: {kai.scheduler/queue: team}}
      spec:
        pytorchReplicaSpecs:
          Master: &role
            replicas: 1
            restartPolicy: OnFailure
            template:
              spec: {schedulerName: kai-scheduler, containers: [{name: pytorch, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
          Worker: {<<: *role, replicas: 5}
      """
    And pytorchjob "llm" has 6 running pods
    When this manifest is applied:
      """yaml
      apiVersion: kubeflow.org/v1
      kind: PyTorchJob
      metadata: {name: llm, namespace: default, labels: {kai.scheduler/queue: team}}
      spec:
        pytorchReplicaSpecs:
          Master: &role
            replicas: 1
            restartPolicy: OnFailure
            template:
              spec: {schedulerName: kai-scheduler, containers: [{name: pytorch, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
          Worker: {<<: *role, replicas: 2}
      """
    Then never within 10 minutes at least 1 pod of the cluster was evicted
    And pytorchjob "llm" has 3 running pods
    When this manifest is applied:
      """yaml
      apiVersion: kubeflow.org/v1
      kind: PyTorchJob
      metadata: {name: llm, namespace: default, labels: {kai.scheduler/queue: team}}
      spec:
        pytorchReplicaSpecs:
          Master: &role
            replicas: 1
            restartPolicy: OnFailure
            template:
              spec: {schedulerName: kai-scheduler, containers: [{name: pytorch, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
          Worker: {<<: *role, replicas: 9}
      """
    And 30 seconds pass
    Then pytorchjob "llm" has 3 running and 7 pending pods

  Scenario: A gang that shrank while no scheduler ran is not evicted
    Given this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata: {name: train, labels: {kai.scheduler/queue: team}, annotations: {kai.scheduler/batch-min-member: "6"}}
      spec:
        parallelism: 6
        template:
          spec: {schedulerName: kai-scheduler, restartPolicy: Never, containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
      """
    And job "train" has 6 running pods
    When the scheduler is stopped
    And this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata: {name: train, labels: {kai.scheduler/queue: team}, annotations: {kai.scheduler/batch-min-member: "3"}}
      spec:
        parallelism: 3
        template:
          spec: {schedulerName: kai-scheduler, restartPolicy: Never, containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]}
      """
    And 10 seconds pass
    And the scheduler is started
    Then never within 10 minutes at least 1 pod of the cluster was evicted
    And job "train" has 3 running pods
