@placement @mig
Feature: GPUs that are split into MIG instances
  Nodes offer MIG instances by profile, such as `nvidia.com/mig-1g.10gb`. A queue is charged as many
  GPUs for an instance as the instance has slices.

  Background:
    Given the fleet "fleets/mig.yaml"
    And these queues:
      | queue | quota | limit |
      | team  | 4     | 8     |

  Scenario: Instances are counted by profile
    When this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata: {name: small, labels: {kai.scheduler/queue: team}}
      spec:
        parallelism: 5
        template:
          spec:
            schedulerName: kai-scheduler
            restartPolicy: Never
            containers:
            - {name: main, image: train, resources: {limits: {nvidia.com/mig-1g.10gb: "1"}}}
      """
    Then job "small" has 4 running and 1 pending pods and stays so for 5 cycles

  Scenario: A limit on GPUs counts the slices of instances
    Given this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata: {name: large, labels: {kai.scheduler/queue: team}}
      spec:
        parallelism: 2
        template:
          spec:
            schedulerName: kai-scheduler
            restartPolicy: Never
            containers:
            - {name: main, image: train, resources: {limits: {nvidia.com/mig-3g.40gb: "1"}}}
      """
    And job "large" has 2 running pods
    When 3 pods "whole" with 1 GPU each are submitted to queue "team"
    Then pod "whole" has 2 running and 1 pending pods and stays so for 5 cycles
    And pod "whole" is pending because "team quota has reached the allowable limit of GPUs. Limit is 8 GPUs, currently 8 GPUs allocated"

  Scenario: Whole GPUs come from nodes that are not split
    When 3 pods "whole" with 1 GPU each are submitted to queue "team"
    Then pod "whole" has 2 running and 1 pending pods and stays so for 5 cycles
    And pod "whole" is pending because "node(s) offer MIG instances only (MIG strategy mixed)"
