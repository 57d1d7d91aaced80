@reclaim
Feature: Jobs behind one that non-preemptible pods exclude get their queue's share

  Scenario Outline: The first job <why>
    Given a fleet of 2 nodes with 4 GPUs each
    And these queues:
      | queue    | parent   | quota |
      | prod     |          | 2     |
      | research |          | 4     |
      | platform |          | 2     |
      | search   | prod     | 2     |
      | nlp      | research | 4     |
      | nb       | platform | 2     |
    And these workloads are submitted:
      | name | kind | queue  | pods | gpus | priority  | node   |
      | web1 | pod  | search | 1    | 1    | inference | node-1 |
      | web2 | pod  | search | 1    | 1    | inference | node-2 |
      | note | pod  | nb     | 6    | 1    | train     |        |
    And everything has settled
    When these workloads are submitted:
      | name | kind | queue | pods   | gpus   | priority | node   |
      | llm  | gang | nlp   | <pods> | <gpus> | train    | <node> |
      | eval | pod  | nlp   | 4      | 1      | train    |        |
    Then eventually within 10 minutes queue "nlp" has 4 running pods and stays so for 5 cycles
    And queue "nb" has 2 running pods

    Examples:
      | why                                | pods | gpus | node   |
      | needs a whole node                 | 1    | 4    |        |
      | wants a node that has too few left | 4    | 1    | node-1 |
      | needs two whole nodes              | 2    | 4    |        |
