@workload-api @kubernetes-1.37 @GenericWorkload
Feature: What is wrong with a pod or its PodGroup stops only that pod

  Background:
    Given a fleet of 2 nodes with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 16    |
      | research | 16    |

  Scenario: A pod waits for a group that does not exist, and starts once it does
    When these workloads are submitted:
      | name | kind | queue    | gpus | group  |
      | lost | pod  | training | 1    | absent |
      | fine | pod  | training | 1    |        |
    Then pod "fine" is running
    And pod "lost" is pending and stays so for 5 cycles
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: absent, namespace: default, labels: {kai.scheduler/queue: training}}
      spec: {schedulingPolicy: {gang: {minCount: 1}}}
      """
    Then eventually within 10 minutes pod "lost" is running

  Scenario: A pod whose group does not exist says so
    When these workloads are submitted:
      | name | kind | queue    | gpus | group  |
      | lost | pod  | training | 1    | absent |
    Then pod "lost" is pending because "spec.schedulingGroup.podGroupName: got absent, expected the name of a PodGroup of scheduling.k8s.io that exists"

  Scenario: A group whose minimum is above the number of its pods waits, and others run
    When these workloads are submitted:
      | name  | kind     | queue    | pods | min | gpus |
      | large | podgroup | training | 2    | 3   | 1    |
      | fine  | podgroup | training | 2    | 2   | 1    |
    Then podgroup "fine" has 2 running pods
    And podgroup "large" has 2 pending pods and stays so for 5 cycles

  @queue-checks
  Scenario: A pod of another queue than its group does not join it
    Given these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 2    | 1    |
    And podgroup "train" has 2 running pods
    When these workloads are submitted:
      | name  | kind | queue    | gpus | group |
      | other | pod  | research | 1    | train |
      | extra | pod  | training | 1    | train |
    Then pod "extra" is running
    And pod "other" is pending because "label kai.scheduler/queue: got research, with training on PodGroup train, expected the queue of its PodGroup"

  Scenario: A pod that names two groups belongs to neither
    Given a gang "kai" of 2 pods with 1 GPU each is submitted to queue "training"
    And these workloads are submitted:
      | name  | kind     | queue    | pods | gpus |
      | train | podgroup | training | 2    | 1    |
    And podgroup "train" has 2 running pods
    When these workloads are submitted:
      | name | kind | queue    | gpus | group | annotations        |
      | both | pod  | training | 1    | train | pod-group-name=kai |
      | fine | pod  | training | 1    |       |                    |
    Then pod "fine" is running
    And pod "both" is pending because "annotation pod-group-name: got kai, with train in spec.schedulingGroup.podGroupName, expected the group of that PodGroup, or no annotation"

  @pod-groups
  Scenario: A priority class label of KAI that contradicts the group is named
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata: {name: train, namespace: default, labels: {kai.scheduler/queue: training}}
      spec: {schedulingPolicy: {gang: {minCount: 1}}, priorityClassName: train}
      """
    And these workloads are submitted:
      | name | kind | queue    | gpus | group | labels                  | priority |
      | bad  | pod  | training | 1    | train | priorityClassName=build | train    |
      | fine | pod  | training | 1    | train |                         | train    |
    Then pod "fine" is running
    And pod "bad" is pending because "label priorityClassName: got build, with train on PodGroup train, expected spec.priorityClassName of its PodGroup"

  Scenario: A group whose minimum is above the number of its pods says how many are missing
    When these workloads are submitted:
      | name  | kind     | queue    | pods | min | gpus |
      | large | podgroup | training | 2    | 3   | 1    |
    Then pod "large-0" is pending because "Waiting for 3 pods, currently 2 exist, 0 are gated"

  @pod-groups
  Scenario: A minimum in an annotation of KAI that contradicts the group is named
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata:
        name: train
        namespace: default
        labels: {kai.scheduler/queue: training}
        annotations: {kai.scheduler/batch-min-member: "3"}
      spec: {schedulingPolicy: {gang: {minCount: 1}}}
      """
    And these workloads are submitted:
      | name | kind | queue    | gpus | group |
      | bad  | pod  | training | 1    | train |
      | fine | pod  | training | 1    |       |
    Then pod "fine" is running
    And pod "bad" is pending because "annotation kai.scheduler/batch-min-member: got 3, with 1 on PodGroup train, expected spec.schedulingPolicy.gang.minCount of its PodGroup"

  @TopologyAwareWorkloadScheduling
  Scenario: A topology in an annotation of KAI beside that of the group is named
    When this manifest is applied:
      """yaml
      apiVersion: scheduling.k8s.io/v1beta1
      kind: PodGroup
      metadata:
        name: train
        namespace: default
        labels: {kai.scheduler/queue: training}
        annotations: {kai.scheduler/topology: racks, kai.scheduler/topology-required-placement: example.com/rack}
      spec:
        schedulingPolicy: {gang: {minCount: 1}}
        schedulingConstraints: {topology: [{key: example.com/zone}]}
      """
    And these workloads are submitted:
      | name | kind | queue    | gpus | group |
      | bad  | pod  | training | 1    | train |
      | fine | pod  | training | 1    |       |
    Then pod "fine" is running
    And pod "bad" is pending because "annotation kai.scheduler/topology: got racks, expected none beside spec.schedulingConstraints.topology of the PodGroup"
