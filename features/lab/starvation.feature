@lab @starvation
Feature: Exercise E: a team without a quota starves, and is cured

  The queue of team-prod has the higher priority and more work than the fleet can hold; the queue of
  team-research has no quota. GPUs beyond the quotas go to the higher priority first, so the fair share
  of team-research is 0, and a fair share of 0 reclaims nothing.

  Background:
    Given the fleet "fleets/lab.yaml"
    And the manifest "lab/exercise-e-queues.yaml" is applied
    And the manifest "lab/exercise-e-flood.yaml" is applied
    And queue "team-prod" has 32 running and 8 pending pods
    And the manifest "lab/exercise-e-research.yaml" is applied

  @virtual-time
  Scenario: team-research waits while wave after wave of the flood runs
    Then queue "team-research" has a fair share of 0 GPUs
    And for 12 minutes queue "team-research" has no running pods
    And job "flood" has at least 64 succeeded pods
    And no pods of the cluster were evicted

  Scenario Outline: A quota of <quota> gives team-research <running> GPUs at once
    Given queue "team-research" has 8 pending pods
    When the quota of queue "team-research" becomes <quota>
    Then queue "team-research" has <running> running and <pending> pending pods and stays so for 5 cycles
    And queue "team-prod" has <left> running pods
    And <running> pods of queue "team-prod" were evicted for queue "team-research"

    Examples:
      | quota | running | pending | left |
      | 3     | 3       | 5       | 29   |
      | 8     | 8       | 0       | 24   |

  Scenario: The same priority for both gives team-research its part of the surplus
    Given queue "team-research" has 8 pending pods
    When the priority of queue "team-prod" becomes 100
    Then queue "team-research" has 8 running and no pending pods and stays so for 5 cycles
    And queue "team-prod" has 24 running pods
    And 8 pods of queue "team-prod" were evicted for queue "team-research"
