@reclaim
Feature: The owner returns and gets its share back

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    # slack: quota 16
    And these queues:
      | queue    | quota |
      | borrower | 16    |
      | owner    | 16    |

  @id:fairness.reclaim-minimal
  Scenario: Only as many are evicted as the owner needs
    # slack: 32
    Given 32 pods "borrowed" with 1 GPU each are submitted to queue "borrower"
    And queue "borrower" has 32 running pods
    When 5 pods "owned" with 1 GPU each are submitted to queue "owner"
    Then eventually within 2 minutes queue "owner" has 5 running pods and stays so for 5 cycles
    And 5 pods of queue "borrower" were evicted
    And queue "borrower" has 27 running pods
    And the events match their snapshot

  @id:fairness.free-first
  Scenario: Free GPUs are used before any pod is evicted
    Given 27 pods "borrowed" with 1 GPU each are submitted to queue "borrower"
    And queue "borrower" has 27 running pods
    When 5 pods "owned" with 1 GPU each are submitted to queue "owner"
    Then queue "owner" has 5 running pods
    And 0 GPUs are free
    And no pods of the cluster were evicted

  Scenario: The victim's grace period is respected
    Given these workloads are submitted:
      | name     | kind | queue    | pods | gpus | grace | termination |
      | borrowed | pod  | borrower | 32   | 1    | 60    | 30s         |
    And queue "borrower" has 32 running pods
    When 4 pods "owned" with 1 GPU each are submitted to queue "owner"
    Then never within 25 seconds queue "owner" has at least 1 running pod
    And 4 pods of queue "borrower" were evicted
    And eventually within 1 minute queue "owner" has 4 running pods and stays so for 5 cycles
    And 4 pods of queue "borrower" were evicted

  @id:fairness.non-preemptible-stays
  Scenario: Non-preemptible work is never reclaimed
    Given 16 non-preemptible pods "serve" with 1 GPU each are submitted to queue "borrower"
    And 16 pods "batch" with 1 GPU each are submitted to queue "borrower"
    And queue "borrower" has 32 running pods
    When 20 pods "owned" with 1 GPU each are submitted to queue "owner"
    Then eventually within 2 minutes queue "owner" has 16 running and 4 pending pods and stays so for 5 cycles
    And workload "serve" has 16 running pods
    And no pods of workload "serve" were evicted

  @id:fairness.within-quota-safe
  Scenario: A queue within its quota loses nothing
    Given 16 pods "mine" with 1 GPU each are submitted to queue "borrower"
    And queue "borrower" has 16 running pods
    # slack: 16
    And 16 pods "owned" with 1 GPU each are submitted to queue "owner"
    And queue "owner" has 16 running pods
    Then 0 GPUs are free
    # slack: 1
    When 4 pods "more" with 1 GPU each are submitted to queue "owner"
    Then for 1 minute workload "more" has 4 pending pods
    And no pods of the cluster were evicted

  @id:fairness.stays-returned
  Scenario: The loan stays returned
    Given 32 pods "borrowed" with 1 GPU each are submitted to queue "borrower"
    And queue "borrower" has 32 running pods
    When these workloads are submitted:
      | name  | kind       | queue | pods | gpus | preemptible |
      | owned | deployment | owner | 16   | 1    | yes         |
    Then eventually within 2 minutes queue "owner" has 16 running pods
    And for 10 minutes queue "owner" has 16 running pods
    And 16 pods of the cluster were evicted

  Scenario: A minimum run time protects the borrower for so long
    Given a default "reclaim min runtime" of 10 minutes
    And 32 pods "borrowed" with 1 GPU each are submitted to queue "borrower"
    And queue "borrower" has 32 running pods
    When 2 pods "owned" with 1 GPU each are submitted to queue "owner"
    Then for 9 minutes queue "owner" has 2 pending pods
    And eventually within 2 minutes queue "owner" has 2 running pods

  @id:gang.evicted-whole
  Scenario: A gang is evicted whole
    Given these workloads are submitted:
      | name  | kind | queue    | pods | gpus |
      | gang1 | gang | borrower | 8    | 1    |
      | gang2 | gang | borrower | 8    | 1    |
      | gang3 | gang | borrower | 8    | 1    |
      | gang4 | gang | borrower | 8    | 1    |
    And queue "borrower" has 32 running pods
    When 1 pod "owned" with 1 GPU each is submitted to queue "owner"
    Then eventually within 2 minutes queue "owner" has 1 running pod
    And 8 pods of queue "borrower" were evicted
    And queue "borrower" has 24 running pods

  Scenario: An elastic gang loses its surplus first and keeps its minimum
    Given these workloads are submitted:
      | name    | kind | queue    | pods | gpus | min |
      | elastic | gang | borrower | 32   | 1    | 16  |
    And queue "borrower" has 32 running pods
    When 16 pods "owned" with 1 GPU each are submitted to queue "owner"
    Then eventually within 2 minutes queue "owner" has 16 running pods and stays so for 5 cycles
    And gang "elastic" has 16 running pods

  Scenario: A preemption delay makes the owner wait before it evicts
    Given 32 pods "borrowed" with 1 GPU each are submitted to queue "borrower"
    And queue "borrower" has 32 running pods
    When these workloads are submitted:
      | name  | kind | queue | pods | gpus | preemption delay |
      | owned | gang | owner | 2    | 1    | 5m               |
    Then for 4 minutes no pods of the cluster were evicted
    And eventually within 2 minutes gang "owned" is running
