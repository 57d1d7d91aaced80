@lab @quota
Feature: Exercise A: two teams share one fleet by quota

  Each team gets 8 of the 32 GPUs in the lesson's make targets, and 16 in its Parts.

  Background:
    Given the fleet "fleets/lab.yaml"

  Scenario Outline: Both teams fill their quota of <quota> GPUs, and no more
    Given the manifest "<queues>" is applied
    When the manifest "<exercise>" is applied
    Then queue "team-research" has <quota> running and no pending pods and stays so for 5 cycles
    And queue "team-prod" has <quota> running and no pending pods
    And queue "team-research" uses <quota> GPUs
    And queue "ai-factory" uses <both> GPUs
    And <free> GPUs are free
    And no pods of the cluster were evicted

    Examples:
      | quota | both | free | queues                | exercise                       |
      | 8     | 16   | 16   | lab/queues.yaml       | lab/exercise-a-quota.yaml       |
      | 16    | 32   | 0    | lab/parts/queues.yaml | lab/parts/exercise-a-quota.yaml |

  Scenario: A team that wants more than its quota waits while the other uses its own
    Given the manifest "lab/parts/queues.yaml" is applied
    And the manifest "lab/parts/exercise-a-quota.yaml" is applied
    And queue "ai-factory" has 32 running pods
    When deployment "prod" is scaled to 20
    Then queue "team-prod" has 16 running and 4 pending pods and stays so for 5 cycles
    And queue "team-research" has 16 running pods
    And queue "team-prod" is pending because "4 node(s) didn't have enough resources: GPUs"
    And no pods of the cluster were evicted
