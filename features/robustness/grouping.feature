@robustness @podgrouper
Feature: A pod that cannot be grouped does not block other pods

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 8     |

  Scenario: A PodGroup that the API server refuses affects its own pods only
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata:
        name: odd
        labels:
          project: a-project-whose-name-and-that-of-its-pool-are-each-no-longer
          kai.scheduler/node-pool: than-a-label-may-be-and-together-they-are
      spec:
        schedulerName: kai-scheduler
        containers: [{name: main, image: train}]
      """
    And 3 cycles pass
    And 2 pods "fine" with 1 GPU each are submitted to queue "training"
    Then pod "fine" has 2 running pods
    And pod "odd" is pending because "cannot be put into a PodGroup: PodGroup pg-odd"
    And pod "odd" is pending because "must be no more than 63"

  Scenario: A corrected Job starts with the pods that it has
    When this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: train
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
    Then job "train" is pending because "annotation kai.scheduler/batch-min-member"
    When this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: train
        labels: {kai.scheduler/queue: training}
        annotations: {kai.scheduler/batch-min-member: "2"}
      spec:
        parallelism: 2
        completions: 2
        template:
          spec:
            schedulerName: kai-scheduler
            restartPolicy: Never
            containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
      """
    Then after 2 minutes job "train" has 2 running pods
