@robustness @malformed
Feature: Malformed objects are reported and do not block others

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 8     |

  @queue-checks
  Scenario Outline: A queue whose <field> is <value> stops its own work only
    Given this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2
      kind: Queue
      metadata: {name: broken}
      spec:
        resources:
          gpu: {<field>: <value>}
          cpu: {quota: -1, overQuotaWeight: 1, limit: -1}
          memory: {quota: -1, overQuotaWeight: 1, limit: -1}
      """
    When 2 pods "bad" with 1 GPU each are submitted to queue "broken"
    And 2 pods "good" with 1 GPU each are submitted to queue "training"
    Then pod "good" has 2 running pods
    And pod "bad" has 2 pending pods and stays so for 5 cycles
    And pod "bad" is pending because "Queue 'broken' cannot be used: spec.resources.gpu.<field>"

    Examples:
      | field           | value |
      | quota           | -7    |
      | limit           | -0.5  |
      | quota           | 1e30  |
      | overQuotaWeight | -3    |

  Scenario Outline: A pod group whose <field> is <value> keeps its own pods waiting only
    Given this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: bad, namespace: default}
      spec: {queue: training, <field>: <value>}
      ---
      apiVersion: v1
      kind: Pod
      metadata:
        name: bad-0
        namespace: default
        annotations: {pod-group-name: bad}
      spec:
        schedulerName: kai-scheduler
        containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
      """
    When 2 pods "good" with 1 GPU each are submitted to queue "training"
    Then pod "good" has 2 running pods
    And pod "bad-0" is pending because "PodGroup bad cannot be scheduled: spec.<field>"

    Examples:
      | field                | value                                                        |
      | stalenessGracePeriod | soon                                                         |
      | preemptionDelay      | "1 fortnight"                                                |
      | subGroups            | [{name: a, minMember: 1}, {name: a, minMember: 1}]           |
      | subGroups            | [{name: a, parent: b}, {name: b, parent: a}]                 |
      | subGroups            | [{name: a, minMember: 1, parent: nobody}]                    |

  Scenario: A pod that names an unknown sub-group gets a message
    Given these workloads are submitted:
      | name | kind | queue    | gpus | sub-groups        |
      | ray  | gang | training | 1    | head 1, workers 3 |
    And gang "ray" is running
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata:
        name: stray
        namespace: default
        labels: {kai.scheduler/subgroup-name: tail}
        annotations: {pod-group-name: ray}
      spec:
        schedulerName: kai-scheduler
        containers: [{name: main, image: ray, resources: {limits: {nvidia.com/gpu: 1}}}]
      """
    Then pod "stray" is pending because "PodGroup ray has no sub-group tail, named in label kai.scheduler/subgroup-name"
    And pod "ray-head-0" is running

  @pod-groups
  Scenario: A Job whose minimum is not a number gets a message, and other workloads run
    Given these workloads are submitted:
      | name | kind | queue    | pods | gpus |
      | good | job  | training | 2    | 1    |
    When this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: bad
        namespace: default
        labels: {kai.scheduler/queue: training}
        annotations: {kai.scheduler/batch-min-member: many}
      spec:
        parallelism: 2
        completions: 2
        template:
          spec:
            schedulerName: kai-scheduler
            restartPolicy: Never
            containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
      """
    Then job "good" has 2 running pods
    And job "bad" has 2 pending pods and stays so for 5 cycles
    And job "bad" is pending because "kai.scheduler/batch-min-member"

  @queue-checks
  Scenario: The reason of a workload without a queue names the queue label
    Given 1 pod "good" with 1 GPU each is submitted to queue "training"
    When these workloads are submitted:
      | name | kind | pods | gpus |
      | lost | job  | 2    | 1    |
    Then job "lost" is pending because "default-queue"
    And pod "good" has 1 running pod

  Scenario: Pods run after their PodGroup is corrected
    Given this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: bad, namespace: default}
      spec: {queue: training, stalenessGracePeriod: soon}
      ---
      apiVersion: v1
      kind: Pod
      metadata:
        name: bad-0
        namespace: default
        annotations: {pod-group-name: bad}
      spec:
        schedulerName: kai-scheduler
        containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
      """
    And pod "bad-0" has 1 pending pod
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: bad, namespace: default}
      spec: {queue: training, stalenessGracePeriod: 5m}
      """
    Then pod "bad-0" has 1 running pod

  @quota @gang
  Scenario: Running pods of a PodGroup that becomes invalid stay charged to their queue, and no more start
    Given these queues:
      | queue   | quota | limit |
      | limited | 2     | 2     |
    And this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: torn, namespace: default}
      spec: {queue: limited, subGroups: [{name: a, minMember: 1}]}
      ---
      apiVersion: v1
      kind: Pod
      metadata:
        name: torn-0
        namespace: default
        labels: {kai.scheduler/subgroup-name: a}
        annotations: {pod-group-name: torn}
      spec:
        schedulerName: kai-scheduler
        containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
      """
    And pod "torn-0" has 1 running pod
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: torn, namespace: default}
      spec: {queue: limited, minSubGroup: 3, subGroups: [{name: a, minMember: 1}]}
      ---
      apiVersion: v1
      kind: Pod
      metadata:
        name: torn-1
        namespace: default
        labels: {kai.scheduler/subgroup-name: a}
        annotations: {pod-group-name: torn}
      spec:
        schedulerName: kai-scheduler
        containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
      """
    And 2 pods "good" with 1 GPU each are submitted to queue "limited"
    Then pod "good" has 1 running and 1 pending pods and stays so for 5 cycles
    And pod "good" is pending because "limited quota has reached the allowable limit of GPUs"
    And pod "torn-1" is pending because "PodGroup torn cannot be scheduled: spec.minSubGroup"
    And for 10 minutes pod "torn-0" has 1 running pod
    And no pods of pod "torn-0" were evicted
    And the explanation of pod "torn-0" says "PodGroup torn cannot be scheduled: spec.minSubGroup"
