@gang
Feature: A gang is placed whole or not at all

  Background:
    # slack: 8
    Given a fleet of 4 nodes with 8 GPUs each
    # slack: quota 32
    And these queues:
      | queue    | quota |
      | training | 32    |

  @id:gang.waits-whole
  Scenario: A gang that needs ten GPUs with eight free waits
    Given 24 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 24 running pods
    # slack: 1
    When a gang "train" of 10 pods with 1 GPU each is submitted to queue "training"
    Then gang "train" has 10 pending pods and stays so for 5 cycles
    And gang "train" is pending because "Resources were found for 8 pods while 10 are required for gang scheduling"
    And 8 GPUs are free
    And the placement matches its snapshot

  @id:gang.starts-whole
  Scenario: A waiting gang starts whole as soon as enough GPUs are free
    Given 24 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 24 running pods
    And a gang "train" of 10 pods with 1 GPU each is submitted to queue "training"
    And gang "train" has 10 pending pods
    When 1 pod of pod "filler" finishes
    Then gang "train" has 10 pending pods
    When 1 pod of pod "filler" finishes
    Then gang "train" has 10 running pods
    And 0 GPUs are free
    And the events match their snapshot

  @id:gang.take-turns
  Scenario: Gangs that fit only some at a time take turns until all are through
    When these workloads are submitted:
      | name | kind | queue    | pods | gpus | run time |
      | a    | gang | training | 12   | 1    | 10m      |
      | b    | gang | training | 12   | 1    | 10m      |
      | c    | gang | training | 12   | 1    | 10m      |
      | d    | gang | training | 12   | 1    | 10m      |
      | e    | gang | training | 12   | 1    | 10m      |
    Then queue "training" has 24 running and 36 pending pods
    And after 10 minutes queue "training" has 24 succeeded and 24 running and 12 pending pods
    And after 10 minutes queue "training" has 48 succeeded and 12 running pods
    And after 10 minutes queue "training" has 60 succeeded pods
    And no pods of the cluster were evicted

  @id:gang.holds-nothing
  Scenario: A waiting gang does not hold GPUs back from smaller workloads
    Given 24 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 24 running pods
    # slack: 1
    And a gang "train" of 10 pods with 1 GPU each is submitted to queue "training"
    And gang "train" has 10 pending pods
    # slack: 8
    When 8 pods "small" with 1 GPU each are submitted to queue "training"
    Then pod "small" has 8 running pods
    And 0 GPUs are free
    And gang "train" has 10 pending pods
    And gang "train" is pending because "Resources were found for 0 pods while 10 are required for gang scheduling"

  @id:gang.larger-than-fleet
  Scenario: A gang larger than the fleet waits with a reason that says so
    When a gang "huge" of 33 pods with 1 GPU each is submitted to queue "training"
    Then gang "huge" has 33 pending pods and stays so for 5 cycles
    And gang "huge" is pending because "33 pods that must run together request 33 GPUs, and all nodes on which they may run offer 32 GPUs"
    When a node "node-5" with 8 GPUs is added
    Then gang "huge" has 33 running pods
    And 7 GPUs are free

  @id:gang.whole-nodes
  Scenario: A gang of large pods needs whole nodes, not merely enough GPUs
    Given these workloads are submitted:
      | name | kind | queue    | pods | gpus | preemptible | spread by              |
      | tiny | pod  | training | 4    | 1    | no          | kubernetes.io/hostname |
    And pod "tiny" is on 4 nodes
    When a gang "train" of 2 pods with 8 GPUs each is submitted to queue "training"
    Then gang "train" has 2 pending pods and stays so for 5 cycles
    And gang "train" is pending because "Resources were found for 0 pods while 2 are required for gang scheduling"
    And 28 GPUs are free
    When 1 pod of pod "tiny" finishes
    Then gang "train" has 2 pending pods
    And gang "train" is pending because "Resources were found for 1 pods while 2 are required for gang scheduling"
    When 1 pod of pod "tiny" finishes
    Then gang "train" has 2 running pods

  Scenario: A gang waits if its queue's limit admits only a part of it
    Given these queues:
      | queue  | quota | limit |
      | narrow | 4     | 6     |
    When a gang "train" of 8 pods with 1 GPU each is submitted to queue "narrow"
    Then gang "train" has 8 pending pods and stays so for 5 cycles
    And gang "train" is pending because "narrow quota has reached the allowable limit of GPUs. Limit is 6 GPUs, currently 0 GPUs allocated and workload requested 8 GPUs"
    When the limit of queue "narrow" becomes 8
    Then gang "train" has 8 running pods

  @id:gang.cordoned-nodes
  Scenario: A gang is not placed on cordoned nodes
    Given node "node-1" is cordoned
    And node "node-2" is cordoned
    # slack: 8
    When a gang "train" of 3 pods with 8 GPUs each is submitted to queue "training"
    Then gang "train" has 3 pending pods and stays so for 5 cycles
    When node "node-2" is uncordoned
    Then gang "train" is running
    And gang "train" is not on node "node-1"
