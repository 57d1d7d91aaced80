@workload-api @kubernetes-1.37 @GenericWorkload @TopologyAwareWorkloadScheduling
Feature: A PodGroup of Kubernetes stays in one topology domain

  Background:
    Given a fleet:
      | pool | nodes | gpus | labels             |
      | a    | 2     | 4    | example.com/rack=a |
      | b    | 2     | 4    | example.com/rack=b |
    And these queues:
      | queue    | quota |
      | training | 16    |

  Scenario: All pods of a group run in one domain
    When these workloads are submitted:
      | name  | kind     | queue    | pods | gpus | topology         |
      | train | podgroup | training | 6    | 1    | example.com/rack |
    Then podgroup "train" has 6 running pods
    And podgroup "train" is within 1 "example.com/rack"

  Scenario: A group that fits in no domain waits although there are enough GPUs
    Given these workloads are submitted:
      | name | kind | queue    | pods | gpus | node selector      |
      | in-a | pod  | training | 2    | 2    | example.com/rack=a |
      | in-b | pod  | training | 2    | 2    | example.com/rack=b |
    And queue "training" has 4 running pods
    When these workloads are submitted:
      | name  | kind     | queue    | pods | gpus | topology         |
      | train | podgroup | training | 6    | 1    | example.com/rack |
    Then podgroup "train" has 6 pending pods and stays so for 5 cycles
    And the field "status.conditions.0.reason" of podgroup "train" is "Unschedulable"
    When pod "in-b" is deleted
    Then eventually within 10 minutes podgroup "train" has 6 running pods
    And podgroup "train" is within 1 "example.com/rack"

  Scenario: A group keeps its domain when pods join
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus | topology         |
      | train | podgroup | training | 4    | 1    | example.com/rack |
    And podgroup "train" has 4 running pods
    When these workloads are submitted:
      | name  | kind | queue    | pods | gpus | group |
      | extra | pod  | training | 4    | 1    | train |
    Then podgroup "train" has 8 running pods
    And podgroup "train" is within 1 "example.com/rack"

  Scenario: A group keeps its domain when a pod comes again
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus | topology         |
      | train | podgroup | training | 8    | 1    | example.com/rack |
    And podgroup "train" has 8 running pods
    When pod "train-0" is deleted
    And these workloads are submitted:
      | name  | kind | queue    | gpus | group |
      | again | pod  | training | 1    | train |
    Then podgroup "train" has 8 running pods
    And podgroup "train" is within 1 "example.com/rack"

  Scenario: Two groups get a domain each
    When these workloads are submitted:
      | name | kind     | queue    | pods | gpus | topology         |
      | one  | podgroup | training | 8    | 1    | example.com/rack |
      | two  | podgroup | training | 8    | 1    | example.com/rack |
    Then queue "training" has 16 running pods
    And podgroup "one" is within 1 "example.com/rack"
    And podgroup "two" is within 1 "example.com/rack"

  Scenario: Nodes without the label are in no domain
    Given a node "unlabelled" with 8 GPUs is added
    When these workloads are submitted:
      | name  | kind     | queue    | pods | gpus | topology         |
      | train | podgroup | training | 2    | 4    | example.com/rack |
    Then podgroup "train" has 2 running pods
    And podgroup "train" is not on node "unlabelled"
