@upgrade
Feature: A new version takes over from one that has stopped

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue    | parent  | quota | limit |
      | company  |         | 32    |       |
      | training | company | 16    |       |
      | services | company | 8     |       |
      | capped   | company | 2     | 2     |

  Scenario: Running pods are not touched, and waiting pods keep their reasons
    Given a gang "train" of 4 pods with 2 GPUs each is submitted to queue "training"
    And 10 pods "serve" with 1 GPU each are submitted to queue "services"
    And 4 pods "capped" with 1 GPU each are submitted to queue "capped"
    And a gang "giant" of 5 pods with 8 GPUs each is submitted to queue "training"
    And gang "train" has 4 running pods
    And pod "serve" has 10 running pods
    And pod "capped" has 2 running and 2 pending pods
    And gang "giant" has 5 pending pods
    When the scheduler is stopped
    And 1 minute passes
    And the scheduler is started
    Then gang "train" has 4 running pods and stays so for 5 cycles
    And pod "serve" has 10 running pods
    And pod "capped" has 2 running and 2 pending pods
    And gang "giant" has 5 pending pods
    And pod "capped" is pending because "reached the allowable limit of GPUs"
    And 4 events of gang "train" say "Scheduled"
    And 10 events of pod "serve" say "Scheduled"
    And no pods of the cluster were evicted
    And the placement matches its snapshot

  Scenario Outline: A gang that the old version left at write <write> is completed, and newer workloads start
    Given the scheduler dies before its write number <write>
    When a gang "train" of 4 pods with 2 GPUs each is submitted to queue "training"
    And 1 minute passes
    And 4 pods "late" with 1 GPU each are submitted to queue "services"
    And the scheduler is started
    Then gang "train" has 4 running pods and stays so for 5 cycles
    And pod "late" has 4 running pods
    And no pods of the cluster were evicted
    And queue "company" uses 12 GPUs

    Examples: nothing written, the group, some are bound, all are bound
      | write |
      | 1     |
      | 2     |
      | 4     |
      | 5     |
      | 6     |
      | 7     |
      | 8     |
      | 10    |

  Scenario: Queue status equals the pods, whatever happened while no controller ran
    Given 8 pods "serve" with 1 GPU each are submitted to queue "services"
    And pod "serve" has 8 running pods
    And 8 pods "learn" with 1 GPU each are submitted to queue "training"
    And queue "company" has 16 running pods
    When the scheduler is stopped
    And 3 pods of pod "serve" finish
    And 2 pods of pod "learn" are deleted
    And the scheduler is started
    Then queue "services" uses 5 GPUs
    And queue "training" uses 6 GPUs
    And queue "company" uses 11 GPUs

  Scenario: A reclaim that the old version began goes on and takes no more than it must
    Given these workloads are submitted:
      | name     | kind | queue    | pods | gpus | termination |
      | borrowed | pod  | services | 32   | 1    | 30s         |
    And pod "borrowed" has 32 running pods
    When a gang "train" of 4 pods with 2 GPUs each is submitted to queue "training"
    And 3 seconds pass
    And the scheduler is stopped
    And 10 seconds pass
    And the scheduler is started
    Then eventually within 2 minutes gang "train" has 4 running pods and stays so for 5 cycles
    And 8 pods of queue "services" were evicted for gang "train"
    And 8 pods of queue "services" were evicted

  Scenario: Upgrading and downgrading twice changes nothing
    Given a gang "train" of 4 pods with 2 GPUs each is submitted to queue "training"
    And 16 pods "serve" with 1 GPU each are submitted to queue "services"
    And queue "company" has 20 running pods
    When the scheduler is restarted
    And 2 cycles pass
    And the scheduler is restarted
    And 2 cycles pass
    And the scheduler is restarted
    Then gang "train" has 4 running pods and stays so for 5 cycles
    And pod "serve" has 16 running pods
    And no pods of the cluster were evicted
    And queue "company" uses 24 GPUs
    And 4 events of gang "train" say "Scheduled"
