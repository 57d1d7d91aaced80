@robustness
Feature: A pod whose binding the API server refuses

  Background:
    Given a fleet of 1 node with 4 GPUs each
    # slack: quota 4
    And these queues:
      | queue    | quota |
      | training | 4     |

  @id:robustness.refused-binding
  Scenario: A refused pod waits, others run, and it starts when its binding is allowed
    Given an admission policy refuses to bind pod "doomed"
    And 1 pod "doomed" with 1 GPU each is submitted to queue "training"
    When 2 pods "fine" with 1 GPU each are submitted to queue "training"
    # slack: 2
    Then eventually within 1 minute pod "fine" has 2 running pods
    And now, pod "doomed" has 1 pending pod
    And 2 GPUs are free
    When no admission policy refuses to bind pod "doomed"
    # slack: 1
    Then eventually within 20 minutes pod "doomed" has 1 running pod
    And 1 GPU is free

  Scenario: A gang with a member that cannot be bound leaves, and others run
    Given an admission policy refuses to bind pod "doomed-2"
    And a gang "doomed" of 3 pods with 1 GPU each is submitted to queue "training"
    And gang "doomed" has 2 running and 1 pending pods
    When 4 pods "fine" with 1 GPU each are submitted to queue "training"
    Then eventually within 5 minutes pod "fine" has 4 running pods
