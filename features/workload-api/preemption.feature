@workload-api @kubernetes-1.37 @GenericWorkload
Feature: PodGroups of Kubernetes preempt and are preempted

  Background:
    Given a fleet of 2 nodes with 4 GPUs each
    And these queues:
      | queue    | quota |
      | training | 8     |

  Scenario: A group of higher priority evicts single pods on several nodes
    Given these workloads are submitted:
      | name | kind | queue    | pods | gpus | priority |
      | low  | pod  | training | 8    | 1    | 10       |
    And pod "low" has 8 running pods
    When these workloads are submitted:
      | name | kind     | queue    | pods | gpus | priority |
      | high | podgroup | training | 6    | 1    | 90       |
    Then eventually within 10 minutes podgroup "high" has 6 running pods
    And pod "low" has 2 running pods

  Scenario: A group that is disrupted together leaves as a whole
    Given these workloads are submitted:
      | name | kind     | queue    | pods | gpus | priority | disruption |
      | low  | podgroup | training | 8    | 1    | 10       | all        |
    And podgroup "low" has 8 running pods
    When these workloads are submitted:
      | name | kind     | queue    | pods | gpus | priority |
      | high | podgroup | training | 4    | 1    | 90       |
    Then eventually within 10 minutes podgroup "high" has 4 running pods
    And podgroup "low" has 0 running pods

  Scenario: One pod of higher priority preempts a group that is disrupted together
    Given these workloads are submitted:
      | name | kind     | queue    | pods | min | gpus | priority | disruption |
      | low  | podgroup | training | 8    | 4   | 1    | 10       | all        |
    And podgroup "low" has 8 running pods
    When these workloads are submitted:
      | name | kind | queue    | gpus | priority |
      | high | pod  | training | 1    | 90       |
    Then eventually within 10 minutes pod "high" is running
    And podgroup "low" has 0 running pods

  Scenario: A group does not evict others of its own priority
    Given these workloads are submitted:
      | name | kind     | queue    | pods | gpus | priority |
      | one  | podgroup | training | 8    | 1    | 50       |
    And podgroup "one" has 8 running pods
    When these workloads are submitted:
      | name | kind     | queue    | pods | gpus | priority |
      | two  | podgroup | training | 8    | 1    | 50       |
    Then podgroup "two" has 8 pending pods and stays so for 5 cycles
    And podgroup "one" has 8 running pods

  Scenario: Nothing is evicted for a group that does not fit anyway
    Given these workloads are submitted:
      | name | kind     | queue    | pods | gpus | priority | disruption |
      | low  | podgroup | training | 8    | 1    | 10       | all        |
    And podgroup "low" has 8 running pods
    When these workloads are submitted:
      | name | kind     | queue    | pods | gpus | priority |
      | high | podgroup | training | 9    | 1    | 90       |
    Then podgroup "high" has 9 pending pods and stays so for 5 cycles
    And podgroup "low" has 8 running pods

  Scenario: Of two waiting groups that of higher priority starts first
    Given these workloads are submitted:
      | name   | kind | queue    | pods | gpus | priority |
      | filler | pod  | training | 1    | 4    | 95       |
    And pod "filler" is running
    And these workloads are submitted:
      | name | kind     | queue    | pods | gpus | priority |
      | low  | podgroup | training | 8    | 1    | 10       |
      | high | podgroup | training | 8    | 1    | 90       |
    Then podgroup "low" has 8 pending pods and stays so for 5 cycles
    And podgroup "high" has 8 pending pods
    When pod "filler" is deleted
    Then eventually within 10 minutes podgroup "high" has 8 running pods
    And podgroup "low" has 8 pending pods
