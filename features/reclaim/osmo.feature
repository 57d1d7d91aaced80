@reclaim @osmo
Feature: OSMO's pools: guarantee, weight and maximum

  Background:
    Given a fleet:
      | pool | nodes | gpus |
      | gpu  | 20    | 5    |
    And these queues:
      | queue    | quota | weight | limit |
      | training | 30    | 1      | 70    |
      | sim      | 50    | 3      |       |

  Scenario: Scenario 1, a pool below its guarantee takes from another's preemptible work
    Given 30 non-preemptible pods "a-np" with 1 GPU each are submitted to queue "training"
    And 40 pods "a-low" with 1 GPU each are submitted to queue "training"
    And 30 non-preemptible pods "b-np" with 1 GPU each are submitted to queue "sim"
    And the cluster has 100 running pods
    When 4 non-preemptible pods "b-more" with 1 GPU each are submitted to queue "sim"
    Then eventually within 2 minutes workload "b-more" has 4 running pods and stays so for 5 cycles
    And 4 pods of workload "a-low" were evicted for queue "sim"
    And 4 pods of the cluster were evicted

  Scenario: Scenario 2, preemptible work of a pool over its share waits
    Given 25 non-preemptible pods "a-np" with 1 GPU each are submitted to queue "training"
    And 40 pods "a-low" with 1 GPU each are submitted to queue "training"
    And 35 non-preemptible pods "b-np" with 1 GPU each are submitted to queue "sim"
    And the cluster has 100 running pods
    When 5 pods "a-more" with 1 GPU each are submitted to queue "training"
    Then for 10 minutes workload "a-more" has 5 pending pods
    And no pods of the cluster were evicted

  Scenario: Scenario 3, non-preemptible work in guarantee takes from its own pool's preemptible work
    Given 25 non-preemptible pods "a-np" with 1 GPU each are submitted to queue "training"
    And 40 pods "a-low" with 1 GPU each are submitted to queue "training"
    And 35 non-preemptible pods "b-np" with 1 GPU each are submitted to queue "sim"
    And the cluster has 100 running pods
    When 5 non-preemptible pods "a-more" with 1 GPU each are submitted to queue "training"
    Then eventually within 2 minutes workload "a-more" has 5 running pods and stays so for 5 cycles
    And 5 pods of workload "a-low" were evicted
    And 5 pods of the cluster were evicted
