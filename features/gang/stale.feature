@gang
Feature: A gang that lost members is evicted after a grace period

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 32    |

  Scenario: A gang that lost a member is evicted when its grace is over
    Given these workloads are submitted:
      | name  | kind | queue    | pods | gpus | staleness grace |
      | train | gang | training | 4    | 1    | 2m              |
    And gang "train" has 4 running pods
    When 1 pod of gang "train" fails
    Then for 110 seconds gang "train" has 3 running pods
    And eventually within 20 seconds gang "train" has no running pods
    And 3 pods of gang "train" were evicted with "Workload doesn't meet the minimum required number of pods (4), evicting remaining pod: default/train-"
    And an event of gang "train" says "StaleJob"
    And the events match their snapshot

  Scenario: The grace is a minute unless the gang says otherwise
    Given a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    And gang "train" has 4 running pods
    When 1 pod of gang "train" fails
    Then for 50 seconds gang "train" has 3 running pods
    And eventually within 20 seconds gang "train" has no running pods

  Scenario: The cluster may have another grace
    Given a default "staleness grace" of 10 minutes
    And a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    And gang "train" has 4 running pods
    When 1 pod of gang "train" fails
    Then for 9 minutes gang "train" has 3 running pods
    And eventually within 2 minutes gang "train" has no running pods

  @virtual-time
  Scenario: A gang with a negative grace is never given up
    Given these workloads are submitted:
      | name  | kind | queue    | pods | gpus | staleness grace |
      | train | gang | training | 4    | 1    | -1s             |
    And gang "train" has 4 running pods
    When 1 pod of gang "train" fails
    Then for 3 hours gang "train" has 3 running pods
    And no pods of gang "train" were evicted

  @bug-KAI-1968
  Scenario: A gang that finishes one by one is not stale
    Given a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    And gang "train" has 4 running pods
    When 1 pod of gang "train" finishes
    Then for 10 minutes gang "train" has 3 running pods
    When 2 pods of gang "train" finish
    Then for 10 minutes gang "train" has 1 running pods
    And no pods of gang "train" were evicted

  Scenario: A gang whose member returns in time is left alone
    Given the manifest "gang/three-of-four.yaml" is applied
    And the manifest "gang/the-fourth.yaml" is applied
    And gang "train" has 4 running pods
    And 1 pod of gang "train" is deleted
    When 40 seconds pass
    And the manifest "gang/the-fourth.yaml" is applied
    Then for 5 minutes gang "train" has 4 running pods
    And no pods of gang "train" were evicted

  Scenario: The grace begins anew when a gang loses a member again
    Given the manifest "gang/three-of-four.yaml" is applied
    And the manifest "gang/the-fourth.yaml" is applied
    And gang "train" has 4 running pods
    And 1 pod of gang "train" is deleted
    When 40 seconds pass
    And the manifest "gang/the-fourth.yaml" is applied
    And 10 seconds pass
    And 1 pod of gang "train" is deleted
    Then for 50 seconds gang "train" has 3 running pods
    And eventually within 20 seconds gang "train" has no running pods

  Scenario: A gang is not stale while more than its minimum runs
    Given these workloads are submitted:
      | name  | kind | queue    | pods | gpus | min |
      | train | gang | training | 4    | 1    | 2   |
    And gang "train" has 4 running pods
    When 2 pods of gang "train" fail
    Then for 10 minutes gang "train" has 2 running pods
    And no pods of gang "train" were evicted

  Scenario: A new scheduler remembers since when a gang is stale
    Given a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    And gang "train" has 4 running pods
    And 1 pod of gang "train" fails
    When 40 seconds pass
    And the scheduler is restarted
    Then for 10 seconds gang "train" has 3 running pods
    And eventually within 20 seconds gang "train" has no running pods
