@workload-api @kubernetes-1.37 @GenericWorkload @TopologyAwareWorkloadScheduling
Feature: Profile kube places PodGroups of Kubernetes as kube-scheduler does

  Background:
    Given the scheduler profile "kube"

  Scenario: A group that fits starts, one that does not is left out whole
    Given a fleet of 2 nodes with 4 GPUs each
    When these workloads are submitted:
      | name  | kind     | pods | gpus |
      | train | podgroup | 6    | 1    |
      | large | podgroup | 9    | 1    |
    Then podgroup "train" has 6 running pods
    And podgroup "large" has 9 pending pods and stays so for 5 cycles
    And the field "status.conditions.0.reason" of podgroup "train" is "Scheduled"
    And the field "status.conditions.0.reason" of podgroup "large" is "Unschedulable"

  Scenario: A group of higher priority evicts only the pods in its way
    Given a fleet of 2 nodes with 4 GPUs each
    When these workloads are submitted:
      | name | kind     | pods | gpus | priority |
      | low  | podgroup | 8    | 1    | 10       |
    Then podgroup "low" has 8 running pods
    When these workloads are submitted:
      | name | kind     | pods | gpus | priority | disruption |
      | high | podgroup | 5    | 1    | 90       | all        |
    Then eventually within 10 minutes podgroup "high" has 5 running pods
    And podgroup "low" has 3 running pods

  Scenario: A group that is disrupted together leaves as a whole
    Given a fleet of 2 nodes with 4 GPUs each
    And these workloads are submitted:
      | name | kind     | pods | gpus | priority | disruption |
      | low  | podgroup | 8    | 1    | 10       | all        |
    And podgroup "low" has 8 running pods
    When these workloads are submitted:
      | name | kind     | pods | gpus | priority |
      | high | podgroup | 2    | 1    | 90       |
    Then eventually within 10 minutes podgroup "high" has 2 running pods
    And podgroup "low" has 0 running pods

  Scenario: A pod whose group does not exist waits without a message
    Given a fleet of 2 nodes with 4 GPUs each
    When these workloads are submitted:
      | name | kind | gpus | group  |
      | lost | pod  | 1    | absent |
      | fine | pod  | 1    |        |
    Then pod "fine" is running
    And pod "lost" is pending and stays so for 5 cycles

  Scenario: All pods of a group run in one domain
    Given a fleet:
      | pool | nodes | gpus | labels             |
      | a    | 2     | 4    | example.com/rack=a |
      | b    | 2     | 4    | example.com/rack=b |
    When these workloads are submitted:
      | name | kind     | pods | gpus | topology         |
      | one  | podgroup | 6    | 1    | example.com/rack |
      | two  | podgroup | 6    | 1    | example.com/rack |
    Then podgroup "one" has 6 running pods
    And podgroup "one" is within 1 "example.com/rack"
    And podgroup "two" has 6 running pods
    And podgroup "two" is within 1 "example.com/rack"

  Scenario: A group with a pod of another priority is refused, and other pods run
    Given a fleet of 2 nodes with 4 GPUs each
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: train, namespace: default}
      spec: {schedulingPolicy: {gang: {minCount: 2}}}
      """
    And these workloads are submitted:
      | name  | kind | gpus | group | priority |
      | one   | pod  | 1    | train |          |
      | two   | pod  | 1    | train | 90       |
      | other | pod  | 1    |       |          |
    Then pod "other" is running
    And podgroup "train" has 2 pending pods and stays so for 5 cycles
    And the field "status.conditions.0.reason" of podgroup "train" is "SchedulerError"
    And the field "status.conditions.0.message" of podgroup "train" is "all pods in a single pod group should have the same priority as the pod group's priority, got 90 and 0"

  Scenario: A group goes to the domain that holds most of its pods
    Given a fleet:
      | pool | nodes | gpus | labels             |
      | a    | 1     | 2    | example.com/rack=a |
      | b    | 1     | 4    | example.com/rack=b |
    When these workloads are submitted:
      | name  | kind     | pods | min | gpus | topology         |
      | train | podgroup | 4    | 2   | 1    | example.com/rack |
    Then podgroup "train" has 4 running pods
    And podgroup "train" is within 1 "example.com/rack"
