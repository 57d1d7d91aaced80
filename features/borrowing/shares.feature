@borrowing @fair-share
Feature: GPUs beyond the quotas are divided by weight

  Background:
    Given a fleet:
      | pool | nodes | gpus |
      | gpu  | 20    | 5    |

  @osmo
  Scenario: OSMO's two pools share twenty spare GPUs five to fifteen
    Given these queues:
      | queue    | quota | weight | limit |
      | training | 30    | 1      | 70    |
      | sim      | 50    | 3      |       |
    When 100 pods "a" with 1 GPU each are submitted to queue "training"
    And 100 pods "b" with 1 GPU each are submitted to queue "sim"
    Then queue "training" has a fair share of 35 GPUs
    And queue "sim" has a fair share of 65 GPUs
    And queue "training" uses 35 GPUs and stays so for 5 cycles
    And queue "sim" uses 65 GPUs

  Scenario: Shares of shares, down the tree
    Given these queues:
      | queue        | parent       | quota | weight |
      | research     |              | 40    | 0      |
      | llm          | research     | 0     | 60     |
      | vision       | research     | 0     | 40     |
      | data-science |              | 35    | 0      |
      | analytics    | data-science | 0     | 70     |
      | inference    | data-science | 0     | 30     |
      | infra        |              | 25    | 0      |
    When 100 pods "llm" with 1 GPU each are submitted to queue "llm"
    And 100 pods "vision" with 1 GPU each are submitted to queue "vision"
    And 100 pods "analytics" with 1 GPU each are submitted to queue "analytics"
    And 100 pods "inference" with 1 GPU each are submitted to queue "inference"
    And 100 pods "infra" with 1 GPU each are submitted to queue "infra"
    Then queue "llm" has a fair share of 24 GPUs
    And queue "vision" has a fair share of 16 GPUs
    And queue "analytics" has a fair share of 25 GPUs
    And queue "inference" has a fair share of 10 GPUs
    And queue "infra" has a fair share of 25 GPUs
    And queue "llm" uses 24 GPUs and stays so for 5 cycles
    And queue "analytics" uses 25 GPUs
    And queue "inference" uses 10 GPUs

  Scenario Outline: Weights <a>, <b> and <c> divide <fleet> spare GPUs into <share-a>, <share-b> and <share-c>
    Given these queues:
      | queue | quota | weight |
      | a     | 0     | <a>    |
      | b     | 0     | <b>    |
      | c     | 40    | <c>    |
    When 100 pods "a" with 1 GPU each are submitted to queue "a"
    And 100 pods "b" with 1 GPU each are submitted to queue "b"
    And 100 pods "c" with 1 GPU each are submitted to queue "c"
    Then queue "a" has a fair share of <share-a> GPUs
    And queue "b" has a fair share of <share-b> GPUs
    And queue "c" has a fair share of <share-c> GPUs
    And queue "a" uses <share-a> GPUs and stays so for 5 cycles

    Examples:
      | a | b | c | fleet | share-a | share-b | share-c |
      | 1 | 1 | 1 | 60    | 20      | 20      | 60      |
      | 1 | 2 | 3 | 60    | 10      | 20      | 70      |
      | 5 | 1 | 0 | 60    | 50      | 10      | 40      |

  Scenario: A queue of higher priority gets spare GPUs first
    Given these queues:
      | queue  | quota | weight | priority |
      | urgent | 10    | 1      | 200      |
      | calm   | 10    | 1      | 100      |
    When 100 pods "calm" with 1 GPU each are submitted to queue "calm"
    And 70 pods "urgent" with 1 GPU each are submitted to queue "urgent"
    Then queue "urgent" has a fair share of 70 GPUs
    And queue "calm" has a fair share of 30 GPUs
    And eventually within 2 minutes queue "urgent" uses 70 GPUs

  Scenario: An idle queue has no share
    Given these queues:
      | queue | quota |
      | idle  | 60    |
      | busy  | 40    |
    When 100 pods "busy" with 1 GPU each are submitted to queue "busy"
    Then queue "idle" has a fair share of 0 GPUs
    And queue "busy" has a fair share of 100 GPUs
