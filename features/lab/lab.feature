@lab
Feature: The operations lab

  Scenario: Default kube-scheduler runs 31 of 40 pods and knows no queue
    Given the scheduler profile "kube"
    And a fleet of 4 nodes with 8 GPUs each
    And these workloads are submitted:
      | name             | gpus |
      | cuda-batch-small | 1    |
    And pod "cuda-batch-small" is running
    When these workloads are submitted:
      | name           | kind       | pods | gpus |
      | queue-pressure | deployment | 40   | 1    |
    Then deployment "queue-pressure" has 31 running and 9 pending pods
    And deployment "queue-pressure" is pending because "Insufficient nvidia.com/gpu"
    And the placement matches its snapshot
