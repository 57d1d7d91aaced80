@quota
Feature: Settings ignore the tree of queues or all quotas
  As in KAI: without `fullHierarchyFairness` all queues with a parent are siblings, and without plugin
  `proportion` queues have neither quotas nor limits.

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue      | parent     | quota | limit |
      | department |            | 2     | 2     |
      | team       | department | 4     | 4     |

  Scenario Outline: A department's limit holds where shares are divided at every level
    Given the scheduler's configuration:
      """yaml
      fullHierarchyFairness: <full>
      """
    When 6 pods "work" with 1 GPU each are submitted to queue "team"
    Then queue "team" has <running> running and <pending> pending pods and stays so for 5 cycles

    Examples:
      | full  | running | pending |
      | true  | 2       | 4       |
      | false | 4       | 2       |

  Scenario: In a flat hierarchy a queue without a parent is ignored
    Given the scheduler's configuration:
      """yaml
      fullHierarchyFairness: false
      """
    And a queue "alone" with a quota of 8
    When 1 pod "work" with 1 GPU each is submitted to queue "alone"
    Then queue "alone" is pending because "Queue 'alone' does not exist"

  Scenario: Without plugin proportion no bound of a queue holds
    Given the scheduler's configuration:
      """yaml
      plugins: {proportion: {enabled: false}}
      """
    When 6 pods "work" with 1 GPU each are submitted to queue "team"
    Then queue "team" has 6 running pods
