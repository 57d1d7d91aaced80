@borrowing
Feature: Idle capacity is lent to queues with work

  Background:
    # slack: 4, 8
    Given a fleet of 4 nodes with 8 GPUs each

  Scenario: A team borrows what its sibling leaves idle
    Given these queues:
      | queue         | parent     | quota |
      | ai-factory    |            | 32    |
      | team-research | ai-factory | 16    |
      | team-prod     | ai-factory | 16    |
    When 32 pods "prod" with 1 GPU each are submitted to queue "team-prod"
    Then queue "team-prod" has 32 running and no pending pods and stays so for 5 cycles
    And queue "team-prod" has a fair share of 32 GPUs
    And the placement matches its snapshot

  Scenario: Teams borrow across departments
    Given these queues:
      | queue        | parent       | quota |
      | department-1 |              | 16    |
      | team-1       | department-1 | 16    |
      | department-2 |              | 16    |
      | team-2       | department-2 | 16    |
    When 24 pods "work" with 1 GPU each are submitted to queue "team-1"
    Then queue "team-1" has 24 running pods
    And queue "department-1" has a fair share of 24 GPUs
    And queue "department-2" has a fair share of 0 GPUs

  @id:fairness.borrow-to-limit
  Scenario: A limit caps the loan
    # slack: quota 24, quota 8
    Given these queues:
      | queue    | quota | limit |
      | borrower | 8     | 12    |
      | idle     | 24    |       |
    When 20 pods "work" with 1 GPU each are submitted to queue "borrower"
    Then queue "borrower" has 12 running and 8 pending pods and stays so for 5 cycles

  @id:fairness.non-preemptible-may-not-borrow
  Scenario: Non-preemptible work may not borrow
    Given these queues:
      | queue    | quota |
      | borrower | 8     |
      | idle     | 24    |
    When 10 non-preemptible pods "serve" with 1 GPU each are submitted to queue "borrower"
    Then queue "borrower" has 8 running and 2 pending pods and stays so for 5 cycles
    And 24 GPUs are free

  Scenario: A queue without quota and weight runs on GPUs that no other queue requests
    Given these queues:
      | queue | quota | weight |
      | guest | 0     | 0      |
      | host  | 16    | 1      |
    When 40 pods "guest" with 1 GPU each are submitted to queue "guest"
    Then queue "guest" has 32 running and 8 pending pods
    And queue "guest" has a fair share of 0 GPUs

  @id:fairness.reclaim
  Scenario: Borrowed GPUs are reclaimed when their owner requests them
    # slack: quota 16
    Given these queues:
      | queue    | quota |
      | borrower | 16    |
      | owner    | 16    |
    # slack: 32
    And 32 pods "borrowed" with 1 GPU each are submitted to queue "borrower"
    And queue "borrower" has 32 running pods
    # slack: 16
    When 16 pods "owned" with 1 GPU each are submitted to queue "owner"
    Then eventually within 2 minutes queue "owner" has 16 running pods and stays so for 5 cycles
    And queue "borrower" has 16 running pods
    And 16 pods of queue "borrower" were evicted for queue "owner"

  @id:fairness.unused-share
  Scenario: Share that one queue cannot use goes to the others
    # slack: quota 0, weight 1
    Given these queues:
      | queue | quota | weight |
      | small | 0     | 1      |
      | large | 0     | 1      |
    When 4 pods "small" with 1 GPU each are submitted to queue "small"
    And 40 pods "large" with 1 GPU each are submitted to queue "large"
    Then queue "small" has 4 running and no pending pods
    And queue "large" has 28 running and 12 pending pods
