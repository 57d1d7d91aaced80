@priority
Feature: Limits on preemption
  Optional, off by default: a maximum of preemptions per cycle, a minimum difference of priorities, and
  time to save a checkpoint.

  Background:
    Given a fleet of 1 node with 4 GPUs each
    And a queue "team" with a quota of 4

  Scenario: One preemption a cycle evicts step by step
    Given at most 1 preemption a cycle
    And a scheduling period of 5 seconds
    And these workloads are submitted:
      | name | queue | pods | gpus | priority | preemptible |
      | low  | team  | 4    | 1    | 50       | yes         |
    And queue "team" has 4 running pods
    When these workloads are submitted:
      | name | queue | pods | gpus | priority | preemptible |
      | high | team  | 4    | 1    | 90       | yes         |
    And 6 seconds pass
    Then now pod "high" has at most 2 running pods
    And eventually within 30 seconds pod "high" has 4 running pods

  Scenario: A priority that is only a little higher waits
    Given preemption by a priority that is higher by at least 50
    And these workloads are submitted:
      | name | queue | pods | gpus | priority | preemptible |
      | low  | team  | 4    | 1    | 50       | yes         |
    And queue "team" has 4 running pods
    When these workloads are submitted:
      | name | queue | pods | gpus | priority | preemptible |
      | near | team  | 1    | 1    | 90       | yes         |
    Then pod "near" has 1 pending pod and stays so for 5 cycles
    And no pods of the cluster were evicted
    When these workloads are submitted:
      | name | queue | pods | gpus | priority | preemptible |
      | far  | team  | 1    | 1    | 100      | yes         |
    Then pod "far" is running

  Scenario: An evicted pod has the time that the policy grants to save its work
    Given evicted pods have at least 2 minutes to end
    And these workloads are submitted:
      | name | queue | pods | gpus | priority | preemptible | grace | termination |
      | low  | team  | 4    | 1    | 50       | yes         | 5     | 100s        |
    And queue "team" has 4 running pods
    When these workloads are submitted:
      | name | queue | pods | gpus | priority | preemptible |
      | high | team  | 1    | 1    | 90       | yes         |
    Then never within 90 seconds pod "high" has at least 1 running pod
    And eventually within 30 seconds pod "high" has 1 running pod
