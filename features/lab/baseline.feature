@lab @kube
Feature: What the default kube-scheduler does with a shared fleet

  This is the lab's starting point. The order of arrival decides which pods run: there are no queues,
  and the ten pods of a job are scheduled one by one.

  Background:
    Given the fleet "fleets/lab.yaml"
    And the scheduler profile "kube"
    And the manifest "lab/baseline-scenario-1.yaml" is applied
    And pod "cuda-batch-small" is running

  Scenario: Forty pods for 31 free GPUs leave nine pending
    When the manifest "lab/baseline-queue-pressure.yaml" is applied
    Then deployment "queue-pressure" has 31 running and 9 pending pods and stays so for 5 cycles
    And deployment "queue-pressure" is pending because "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."
    And 0 GPUs are free
    And the placement matches its snapshot

  @gang @virtual-time
  Scenario: A job of ten holds eight GPUs and makes no progress
    Given 23 pods "others" with 1 GPU each are submitted to queue "unused (missing)"
    And pod "others" is running
    When the manifest "lab/exercise-d-gang-default-scheduler.yaml" is applied
    Then job "trap" has 8 running and 2 pending pods
    And for 24 hours job "trap" has 8 running and 2 pending pods
