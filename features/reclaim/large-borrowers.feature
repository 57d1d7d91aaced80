@reclaim
Feature: A guarantee is served although borrowers run in large units

  Scenario: The own department gives back first, then one other queue
    Given a fleet of 1 node with 6 GPUs each
    And these queues:
      | queue | parent | quota |
      | a     |        | 1     |
      | b     |        | 1     |
      | c     |        | 4     |
      | hero  | c      | 4     |
      | noisy | c      | 0     |
    And these workloads are submitted:
      | name | kind | queue | pods | gpus |
      | wa   | pod  | a     | 1    | 2    |
      | wb   | pod  | b     | 1    | 2    |
      | wn   | pod  | noisy | 1    | 2    |
    And the cluster has 3 running pods
    When a gang "owned" of 4 pods with 1 GPU each is submitted to queue "hero"
    Then eventually within 2 minutes gang "owned" has 4 running pods and stays so for 5 cycles
    And 1 pod of queue "noisy" was evicted

  Scenario: Gangs of two departments and of the own one borrow
    Given a fleet of 2 nodes with 4 GPUs each
    And these queues:
      | queue  | parent   | quota |
      | a      |          | 1     |
      | b      |          | 1     |
      | c      |          | 6     |
      | c-east | c        | 6     |
      | c-west | c        | 0     |
      | hero   | c-east   | 6     |
      | noisy  | c-east   | 0     |
      | loud   | c-west   | 0     |
    And these workloads are submitted:
      | name | kind | queue | pods | gpus |
      | wa   | gang | a     | 2    | 1    |
      | wb   | gang | b     | 2    | 1    |
      | wn   | gang | noisy | 2    | 1    |
      | wl   | gang | loud  | 2    | 1    |
    And the cluster has 8 running pods
    When a gang "owned" of 6 pods with 1 GPU each is submitted to queue "hero"
    Then eventually within 2 minutes gang "owned" has 6 running pods and stays so for 5 cycles
    And 2 pods of queue "noisy" were evicted
    And 2 pods of queue "loud" were evicted
