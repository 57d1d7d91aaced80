@gang @podgrouper
Feature: The pods of a workload are one gang, whatever kind the workload is

  Background:
    Given a fleet of 1 node with 8 GPUs each
    And these queues:
      | queue    | quota |
      | training | 8     |

  Scenario Outline: A <kind> of <pods> pods is one gang
    Given 6 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 6 running pods
    When these workloads are submitted:
      | name  | kind   | queue    | pods   | gpus |
      | train | <kind> | training | <pods> | 1    |
    Then <kind> "train" has <pods> pending pods and stays so for 5 cycles
    When 2 pods of pod "filler" finish
    Then eventually within 1 minute <kind> "train" has <pods> running pods

    Examples:
      | kind            | pods |
      | pytorchjob      | 4    |
      | trainjob        | 4    |
      | jobset          | 4    |
      | raycluster      | 4    |
      | leaderworkerset | 4    |

  Scenario: A PyTorchJob is one master and three workers, all or none
    Given 5 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 5 running pods
    When these workloads are submitted:
      | name  | kind       | queue    | pods | gpus |
      | train | pytorchjob | training | 4    | 1    |
    Then pytorchjob "train" is pending because "Resources were found for 3 pods from all sub-groups while sub-group worker requires 3 pods for gang scheduling"

  Scenario: A PyTorchJob may ask for fewer pods to start with
    Given 5 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 5 running pods
    When these workloads are submitted:
      | name  | kind       | queue    | pods | gpus | min |
      | train | pytorchjob | training | 4    | 1    | 2   |
    Then pytorchjob "train" has 3 running and 1 pending pods

  Scenario: A RayJob submits when its cluster runs, and deletes its cluster when it is done
    When these workloads are submitted:
      | name  | kind   | queue    | pods | gpus | run time |
      | train | rayjob | training | 4    | 1    | 30s      |
    Then eventually within 20 seconds rayjob "train" has 5 running pods
    And queue "training" uses 4 GPUs
    And eventually within 2 minutes 8 GPUs are free

  Scenario: A group of a LeaderWorkerSet that loses a pod starts again as a whole
    Given these workloads are submitted:
      | name  | kind            | queue    | pods | gpus | replicas |
      | serve | leaderworkerset | training | 3    | 1    | 2        |
    And leaderworkerset "serve" has 6 running pods
    When pod "serve-0-1" is deleted
    Then eventually within 1 minute leaderworkerset "serve" has 6 running pods

  Scenario: A JobSet is one gang over all of its replicated jobs
    Given 3 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 3 running pods
    When the manifest "gang/jobset.yaml" is applied
    Then jobset "sweep" has 6 pending pods and stays so for 5 cycles
    And jobset "sweep" is pending because "Resources were found for 5 pods from all sub-groups while sub-group workers-replica-0 requires 5 pods for gang scheduling"
    When 1 pod of pod "filler" finishes
    Then jobset "sweep" has 6 running pods

  Scenario: A TrainJob of four nodes is a gang of four
    Given 5 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 5 running pods
    When the manifest "gang/trainjob.yaml" is applied
    Then trainjob "llm" has 4 pending pods and stays so for 5 cycles
    And trainjob "llm" is pending because "Resources were found for 3 pods from all sub-groups while sub-group node-replica-0 requires 4 pods for gang scheduling"
    When 1 pod of pod "filler" finishes
    Then trainjob "llm" has 4 running pods

  Scenario: A Job's pods start one by one unless it asks for a gang
    Given 6 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 6 running pods
    When these workloads are submitted:
      | name  | kind | queue    | pods | gpus | annotations                        |
      | loose | job  | training | 4    | 1    |                                    |
    Then job "loose" has 2 running and 2 pending pods

  Scenario: The annotation batch-min-member makes a Job a gang
    Given 6 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 6 running pods
    When these workloads are submitted:
      | name  | kind | queue    | pods | gpus | min |
      | tight | job  | training | 4    | 1    | 4   |
    Then job "tight" has 4 pending pods and stays so for 5 cycles
    When 2 pods of pod "filler" finish
    Then eventually within 1 minute job "tight" has 4 running pods

  Scenario: A Deployment is not a gang
    Given 6 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 6 running pods
    When these workloads are submitted:
      | name | kind       | queue    | pods | gpus |
      | web  | deployment | training | 4    | 1    |
    Then deployment "web" has 4 running pods
    And 2 pods of pod "filler" were evicted for deployment "web"

  Scenario: A StatefulSet starts with one pod and adds the others as room allows
    Given 6 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 6 running pods
    When these workloads are submitted:
      | name | kind        | queue    | pods | gpus | priority |
      | db   | statefulset | training | 4    | 1    | train    |
    Then statefulset "db" has 2 running and 2 pending pods
    And no pods of the cluster were evicted

  Scenario: Replicated jobs that start in order are not waited for together
    Given 5 pods "filler" with 1 GPU each are submitted to queue "training"
    And queue "training" has 5 running pods
    When this manifest is applied:
      """
      apiVersion: jobset.x-k8s.io/v1alpha2
      kind: JobSet
      metadata:
        name: stages
        labels: {kai.scheduler/queue: training}
      spec:
        replicatedJobs:
        - name: first
          template: &job
            spec:
              parallelism: 2
              completions: 2
              template:
                spec:
                  schedulerName: kai-scheduler
                  restartPolicy: Never
                  containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
        - name: second
          dependsOn: [{name: first, status: Complete}]
          template: *job
      """
    Then jobset "stages" has 2 running pods

  @topology
  Scenario: Segments of a PyTorchJob stand in one rack each
    Given a fleet:
      | pool | nodes | gpus | labels   |
      | r    | 2     | 2    | rack=r   |
      | s    | 2     | 2    | rack=s   |
    And this manifest is applied:
      """
      apiVersion: kai.scheduler/v1alpha1
      kind: Topology
      metadata: {name: hall}
      spec: {levels: [{nodeLabel: rack}]}
      """
    When this manifest is applied:
      """
      apiVersion: kubeflow.org/v1
      kind: PyTorchJob
      metadata:
        name: train
        labels: {kai.scheduler/queue: training}
        annotations: {kai.scheduler/topology: hall}
      spec:
        pytorchReplicaSpecs:
          Worker:
            replicas: 4
            template:
              metadata:
                annotations:
                  kai.scheduler/segment-size: "2"
                  kai.scheduler/segment-topology-required-placement: rack
              spec:
                schedulerName: kai-scheduler
                containers:
                - name: pytorch
                  image: train
                  resources: {limits: {nvidia.com/gpu: 2}}
      """
    Then pytorchjob "train" has 4 running pods
    And the placement matches its snapshot

  Scenario: A ConfigMap sets the priority of a kind, and invalid entries are ignored
    Given config map "priorities" says the priorities of kinds
    And a queue "small" with a quota of 2
    And this manifest is applied:
      """
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: priorities}
      data:
        types: |
          [{"typeName": "StatefulSet", "group": "apps", "priorityName": "build"},
           {"typeName": "Job", "priorityName": "urgent"}]
      """
    When this manifest is applied:
      """
      apiVersion: apps/v1
      kind: StatefulSet
      metadata: {name: notebook, labels: {kai.scheduler/queue: small}}
      spec:
        replicas: 3
        podManagementPolicy: Parallel
        selector: {matchLabels: {app: notebook}}
        template:
          metadata: {labels: {app: notebook}}
          spec:
            schedulerName: kai-scheduler
            containers: [{name: main, image: notebook, resources: {limits: {nvidia.com/gpu: 1}}}]
      """
    Then statefulset "notebook" has 2 running and 1 pending pods and stays so for 5 cycles
    And statefulset "notebook" is pending because "Non-preemptible workload is over quota"
