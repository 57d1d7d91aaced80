@gang
Feature: Fields of a PodGroup change how it is scheduled and reported

  Background:
    Given a fleet of 1 node with 1 GPU each
    And a queue "team" with a quota of 4

  Scenario Outline: A group is retried when GPUs become free, unless it is to be tried once
    Given this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: train}
      spec: {queue: team, minMember: 2, schedulingBackoff: <backoff>}
      """
    And these workloads are submitted:
      | name | queue | pods | gpus | gang  |
      | rank | team  | 2    | 1    | train |
    And pod "rank" has 2 pending pods
    When a node "more" with 1 GPU is added
    Then pod "rank" has <running> running pods and stays so for 5 cycles

    Examples:
      | backoff | running |
      | -1      | 2       |
      | 1       | no      |

  Scenario: The message of a group that is tried once says that it is not retried
    Given this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: train}
      spec: {queue: team, minMember: 2, schedulingBackoff: 1}
      """
    When these workloads are submitted:
      | name | queue | pods | gpus | gang  |
      | rank | team  | 2    | 1    | train |
    And 5 cycles pass
    Then pod "rank" is pending because "is not tried again here, because its schedulingBackoff is 1"
    And the field "status.requested.nvidia.com/gpu" of queue "team" is "2"
    And queue "team" has a fair share of 0 GPUs

  Scenario Outline: Pods of a group are marked as unschedulable, unless it wants them unmarked
    Given this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2alpha2
      kind: PodGroup
      metadata: {name: train}
      spec: {queue: team, minMember: 1, markUnschedulable: <marks>}
      """
    When these workloads are submitted:
      | name | queue | pods | gpus | gang  |
      | rank | team  | 1    | 2    | train |
    Then an event of gang "train" says "Unschedulable"
    And the field "status.conditions.0.reason" of pod "rank-0" is "<reason>"

    Examples:
      | marks | reason        |
      | true  | Unschedulable |
      | false |               |

  @reclaim
  Scenario: The PodGroup of evicted pods names the preemptor and the number of pods in annotations
    Given these queues:
      | queue  | quota |
      | owner  | 1     |
      | lender | 0     |
    And these workloads are submitted:
      | name | kind | queue  | pods | gpus | preemptible |
      | lent | gang | lender | 1    | 1    | yes         |
    And gang "lent" has 1 running pod
    When these workloads are submitted:
      | name | kind | queue | pods | gpus |
      | mine | gang | owner | 1    | 1    |
    Then gang "mine" has 1 running pod
    And an event of gang "lent" has the annotation "evictor-action-type" with "reclaim"
    And an event of gang "lent" has the annotation "evictor-pod-group-name" with "mine"
    And an event of gang "lent" has the annotation "evictor-pod-group-namespace" with "default"
    And an event of gang "lent" has the annotation "num-evicted-pods" with "1"
