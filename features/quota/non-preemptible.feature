@quota
Feature: Non-preemptible work stays inside the quota

  Background:
    Given a fleet of 4 nodes with 8 GPUs each
    And these queues:
      | queue      | parent     | quota |
      | department |            | 12    |
      | team-a     | department | 8     |
      | team-b     | department | 8     |

  @id:quota.non-preemptible
  Scenario: Non-preemptible work over quota waits, and its reason says by how much
    When 10 non-preemptible pods "serve" with 1 GPU each are submitted to queue "team-a"
    Then queue "team-a" has 8 running and 2 pending pods and stays so for 5 cycles
    And queue "team-a" is pending because "Non-preemptible workload is over quota. Workload requested 1 GPUs, but team-a quota is 8 GPUs, while 8 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota."
    And the events match their snapshot

  Scenario: The quota of the department counts as well
    When 8 non-preemptible pods "a" with 1 GPU each are submitted to queue "team-a"
    And everything has settled
    And 8 non-preemptible pods "b" with 1 GPU each are submitted to queue "team-b"
    Then queue "team-a" has 8 running pods
    And queue "team-b" has 4 running and 4 pending pods and stays so for 5 cycles
    And queue "team-b" is pending because "but department quota is 12 GPUs"

  Scenario: Preemptible work beside it may go over quota
    When 8 non-preemptible pods "serve" with 1 GPU each are submitted to queue "team-a"
    And 8 pods "batch" with 1 GPU each are submitted to queue "team-a"
    Then queue "team-a" has 16 running and no pending pods

  Scenario: A larger quota admits it
    Given 10 non-preemptible pods "serve" with 1 GPU each are submitted to queue "team-a"
    And queue "team-a" has 8 running and 2 pending pods
    When the quota of queue "team-a" becomes 9
    Then eventually within 10 seconds queue "team-a" has 9 running and 1 pending pods and stays so for 5 cycles

  @id:quota.non-preemptible-lowered
  Scenario: A quota lowered below usage evicts no pod and admits none
    Given 8 non-preemptible pods "serve" with 1 GPU each are submitted to queue "team-a"
    And queue "team-a" has 8 running pods
    When the quota of queue "team-a" becomes 4
    And 1 non-preemptible pod "late" with 1 GPU each is submitted to queue "team-a"
    Then for 10 minutes queue "team-a" has 8 running and 1 pending pods
    And no pods of the cluster were evicted

  @id:quota.non-preemptible-finished
  Scenario: A pod that finished gives its quota back
    Given 8 non-preemptible pods "serve" with 1 GPU each are submitted to queue "team-a"
    And queue "team-a" has 8 running pods
    And 1 non-preemptible pod "next" with 1 GPU each is submitted to queue "team-a"
    When 1 pod of pod "serve" finishes
    Then eventually within 10 seconds pod "next" is running
    And queue "team-a" uses 8 GPUs
