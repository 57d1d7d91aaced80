@robustness @webhooks
Feature: Webhooks reject objects that the scheduler could not use

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And the scheduler's webhooks are asked
    And these queues:
      | queue      | parent     | quota |
      | department |            | 8     |
      | training   | department | 8     |

  Scenario: A queue whose parents would lead back to it is refused
    Then this manifest is refused with 'spec.parentQueue: got "training", which leads back to this queue':
      """yaml
      apiVersion: scheduling.run.ai/v2
      kind: Queue
      metadata: {name: department}
      spec:
        parentQueue: training
        resources:
          gpu: {quota: 8, overQuotaWeight: 1, limit: -1}
          cpu: {quota: -1, limit: -1}
          memory: {quota: -1, limit: -1}
      """
    When 2 pods "work" with 1 GPU each are submitted to queue "training"
    Then pod "work" has 2 running pods

  Scenario: A queue without resources is refused
    Then this manifest is refused with "Queue silent: spec.resources: got nothing":
      """yaml
      apiVersion: scheduling.run.ai/v2
      kind: Queue
      metadata: {name: silent}
      spec: {parentQueue: department}
      """
    And queue "training" uses 0 GPUs

  Scenario: A fraction above one GPU is refused, and a fraction of one runs
    Then this manifest is refused with 'annotation gpu-fraction: got "1.5"':
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: greedy, labels: {kai.scheduler/queue: training}, annotations: {gpu-fraction: "1.5"}}
      spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i}]}
      """
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: modest, labels: {kai.scheduler/queue: training}, annotations: {gpu-fraction: "0.5"}}
      spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i}]}
      """
    Then pod "modest" has 1 running pod

  Scenario: Pods of another scheduler are ignored
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: foreign, annotations: {gpu-fraction: "1.5"}}
      spec: {schedulerName: another, containers: [{name: c, image: i}]}
      """
    Then pod "foreign" has 1 pending pod

  Scenario: A gang is grouped and runs while webhooks validate its PodGroup
    When a gang "train" of 4 pods with 2 GPUs each is submitted to queue "training"
    Then gang "train" has 4 running pods
    And queue "training" uses 8 GPUs
