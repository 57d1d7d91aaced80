@lab @original
Feature: Why the lab's own manifests neither borrow nor gang

  Its workloads are Deployments without a priority class. KAI gives the pods of a Deployment the
  class "inference" with value 125, and pods with a value of at least 100 are non-preemptible. They
  must stay within the quota of their queue, as borrowed GPUs could not be reclaimed from them. So B
  stays at 8 GPUs, and C has nothing to reclaim.
  And KAI makes one pod group for each pod of a Deployment, whatever its annotations say: replicas of
  a service have nothing to wait for. So D runs 8 of 10.

  Background:
    Given the fleet "fleets/lab.yaml"
    And the manifest "lab/queues.yaml" is applied

  @quota
  Scenario: A works as it stands
    When the manifest "lab/original/exercise-a-quota.yaml" is applied
    Then queue "team-research" has 8 running and no pending pods and stays so for 5 cycles
    And queue "team-prod" has 8 running and no pending pods

  @borrowing
  Scenario: B stays at the quota with 24 GPUs idle, because its pods cannot be preempted
    When the manifest "lab/original/exercise-b-borrow.yaml" is applied
    Then queue "team-prod" has 8 running and 8 pending pods and stays so for 5 cycles
    And queue "team-prod" is pending because "Non-preemptible workload is over quota. Workload requested 1 GPUs, but team-prod quota is 8 GPUs, while 8 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota."
    And 24 GPUs are free

  @borrowing
  Scenario: B borrows as soon as its pods are preemptible
    Given the manifest "lab/original/exercise-b-borrow.yaml" is applied
    And queue "team-prod" has 8 running and 8 pending pods
    When the manifest "lab/exercise-b-borrow.yaml" is applied
    Then queue "team-prod" has 16 running and no pending pods and stays so for 5 cycles

  @reclaim
  Scenario: C takes free GPUs, for nothing was borrowed
    Given the manifest "lab/original/exercise-b-borrow.yaml" is applied
    And queue "team-prod" has 8 running and 8 pending pods
    When the manifest "lab/original/exercise-c-reclaim.yaml" is applied
    Then queue "team-research" has 8 running and no pending pods
    And queue "team-prod" has 8 running and 8 pending pods
    And no pods of the cluster were evicted

  @gang
  Scenario: D runs eight of ten, because each pod of a Deployment is a group of its own
    Given the manifest "lab/original/exercise-d-filler.yaml" is applied
    And deployment "filler" has 24 running pods
    When the manifest "lab/original/exercise-d-gang.yaml" is applied
    Then deployment "gang" has 8 running and 2 pending pods and stays so for 5 cycles
    And deployment "gang" is pending because "Resources were not found for pod kai-demo/gang-"
    And 0 GPUs are free
