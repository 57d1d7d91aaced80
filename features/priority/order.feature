@priority
Feature: The order of jobs in a queue and of pods in a gang
  Several plugins order jobs, and several order pods. The first plugin that prefers one of two decides;
  the priorities of the plugins give their order.

  Background:
    Given a fleet of 1 node with 2 GPUs each
    And a queue "team" with a quota of 3

  @elastic
  Scenario Outline: The plugin order decides whether surplus pods of higher priority precede new jobs
    Given the scheduler's configuration:
      """yaml
      plugins: {elastic: {priority: <elastic>}}
      """
    And these workloads are submitted:
      | name   | kind | queue | pods | min | gpus | priority | preemptible |
      | filler | pod  | team  | 1    |     | 1    | 90       | no          |
      | grow   | gang | team  | 2    | 1   | 1    | 75       | yes         |
    And the cluster has 2 running pods
    When these workloads are submitted:
      | name  | queue | pods | gpus | priority | preemptible |
      | start | team  | 1    | 1    | 50       | yes         |
    And pod "filler" is deleted
    Then gang "grow" has <grown> running pods
    And pod "start" has <started> running pods

    Examples:
      | elastic | grown | started |
      | 1300    | 2     | no      |
      | 1750    | 1     | 1       |

  @elastic
  Scenario Outline: The leader of a gang starts before older pods
    Given these workloads are submitted:
      | name   | queue | gpus | preemptible |
      | filler | team  | 2    | no          |
    And pod "filler" is running
    And these workloads are submitted:
      | name  | kind | queue | pods | min | gpus | preemptible | labels       |
      | train | gang | team  | 2    | 1   | 1    | yes         | <key>=worker |
    And gang "train" has 2 pending pods
    When these workloads are submitted:
      | name | queue | pods | gpus | gang  | labels       |
      | lead | team  | 1    | 1    | train | <key>=<role> |
    And pod "filler" is deleted
    Then pod "lead" is running
    And gang "train" has 2 running and 1 pending pods

    Examples:
      | key                            | role     |
      | training.kubeflow.org/job-role | master   |
      | training.kubeflow.org/job-role | launcher |
      | ray.io/node-type               | head     |

  @elastic
  Scenario Outline: The plugin order decides whether task priority precedes the leader role
    Given the scheduler's configuration:
      """yaml
      plugins: {taskorder: {priority: <taskorder>}}
      """
    And these workloads are submitted:
      | name   | queue | gpus | preemptible |
      | filler | team  | 2    | no          |
    And pod "filler" is running
    And these workloads are submitted:
      | name  | kind | queue | pods | min | gpus | preemptible | labels                                                                |
      | train | gang | team  | 1    | 1   | 2    | yes         | training.kubeflow.org/job-role=worker, kai.scheduler/task-priority=10 |
    And gang "train" has 1 pending pod
    When these workloads are submitted:
      | name | queue | pods | gpus | gang  | labels                                |
      | lead | team  | 1    | 2    | train | training.kubeflow.org/job-role=master |
    And pod "filler" is deleted
    Then gang "train" has 1 running and 1 pending pod
    And pod "lead" has <leading> running pods

    Examples:
      | taskorder | leading |
      | 900       | 1       |
      | 1250      | no      |
