@placement @topology
Feature: Pods that talk to each other run close together

  Background:
    Given a fleet:
      | pool | nodes | gpus | labels               |
      | a1   | 2     | 4    | zone=a, rack=rack-a1 |
      | a2   | 2     | 4    | zone=a, rack=rack-a2 |
      | b1   | 2     | 4    | zone=b, rack=rack-b1 |
    And a queue "team" with a quota of 24
    And this manifest is applied:
      """
      apiVersion: kai.scheduler/v1alpha1
      kind: Topology
      metadata: {name: hall}
      spec:
        levels:
        - {nodeLabel: zone}
        - {nodeLabel: rack, alias: rack-level}
      """

  Scenario: A level has a name of its own, which may change while the levels stay
    Then this manifest is refused with 'each alias must be unique':
      """
      apiVersion: kai.scheduler/v1alpha1
      kind: Topology
      metadata: {name: twice}
      spec: {levels: [{nodeLabel: zone, alias: here}, {nodeLabel: rack, alias: here}]}
      """
    And this manifest is refused with 'an alias must not be a nodeLabel of the topology':
      """
      apiVersion: kai.scheduler/v1alpha1
      kind: Topology
      metadata: {name: mixed}
      spec: {levels: [{nodeLabel: zone, alias: rack}, {nodeLabel: rack}]}
      """
    And this manifest is refused with 'levels are immutable, except for their aliases':
      """
      apiVersion: kai.scheduler/v1alpha1
      kind: Topology
      metadata: {name: hall}
      spec: {levels: [{nodeLabel: zone}, {nodeLabel: block}]}
      """
    When this manifest is applied:
      """
      apiVersion: kai.scheduler/v1alpha1
      kind: Topology
      metadata: {name: hall}
      spec: {levels: [{nodeLabel: zone}, {nodeLabel: rack, alias: row}]}
      """
    And this manifest is applied:
      """
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: train
        labels: {kai.scheduler/queue: team}
        annotations:
          kai.scheduler/topology: hall
          kai.scheduler/topology-required-placement: row
      spec:
        parallelism: 2
        completions: 2
        template:
          metadata: {labels: {kai.scheduler/queue: team}}
          spec:
            schedulerName: kai-scheduler
            restartPolicy: Never
            containers:
            - {name: main, image: train, resources: {limits: {nvidia.com/gpu: 4}}}
      """
    Then job "train" has 2 running pods
    And job "train" is within 1 "rack"

  Scenario: A job that needs one rack gets one, though single nodes elsewhere are fuller
    Given 3 pods "other" with 1 GPU each are submitted to queue "team"
    And everything has settled
    When this manifest is applied:
      """
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: train
        labels: {kai.scheduler/queue: team}
        annotations:
          kai.scheduler/batch-min-member: "2"
          kai.scheduler/topology: hall
          kai.scheduler/topology-required-placement: rack
      spec:
        parallelism: 2
        completions: 2
        template:
          metadata: {labels: {kai.scheduler/queue: team}}
          spec:
            schedulerName: kai-scheduler
            restartPolicy: Never
            containers:
            - {name: main, image: train, resources: {limits: {nvidia.com/gpu: 4}}}
      """
    Then job "train" has 2 running pods
    And job "train" is within 1 "rack"

  Scenario: A job for which no rack is large enough waits with a reason that says so
    When this manifest is applied:
      """
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: train
        labels: {kai.scheduler/queue: team}
        annotations:
          kai.scheduler/batch-min-member: "3"
          kai.scheduler/topology: hall
          kai.scheduler/topology-required-placement: rack-level
      spec:
        parallelism: 3
        completions: 3
        template:
          metadata: {labels: {kai.scheduler/queue: team}}
          spec:
            schedulerName: kai-scheduler
            restartPolicy: Never
            containers:
            - {name: main, image: train, resources: {limits: {nvidia.com/gpu: 4}}}
      """
    Then job "train" has 3 pending pods and stays so for 5 cycles
    And job "train" is pending because "node-group rack-a1 can allocate only 2 of 3 required pods"

  Scenario: A job that prefers one rack falls back to its zone
    When this manifest is applied:
      """
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: train
        labels: {kai.scheduler/queue: team}
        annotations:
          kai.scheduler/batch-min-member: "3"
          kai.scheduler/topology: hall
          kai.scheduler/topology-required-placement: zone
          kai.scheduler/topology-preferred-placement: rack
      spec:
        parallelism: 3
        completions: 3
        template:
          metadata: {labels: {kai.scheduler/queue: team}}
          spec:
            schedulerName: kai-scheduler
            restartPolicy: Never
            containers:
            - {name: main, image: train, resources: {limits: {nvidia.com/gpu: 4}}}
      """
    Then job "train" has 3 running pods
    And job "train" is within 1 "zone"
    And job "train" is within 2 "rack"

  Scenario: An unknown topology is named, and looked at again when it is there
    When this manifest is applied:
      """
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: train
        labels: {kai.scheduler/queue: team}
        annotations:
          kai.scheduler/batch-min-member: "2"
          kai.scheduler/topology: late
          kai.scheduler/topology-required-placement: rack
      spec:
        parallelism: 2
        completions: 2
        template:
          metadata: {labels: {kai.scheduler/queue: team}}
          spec:
            schedulerName: kai-scheduler
            restartPolicy: Never
            containers:
            - {name: main, image: train, resources: {limits: {nvidia.com/gpu: 4}}}
      """
    Then job "train" is pending because "topology late with level rack does not exist"
    When this manifest is applied:
      """
      apiVersion: kai.scheduler/v1alpha1
      kind: Topology
      metadata: {name: late}
      spec: {levels: [{nodeLabel: rack}]}
      """
    Then job "train" has 2 running pods
    And job "train" is within 1 "rack"
