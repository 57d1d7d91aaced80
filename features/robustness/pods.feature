@robustness @pods
Feature: Pods are created and deleted during scheduling

  Background:
    # slack: 1, 8
    Given a fleet of 1 node with 8 GPUs each
    # slack: quota 8
    And these queues:
      | queue    | quota |
      | training | 8     |

  @bug-kubernetes-134217 @virtual-time
  Scenario: A pod that is deleted while it starts frees its node
    Given these workloads are submitted:
      | name | kind | queue    | pods | gpus | startup |
      | slow | pod  | training | 8    | 1    | 30m     |
    And 5 seconds pass
    And 3 pods "next" with 1 GPU each are submitted to queue "training"
    And 5 seconds pass
    When 3 pods of pod "slow" are deleted
    Then eventually within 10 seconds pod "next" has 3 running pods
    And now pod "slow" has 5 starting pods

  @id:robustness.waiting-recreated
  Scenario: A waiting pod that is recreated under its name is a new pod
    Given 8 pods "work" with 1 GPU each are submitted to queue "training"
    And pod "work" is running
    And 3 pods "next" with 1 GPU each are submitted to queue "training"
    And pod "next" has 3 pending pods
    When 3 pods of pod "next" are deleted
    And pod "next" is submitted again
    Then pod "next" has 3 pending pods
    And pod "next" is pending because "didn't have enough resources: GPUs"
    When 3 pods of pod "work" finish
    Then pod "next" has 3 running pods and stays so for 5 cycles
    And queue "training" uses 8 GPUs

  @id:robustness.running-recreated
  Scenario: A running pod that is recreated under its name is a new pod
    Given 8 pods "work" with 1 GPU each are submitted to queue "training"
    And pod "work" is running
    When 8 pods of pod "work" are deleted
    And 1 second passes
    And pod "work" is submitted again
    Then pod "work" has 8 running pods and stays so for 5 cycles
    And queue "training" uses 8 GPUs

  @id:robustness.resubmitted
  Scenario: Pods that are resubmitted while the old ones terminate start when those are gone
    Given these workloads are submitted:
      | name | kind | queue    | pods | gpus | termination | grace |
      | work | pod  | training | 8    | 1    | 20s         | 60    |
    And pod "work" is running
    When pod "work" is deleted
    And pod "work" is submitted again
    Then pod "work" has 8 running pods and stays so for 5 cycles
    And queue "training" uses 8 GPUs

  Scenario: A job is scaled down and up
    Given these workloads are submitted:
      | name | kind | queue    | pods | gpus |
      | task | job  | training | 4    | 1    |
    And job "task" has 4 running pods
    When job "task" is scaled to 2
    Then job "task" has 2 running pods
    When job "task" is scaled to 3
    Then job "task" has 3 running pods

  @bug-yunikorn-core-90
  @id:devices.freed-by-failure
  Scenario: A pod that failed frees its GPU and its quota
    Given 8 pods "work" with 1 GPU each are submitted to queue "training"
    And pod "work" is running
    And 2 pods "next" with 1 GPU each are submitted to queue "training"
    And pod "next" has 2 pending pods
    When 2 pods of pod "work" fail
    Then pod "next" has 2 running pods
    And queue "training" uses 8 GPUs

  Scenario: A pod whose container failed is not running until it is restarted
    Given these workloads are submitted:
      | name | kind       | queue    | pods | gpus |
      | web  | deployment | training | 2    | 1    |
    And deployment "web" has 2 running pods
    When 1 pod of deployment "web" fails
    Then now deployment "web" has 2 running pods
    When 1 pod of deployment "web" fails
    Then now deployment "web" has 1 running and 1 starting pods
    And eventually within 1 minute deployment "web" has 2 running pods and stays so for 60 cycles

  Scenario: A state that lasts is found after one that does not
    Given these workloads are submitted:
      | name  | kind | queue    | pods | gpus | priority | run time |
      | brief | pod  | training | 1    | 8    | 90       | 2s       |
      | long  | pod  | training | 1    | 8    | 50       |          |
    Then eventually within 1 minute queue "training" has 1 running and 0 pending pods and stays so for 5 cycles

  @virtual-time
  Scenario: A pod that does not terminate keeps its GPUs, and the scheduler waits for it
    Given these workloads are submitted:
      | name  | kind | queue    | pods | gpus | grace | termination |
      | stuck | pod  | training | 8    | 1    | 3600  | 1h          |
    And pod "stuck" is running
    When 8 pods of pod "stuck" are deleted
    And 4 pods "next" with 1 GPU each are submitted to queue "training"
    Then for 40 minutes pod "next" has 4 pending pods
    And after 15 minutes pod "next" has 4 running pods

  @id:devices.foreign-pods
  Scenario: Pods of another scheduler take capacity and are not evicted
    # slack: gpus 1
    Given these workloads are submitted:
      | name    | kind | queue    | pods | gpus | scheduler         | node   |
      | foreign | pod  |          | 5    | 1    | another-scheduler | node-1 |
      | unseen  | pod  | training | 1    | 1    | another-scheduler |        |
    And pod "foreign" is running
    When 8 pods "work" with 1 GPU each are submitted to queue "training"
    Then pod "work" has 3 running and 5 pending pods
    And pod "foreign" has 5 running pods
    And pod "unseen" has 1 pending pod
    And no pods of the cluster were evicted

  @quota
  Scenario: Pods that arrive bound to a node are charged to their queue
    When these workloads are submitted:
      | name | kind | queue    | pods | gpus | node   |
      | own  | pod  | training | 2    | 1    | node-1 |
      | task | job  | training | 3    | 1    | node-1 |
    Then pod "own" is running
    And job "task" is running
    And queue "training" uses 5 GPUs
    When the limit of queue "training" becomes 6
    And 2 pods "next" with 1 GPU each are submitted to queue "training"
    Then pod "next" has 1 running and 1 pending pods
    And queue "training" is pending because "Limit is 6 GPUs"
