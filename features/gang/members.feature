@gang
Feature: A gang waits for its members

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 32    |

  Scenario: A gang waits for a member that does not exist yet
    Given the manifest "gang/three-of-four.yaml" is applied
    And gang "train" has 3 pending pods
    Then gang "train" is pending because "Job is not ready for scheduling. Waiting for 4 pods, currently 3 exist, 0 are gated"
    And an event of gang "train" says "NotReady"
    When the manifest "gang/the-fourth.yaml" is applied
    Then gang "train" has 4 running pods

  @id:gang.gated-member
  Scenario: A gated member keeps the gang waiting until its gate is lifted
    Given these workloads are submitted:
      | name  | kind | queue    | pods | gpus | gated |
      | train | gang | training | 4    | 1    | 4     |
    And gang "train" has 4 gated pods
    When the gates of pod "train-0" are lifted
    Then gang "train" has 3 gated and 1 pending pods
    And pod "train-0" is pending because "Waiting for 4 pods, currently 4 exist, 3 are gated"
    When the gates of gang "train" are lifted
    Then gang "train" has 4 running pods

  Scenario: A deleted member keeps a waiting gang from starting
    Given 30 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 30 running pods
    And a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    And gang "train" has 4 pending pods
    And 1 pod of gang "train" is deleted
    When 4 pods of pod "filler" finish
    Then gang "train" has 3 pending pods and stays so for 5 cycles
    And gang "train" is pending because "Waiting for 4 pods, currently 3 exist"
    When the manifest "gang/the-fourth.yaml" is applied
    Then gang "train" has 4 running pods

  Scenario: A lower minimum lets a waiting gang start
    Given 30 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 30 running pods
    And a gang "train" of 4 pods with 1 GPU each is submitted to queue "training"
    And gang "train" has 4 pending pods
    When the pod group of gang "train" becomes:
      """yaml
      spec: {minMember: 2}
      """
    Then gang "train" has 2 running and 2 pending pods

  Scenario: A pod that names a group which does not exist waits for the group
    When the manifest "gang/the-fourth.yaml" is applied
    Then pod "train-3" is pending because "PodGroup train, named in annotation pod-group-name, does not exist"
    When the manifest "gang/three-of-four.yaml" is applied
    Then gang "train" has 4 running pods

  Scenario: A gang whose pods ask for unequal numbers of GPUs starts with the whole sum
    Given 20 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 20 running pods
    When these workloads are submitted:
      | name  | kind       | queue    | pods | gpus |
      | train | pytorchjob | training | 3    | 4    |
    Then pytorchjob "train" has 3 running pods

  Scenario: A failed member is replaced though another has succeeded
    Given these workloads are submitted:
      | name  | kind | queue    | pods | gpus | min |
      | sweep | job  | training | 3    | 1    | 3   |
    And job "sweep" has 3 running pods
    When 1 pod of job "sweep" finishes
    And 5 seconds pass
    And 1 pod of job "sweep" fails
    And 1 minute passes
    Then eventually within 1 hour job "sweep" has 2 running and 1 succeeded pods
