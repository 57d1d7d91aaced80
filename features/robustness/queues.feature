@robustness @queues
Feature: Queues are created and deleted while they have workloads

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue      | parent     | quota |
      | department |            | 8     |
      | training   | department | 8     |

  Scenario: Pods of a deleted queue keep running, and its waiting pods get a reason
    Given 10 pods "work" with 1 GPU each are submitted to queue "training"
    And pod "work" has 8 running and 2 pending pods
    When queue "training" is deleted
    Then pod "work" has 8 running and 2 pending pods and stays so for 5 cycles
    And pod "work" is pending because "Queue 'training' does not exist"
    And no pods of the cluster were evicted
    When 2 pods of pod "work" finish
    Then pod "work" has 6 running and 2 pending pods
    When these queues are created:
      | queue    | parent     | quota |
      | training | department | 8     |
    Then pod "work" has 8 running pods

  Scenario: A deleted parent takes the queues below it out of service
    Given 10 pods "work" with 1 GPU each are submitted to queue "training"
    And pod "work" has 8 running and 2 pending pods
    When queue "department" is deleted
    And 2 pods of pod "work" finish
    Then pod "work" has 6 running and 2 pending pods and stays so for 5 cycles
    And pod "work" is pending because "its parent 'department' does not exist"
    And no pods of the cluster were evicted

  Scenario: Work moves to another queue with its pod group
    Given these queues:
      | queue | parent     | quota | limit |
      | full  | department | 0     | 0     |
    And a gang "work" of 2 pods with 1 GPU each is submitted to queue "full"
    And gang "work" has 2 pending pods
    When the pod group of gang "work" becomes:
      """yaml
      spec: {queue: training}
      """
    Then gang "work" has 2 running pods
    And queue "training" uses 2 GPUs
    And queue "full" uses 0 GPUs
