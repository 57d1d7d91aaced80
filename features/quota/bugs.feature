@quota
Feature: A queue is charged once for what its pods hold, and no longer

  Background:
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue  | quota | limit |
      | team-a | 8     | 8     |
      | team-b | 8     |       |

  @bug-yunikorn-core-90
  Scenario: Pods that finished are charged no longer, though others of their gang run on
    Given these workloads are submitted:
      | name | kind | queue  | pods | gpus | min | preemptible |
      | long | gang | team-a | 8    | 1    | 1   | no          |
    And gang "long" is running
    And 4 non-preemptible pods "next" with 1 GPU each are submitted to queue "team-a"
    And queue "team-a" has 8 running and 4 pending pods
    When 4 pods of gang "long" finish
    Then eventually within 10 seconds workload "next" has 4 running pods
    And gang "long" has 4 running and 4 succeeded pods
    And queue "team-a" uses 8 GPUs

  @bug-volcano-5099
  Scenario: A pod that was bound and has not started is charged once
    Given these workloads are submitted:
      | name  | kind | queue  | pods | gpus | startup |
      | first | pod  | team-a | 6    | 1    | 5m      |
    When 10 seconds pass
    Then now workload "first" has 6 starting pods
    When 2 pods "more" with 1 GPU each are submitted to queue "team-a"
    Then eventually within 10 seconds workload "more" has 2 running pods
    And now workload "first" has 6 starting pods

  @bug-kueue-6757 @virtual-time
  Scenario: Pods that cannot leave a dead node hold no quota
    Given these workloads are submitted:
      | name  | kind       | queue  | pods | gpus | preemptible |
      | serve | deployment | team-a | 8    | 1    | no          |
    And deployment "serve" is running
    And deployment "serve" is on 1 node
    When node "node-1" dies
    Then eventually within 10 minutes node "node-2" has 0 free GPUs
    And queue "team-a" has 8 terminating pods

  @bug-volcano-2264
  Scenario: Pods that were deleted while they waited claim no share
    Given these queues:
      | queue | quota | weight |
      | left  | 0     | 1      |
      | right | 0     | 1      |
    And these workloads are submitted:
      | name | kind | queue | pods | gpus | min |
      | work | gang | left  | 20   | 1    | 1   |
      | wait | gang | right | 40   | 1    | 1   |
    And queue "right" has 8 running and 32 pending pods
    When 36 pods of gang "wait" are deleted
    Then eventually within 2 minutes queue "left" has 12 running pods
    And queue "left" has a fair share of 12 GPUs
    And queue "right" has a fair share of 4 GPUs

  @bug-kueue-11139
  Scenario: Requests whose sum exceeds 64 bits do not wrap to zero
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: huge, labels: {kai.scheduler/queue: team-a}}
      spec:
        schedulerName: kai-scheduler
        containers:
          - {name: a, image: a, resources: {requests: {memory: "9223372036854775807"}}}
          - {name: b, image: b, resources: {requests: {memory: "9223372036854775807"}}}
      """
    And 8 pods "fine" with 1 GPU each are submitted to queue "team-a"
    Then pod "fine" is running
    And pod "huge" is pending because "9223372036854775807" and stays so for 5 cycles
