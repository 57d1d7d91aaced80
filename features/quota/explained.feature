@quota
Feature: Why a workload is pending, and what would let it run
  The output of `schedlab-scheduler explain NAMESPACE/NAME`. It tries a suggestion on a copy of the
  cluster before it prints it; the scenarios apply the suggestions.

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And a queue "team" with a quota of 2

  Scenario: The explanation of non-preemptible work says how much quota it needs, and that quota lets it run
    Given these workloads are submitted:
      | name  | kind | queue | pods | min | gpus | priority |
      | serve | job  | team  | 4    | 4   | 1    | build    |
    Then job "serve" has 4 pending pods and stays so for 5 cycles
    And the explanation of job "serve" says "Non-preemptible workload is over quota"
    And the explanation of job "serve" says "raise the quota of queue team"
    And the explanation of job "serve" says "lets new pods borrow"
    When the quota of queue "team" becomes 4
    Then job "serve" has 4 running pods

  Scenario: A Deployment's explanation says that it is not a gang
    Given these workloads are submitted:
      | name | kind       | queue | pods | gpus |
      | web  | deployment | team  | 3    | 1    |
    Then deployment "web" has 2 running and 1 pending pods
    And the explanation of deployment "web" says "web is not a gang"

  Scenario: The reason of a workload that is too large names the nodes that are too small
    Given these workloads are submitted:
      | name | kind | queue | pods | gpus |
      | wide | gang | team  | 1    | 9    |
    Then gang "wide" has 1 pending pod and stays so for 5 cycles
    And gang "wide" is pending because "1 node(s) didn't have enough resources: GPUs"
    And the explanation of gang "wide" says "node-1"

  Scenario: The explanation of an invalid label equals the message on the pod
    When these workloads are submitted:
      | name | kind       | queue | pods | gpus | labels                             |
      | web  | deployment | team  | 1    | 1    | kai.scheduler/preemptibility=maybe |
    Then deployment "web" is pending because "label kai.scheduler/preemptibility: got maybe"
    And the explanation of deployment "web" says "label kai.scheduler/preemptibility: got maybe"
    And the explanation of deployment "web" says "preemptible or non-preemptible"
