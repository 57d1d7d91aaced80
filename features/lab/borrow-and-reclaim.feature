@lab
Feature: Exercises B and C: idle GPUs are lent and given back

  The lab's page says that neither could be observed. With preemptible workloads (KAI's priority class
  "train") both happen; original.feature shows why they do not happen with the lab's own
  manifests.

  Background:
    Given the fleet "fleets/lab.yaml"

  @borrowing
  Scenario Outline: B: team-prod runs <pods> pods on a quota of <quota> while its sibling is idle
    Given the manifest "<queues>" is applied
    When the manifest "<exercise>" is applied
    Then queue "team-prod" has <pods> running and no pending pods and stays so for 5 cycles
    And queue "team-prod" has a fair share of <pods> GPUs
    And queue "team-research" has a fair share of 0 GPUs

    Examples:
      | quota | pods | queues                | exercise                        |
      | 8     | 16   | lab/queues.yaml       | lab/exercise-b-borrow.yaml       |
      | 16    | 32   | lab/parts/queues.yaml | lab/parts/exercise-b-borrow.yaml |

  @reclaim
  Scenario: C with a quota of 8: there are free GPUs, so no queue gives any back
    Given the manifest "lab/queues.yaml" is applied
    And the manifest "lab/exercise-b-borrow.yaml" is applied
    And queue "team-prod" has 16 running pods
    When the manifest "lab/exercise-c-reclaim.yaml" is applied
    Then queue "team-research" has 8 running and no pending pods and stays so for 5 cycles
    And queue "team-prod" has 16 running and no pending pods
    And no pods of the cluster were evicted

  @reclaim
  Scenario: C with a quota of 16: the owner gets exactly its share back
    Given the manifest "lab/parts/queues.yaml" is applied
    And the manifest "lab/parts/exercise-b-borrow.yaml" is applied
    And queue "team-prod" has 32 running pods
    When the manifest "lab/parts/exercise-c-reclaim.yaml" is applied
    Then queue "team-research" has 16 running and no pending pods and stays so for 5 cycles
    And queue "team-prod" has 16 running and 16 pending pods and stays so for 5 cycles
    And 16 pods of queue "team-prod" were evicted for queue "team-research"
    And 16 pods of the cluster were evicted
    And the placement matches its snapshot

  @reclaim
  Scenario: C: GPUs that the owner leaves idle again are lent again
    Given the manifest "lab/parts/queues.yaml" is applied
    And the manifest "lab/parts/exercise-b-borrow.yaml" is applied
    And the manifest "lab/parts/exercise-c-reclaim.yaml" is applied
    And queue "team-research" has 16 running pods
    When deployment "research" is scaled to 4
    Then queue "team-prod" has 28 running and 4 pending pods and stays so for 5 cycles
    And queue "team-research" has 4 running and no pending pods
