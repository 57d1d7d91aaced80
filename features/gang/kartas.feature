@gang @podgrouper
Feature: A Karta says how the pods of an unknown kind are grouped

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And the manifest "gang/karta-definition.yaml" is applied
    And these queues:
      | queue    | quota |
      | training | 8     |
    And 5 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 5 running pods

  Scenario: The components of a Karta are sub-groups that start together
    Given the manifest "gang/spark-karta.yaml" is applied
    When the manifest "gang/spark-application.yaml" is applied
    Then workload "pi" has 4 pending pods and stays so for 5 cycles
    And workload "pi" is pending because "Resources were found for 3 pods from all sub-groups while sub-group executor requires 3 pods for gang scheduling"
    When 1 pod of pod "filler" finishes
    Then workload "pi" has 4 running pods

  Scenario: Pods older than their Karta become a gang when the Karta is created
    Given 3 pods "more" with 1 GPU each are submitted to queue "training"
    And queue "training" has 8 running pods
    And the manifest "gang/spark-application.yaml" is applied
    And workload "pi" has 4 pending pods
    When the manifest "gang/spark-karta.yaml" is applied
    And 3 pods of pod "more" finish
    Then workload "pi" has 4 pending pods and stays so for 5 cycles
    When 1 pod of pod "filler" finishes
    Then workload "pi" has 4 running pods
