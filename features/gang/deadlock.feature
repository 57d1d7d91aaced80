@gang
Feature: Gangs do not keep one another from starting

  @bug-volcano-3373
  @id:gang.no-deadlock
  Scenario: Two gangs, each as large as the fleet, run one after the other
    Given a fleet of 100 nodes with 1 GPU each
    And a queue "training" with a quota of 100
    And node "node-50" is cordoned
    When these workloads are submitted:
      | name | kind | queue    | pods | gpus | run time |
      | one  | gang | training | 100  | 1    | 10m      |
      | two  | gang | training | 100  | 1    | 10m      |
    Then the cluster has 200 pending pods and stays so for 5 cycles
    When node "node-50" is uncordoned
    Then the cluster has 100 running and 100 pending pods and stays so for 5 cycles
    And gang "one" is whole or absent
    And gang "two" is whole or absent
    And after 10 minutes the cluster has 100 succeeded and 100 running pods
    And after 10 minutes the cluster has 200 succeeded pods

  @bug-scheduler-plugins-117
  Scenario: Gangs whose members arrive alternately do not split the GPUs
    Given a fleet of 1 node with 8 GPUs each
    And a queue "training" with a quota of 8
    When the manifest "gang/interleaved.yaml" is applied
    Then the cluster has 5 running and 5 pending pods and stays so for 5 cycles
    And gang "red" is whole or absent
    And gang "blue" is whole or absent
    And after 10 minutes the cluster has 5 succeeded and 5 running pods
    And after 10 minutes the cluster has 10 succeeded pods

  @bug-volcano-2083
  Scenario: Pipelined gangs do not hold their GPUs back from others
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 8     |
      | guests   | 0     |
    And these workloads are submitted:
      | name   | kind | queue  | pods | gpus | termination | grace |
      | guests | pod  | guests | 8    | 1    | 60s         | 60    |
    And pod "guests" is running
    When these workloads are submitted:
      | name | kind | queue    | pods | gpus | run time |
      | a    | gang | training | 6    | 1    | 10m      |
      | b    | gang | training | 6    | 1    | 10m      |
      | c    | gang | training | 6    | 1    | 10m      |
    And 90 seconds pass
    Then queue "training" has 6 running and 12 pending pods
    And 6 pods of queue "guests" were evicted
    And after 10 minutes queue "training" has 6 succeeded and 6 running and 6 pending pods
    And after 10 minutes queue "training" has 12 succeeded and 6 running pods

  @bug-volcano-5805 @virtual-time
  Scenario: GPUs of a repaired node go to the gang below its minimum
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue     | quota | weight |
      | training  | 16    | 1      |
      | scavenger | 0     | 0      |
    And the manifest "gang/patient-job.yaml" is applied
    And job "train" has 16 running pods
    And 8 pods "zero" with 1 GPU each are submitted to queue "scavenger"
    And pod "zero" has 8 pending pods
    When node "node-2" dies
    And 10 minutes pass
    And node "node-2" returns
    Then eventually within 5 minutes job "train" has 16 running pods
    And job "train" has 16 running pods and stays so for 5 cycles
    And queue "scavenger" has 8 pending pods
    And no pods of the cluster were evicted
