@quota
Feature: An unusable queue says why, and other queues are scheduled

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue | quota |
      | sound | 8     |

  Scenario: A pod names a queue that does not exist, until it does
    When 1 pod "lost" with 1 GPU each is submitted to queue "nowhere (missing)"
    And 1 pod "fine" with 1 GPU each is submitted to queue "sound"
    Then pod "fine" is running
    And pod "lost" is pending because "nowhere"
    When a queue "nowhere" with a quota of 1 is created
    Then eventually within 10 seconds pod "lost" is running

  Scenario: A queue's parent does not exist
    Given this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2
      kind: Queue
      metadata: {name: orphan}
      spec: {parentQueue: ghost, resources: {gpu: {quota: 4, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
      """
    When 1 pod "lost" with 1 GPU each is submitted to queue "orphan"
    And 1 pod "fine" with 1 GPU each is submitted to queue "sound"
    Then pod "fine" is running
    And pod "lost" is pending because "ghost"

  Scenario: Queues that are each other's parents
    Given this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2
      kind: Queue
      metadata: {name: egg}
      spec: {parentQueue: hen, resources: {gpu: {quota: 4, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
      ---
      apiVersion: scheduling.run.ai/v2
      kind: Queue
      metadata: {name: hen}
      spec: {parentQueue: egg, resources: {gpu: {quota: 4, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
      """
    When 1 pod "lost" with 1 GPU each is submitted to queue "hen"
    And 1 pod "fine" with 1 GPU each is submitted to queue "sound"
    Then pod "fine" is running
    And pod "lost" is pending because "cycle"

  Scenario: Only leaf queues take work
    Given these queues:
      | queue | parent | quota |
      | top   |        | 4     |
      | leaf  | top    | 4     |
    When 1 pod "lost" with 1 GPU each is submitted to queue "top"
    Then pod "lost" is pending because "leaf"

  Scenario: Unset amounts are zero, and nothing may run
    Given this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2
      kind: Queue
      metadata: {name: bare}
      spec: {resources: {gpu: {}, cpu: {}, memory: {}}}
      """
    When 1 pod "lost" with 1 GPU each is submitted to queue "bare"
    Then pod "lost" is pending because "limit" and stays so for 5 cycles
    And an event of queue "bare" says "0"

  Scenario: Quotas above the fleet's capacity raise a warning and over-commit nothing
    Given these queues:
      | queue | quota |
      | big-a | 6     |
      | big-b | 6     |
    When 6 pods "a" with 1 GPU each are submitted to queue "big-a"
    And 6 pods "b" with 1 GPU each are submitted to queue "big-b"
    Then the cluster has 8 running and 4 pending pods and stays so for 5 cycles
    And an event of queue "big-a" says "add up to more than the cluster capacity"

  @osmo
  Scenario: A pool configured by half is warned about
    Given this manifest is applied:
      """yaml
      apiVersion: scheduling.run.ai/v2
      kind: Queue
      metadata: {name: half}
      spec: {resources: {gpu: {quota: 4}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
      """
    Then eventually within 10 seconds an event of queue "half" says "artial"
