@workload-api @kubernetes-1.37 @GenericWorkload @WorkloadWithJob
Feature: A Job with scheduling is placed as its PodGroup says

  Background:
    Given a fleet of 2 nodes with 4 GPUs each
    And these queues:
      | queue    | quota |
      | training | 8     |

  Scenario: All pods of a Job start together
    Given these workloads are submitted:
      | name   | kind | queue    | pods | gpus |
      | filler | pod  | training | 5    | 1    |
    And pod "filler" has 5 running pods
    When this manifest is applied:
      """yaml
      apiVersion: batch/v1
      kind: Job
      metadata: {name: train, namespace: default, labels: {kai.scheduler/queue: training}}
      spec:
        parallelism: 4
        completions: 4
        completionMode: Indexed
        scheduling: {schedulingPolicy: {gang: {}}}
        template:
          metadata: {labels: {kai.scheduler/queue: training, schedlab.dev/workload: train}}
          spec:
            schedulerName: kai-scheduler
            restartPolicy: Never
            containers:
            - name: main
              image: registry.k8s.io/pause:3.10
              resources: {limits: {nvidia.com/gpu: "1"}}
      """
    Then workload "train" has 4 pending pods and stays so for 5 cycles
    When 1 pod of pod "filler" finishes
    Then eventually within 10 minutes workload "train" has 4 running pods
