@gang
Feature: The gang scheduling test of the CNCF AI conformance programme
  KAR-0053 asks for three cases: a workload of N pods for which there is room runs and completes; of one
  for which there is less room no pod runs; a workload that is deleted leaves nothing behind.

  Background:
    Given a fleet of 2 nodes with 8 GPUs each
    # slack: quota 16
    And these queues:
      | queue    | quota |
      | training | 16    |

  @id:gang.complete
  Scenario: With room for all of its pods a gang runs and completes
    When these workloads are submitted:
      | name  | kind | queue    | pods | gpus | run time |
      | train | gang | training | 4    | 4    | 30s      |
    Then gang "train" has 4 running pods
    And 0 GPUs are free
    And after 40 seconds gang "train" has 4 succeeded pods
    And 16 GPUs are free

  @id:gang.none-without-room
  Scenario: With room for fewer than all of its pods no pod of a gang runs
    When a gang "train" of 5 pods with 4 GPUs each is submitted to queue "training"
    Then gang "train" has 5 pending pods
    And for 1 minute gang "train" has no running pods
    And 16 GPUs are free
    When a node "node-3" with 4 GPUs is added
    Then gang "train" has 5 running pods
    And 0 GPUs are free

  @id:gang.deleted
  Scenario: A gang that is deleted leaves its GPUs to others
    Given a gang "train" of 4 pods with 4 GPUs each is submitted to queue "training"
    And gang "train" has 4 running pods
    Then 0 GPUs are free
    When gang "train" is deleted
    Then 16 GPUs are free
    When a gang "next" of 4 pods with 4 GPUs each is submitted to queue "training"
    Then gang "next" has 4 running pods
    And 0 GPUs are free
