@placement @kube
Feature: Where the default kube-scheduler puts pods

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And the scheduler profile "kube"

  Scenario: The emptiest node comes first
    When these workloads are submitted:
      | name | kind       | pods | gpus | cpu |
      | web  | deployment | 8    | 1    | 4   |
    Then deployment "web" is running
    And deployment "web" is on 4 nodes
    And node "node-1" has 6 free GPUs
    And node "node-4" has 6 free GPUs
    And the placement matches its snapshot

  Scenario: So a pod that needs a whole node finds none
    Given these workloads are submitted:
      | name | kind       | pods | gpus | cpu |
      | web  | deployment | 4    | 1    | 4   |
    And deployment "web" is running
    When these workloads are submitted:
      | name  | kind | gpus |
      | whole | pod  | 8    |
    Then pod "whole" is pending because "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."
    And 28 GPUs are free

  @affinity
  Scenario: A node that a pod wishes for comes before an emptier one
    Given the label "zone" of node "node-3" becomes "near"
    And these workloads are submitted:
      | name | kind       | pods | gpus | cpu | node selector |
      | busy | deployment | 1    | 4    | 32  | zone=near     |
    And deployment "busy" is running
    When these workloads are submitted:
      | name | kind       | pods | gpus | cpu | prefer       |
      | web  | deployment | 1    | 4    | 4   | zone in near |
    Then deployment "web" is on node "node-3"

  @preemption
  Scenario: A pod of higher priority evicts the least that it needs
    Given these workloads are submitted:
      | name | kind       | pods | gpus | priority |
      | low  | deployment | 4    | 4    | 10       |
      | mid  | deployment | 4    | 4    | 20       |
    And deployment "low" is running
    And deployment "mid" is running
    When these workloads are submitted:
      | name | kind | gpus | priority |
      | high | pod  | 4    | 1000     |
    Then pod "high" is running
    And 1 pod of deployment "low" was evicted
    And 1 pod of the cluster was evicted
    And deployment "mid" is running

  @preemption
  Scenario: A pod of higher priority preempts pods that no disruption budget protects
    Given the manifest "placement/guarded-budget.yaml" is applied
    And these workloads are submitted:
      | name    | kind       | pods | gpus | priority |
      | guarded | deployment | 2    | 8    | 10       |
      | open    | deployment | 2    | 8    | 10       |
    And deployment "guarded" is running
    And deployment "open" is running
    When these workloads are submitted:
      | name | kind | gpus | priority |
      | high | pod  | 8    | 1000     |
    Then pod "high" is running
    And 1 pod of deployment "open" was evicted
    And 1 pod of the cluster was evicted
    And deployment "guarded" is running

  @preemption @bug-kubernetes-141694
  Scenario: While its victims terminate slowly, the preemptor evicts no other pods
    Given these workloads are submitted:
      | name | kind       | pods | gpus | priority | grace | termination |
      | low  | deployment | 4    | 8    | 10       | 300   | 4m          |
    And deployment "low" is running
    When these workloads are submitted:
      | name | kind | gpus | priority |
      | high | pod  | 8    | 1000     |
    Then after 2 minutes 1 pod of the cluster was evicted
    And eventually within 5 minutes pod "high" is running
    And 1 pod of the cluster was evicted
    And deployment "low" has 3 running and 1 pending pods

  @gang
  Scenario: A gang runs in part
    Given these workloads are submitted:
      | name   | kind       | pods | gpus |
      | others | deployment | 24   | 1    |
    And deployment "others" is running
    When these workloads are submitted:
      | name  | kind | pods | gpus | min |
      | train | job  | 10   | 1    | 10  |
    Then job "train" has 8 running and 2 pending pods and stays so for 5 cycles
    And job "train" is pending because "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
