@lab @gang
Feature: Exercise D: ten pods run together or not at all

  Background:
    Given the fleet "fleets/lab.yaml"
    And the manifest "lab/queues.yaml" is applied
    And the manifest "lab/exercise-d-filler.yaml" is applied
    And deployment "filler" has 24 running pods
    And the manifest "lab/exercise-d-gang.yaml" is applied

  @virtual-time
  Scenario: With 8 GPUs free all ten wait, and take none
    Then job "gang" has 0 running and 10 pending pods
    And job "gang" is pending because "Resources were found for 8 pods while 10 are required for gang scheduling"
    And for 1 hour 8 GPUs are free
    And no pods of the cluster were evicted

  Scenario Outline: When the filler shrinks to <filler> the gang <outcome>
    Given job "gang" has 10 pending pods
    When deployment "filler" is scaled to <filler>
    Then job "gang" has <running> running and <pending> pending pods and stays so for 5 cycles
    And job "gang" is whole or absent
    And <free> GPUs are free

    Examples:
      | filler | outcome    | running | pending | free |
      | 23     | waits on   | 0       | 10      | 9    |
      | 22     | runs whole | 10      | 0       | 0    |

  Scenario: A gang that waits for its tenth GPU does not block smaller jobs
    Given job "gang" has 10 pending pods
    When 8 pods "small" with 1 GPU each are submitted to queue "team-research"
    Then pod "small" is running
    And job "gang" has 0 running and 10 pending pods and stays so for 5 cycles
