@priority @starvation
Feature: No workload with a right to GPUs starves

  @id:fairness.no-starvation
  Scenario: Small jobs cannot starve a large one that has a quota
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue | quota |
      | small | 0     |
      | large | 16    |
    And these workloads are submitted:
      | name   | kind       | queue | pods | gpus | preemptible |
      | stream | deployment | small | 40   | 1    | yes         |
    And queue "small" has 16 running pods
    When a gang "hero" of 2 pods with 8 GPUs each is submitted to queue "large"
    Then eventually within 2 minutes gang "hero" has 2 running pods and stays so for 5 cycles

  @virtual-time
  Scenario: A stream of work starves a queue without quota, and a quota cures it
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue | quota | weight |
      | prod  | 8     | 1      |
      | guest | 0     | 0      |
    And these workloads are submitted:
      | name   | kind       | queue | pods | gpus | preemptible |
      | stream | deployment | prod  | 20   | 1    | yes         |
    And queue "prod" has 8 running pods
    When 4 pods "guest" with 1 GPU each are submitted to queue "guest"
    Then never within 1 hour queue "guest" has at least 1 running pod
    When the quota of queue "prod" becomes 4
    And the quota of queue "guest" becomes 4
    Then eventually within 2 minutes queue "guest" has 4 running pods and stays so for 5 cycles

  @virtual-time
  Scenario: A stream of work starves a queue without quota, and a queue priority cures it
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue | quota | weight |
      | prod  | 0     | 1      |
      | guest | 0     | 0      |
    And these workloads are submitted:
      | name   | kind       | queue | pods | gpus | preemptible |
      | stream | deployment | prod  | 20   | 1    | yes         |
    And queue "prod" has 8 running pods
    When 4 pods "guest" with 1 GPU each are submitted to queue "guest"
    Then never within 1 hour queue "guest" has at least 1 running pod
    When the weight of queue "guest" becomes 1
    And the priority of queue "guest" becomes 200
    Then eventually within 2 minutes queue "guest" has 4 running pods and stays so for 5 cycles

  @id:preemption.stream
  Scenario: A stream of low priority does not delay high priority
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue | quota |
      | team  | 8     |
    And a priority class "low" with value 10
    And a priority class "high" with value 90
    And these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority | run time |
      | stream | job  | team  | 60   | 1    | low      | 5m       |
    And queue "team" has 8 running pods
    When these workloads are submitted:
      | name   | kind | queue | pods | gpus | priority |
      | urgent | gang | team  | 8    | 1    | high     |
    Then eventually within 1 minute gang "urgent" has 8 running pods

  @time-based-fairness @virtual-time
  Scenario: A queue that used the fleet for a day yields to a queue that waited
    Given a fleet of 1 node with 8 GPUs each
    And fairness over time with a window of 24 hours and k 1
    And a scheduling period of 1 minute
    And these queues:
      | queue | quota | weight |
      | early | 0     | 1      |
      | late  | 0     | 1      |
    And these workloads are submitted:
      | name  | kind       | queue | pods | gpus | preemptible |
      | early | deployment | early | 20   | 1    | yes         |
    And queue "early" has 8 running pods
    When 24 hours pass
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | preemptible |
      | late | deployment | late  | 20   | 1    | yes         |
    Then eventually within 5 minutes queue "late" has at least 5 running pods

  @time-based-fairness @virtual-time
  Scenario: A restarted scheduler remembers the usage of each queue
    Given a fleet of 1 node with 8 GPUs each
    And fairness over time with a window of 24 hours and k 1
    And a scheduling period of 1 minute
    And these queues:
      | queue | quota | weight |
      | early | 0     | 1      |
      | late  | 0     | 1      |
    And these workloads are submitted:
      | name  | kind       | queue | pods | gpus | preemptible |
      | early | deployment | early | 20   | 1    | yes         |
    And queue "early" has 8 running pods
    When 24 hours pass
    And the scheduler is restarted
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | preemptible |
      | late | deployment | late  | 20   | 1    | yes         |
    Then eventually within 5 minutes queue "late" has at least 5 running pods

  @time-based-fairness @virtual-time
  Scenario: Usage of many half-lives ago is forgotten
    Given a fleet of 1 node with 8 GPUs each
    And fairness over time with a window of 48 hours and k 1
    And past use counts for half after 1 hour
    And a scheduling period of 1 minute
    And these queues:
      | queue | quota | weight |
      | early | 0     | 1      |
      | late  | 0     | 1      |
    And these workloads are submitted:
      | name  | kind | queue | pods | gpus | preemptible | run time |
      | early | job  | early | 8    | 1    | yes         | 12h      |
    And queue "early" has 8 running pods
    When 24 hours pass
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus | preemptible |
      | back | deployment | early | 20   | 1    | yes         |
      | late | deployment | late  | 20   | 1    | yes         |
    Then eventually within 5 minutes queue "late" has 4 running pods
    And queue "early" has 4 running pods
