@placement
Feature: Pods run only on nodes that satisfy their constraints

  Background:
    Given a fleet:
      | pool | nodes | gpus | labels                          | taints              |
      | a    | 2     | 8    | gpu=a100, generation=8, rack=r1 |                     |
      | h    | 2     | 8    | gpu=h100, generation=9, rack=r2 | gpu=h100:NoSchedule |
    # slack: 32
    And a queue "team" with a quota of 32

  @taints
  @id:placement.taint
  Scenario: A taint keeps away pods that do not tolerate it
    When these workloads are submitted:
      | name      | kind       | queue | pods | gpus |
      | strangers | deployment | team  | 3    | 8    |
    Then deployment "strangers" has 2 running and 1 pending pods
    And deployment "strangers" is pending because "2 node(s) had untolerated taint {gpu: h100}"
    # slack: gpus 8 (of the pod that waits)
    When these workloads are submitted:
      | name  | kind       | queue | pods | gpus | tolerations         |
      | guest | deployment | team  | 1    | 8    | gpu=h100:NoSchedule |
      | other | deployment | team  | 1    | 8    | gpu=a100:NoSchedule |
    Then deployment "guest" has 1 running pod
    And deployment "guest" is not on node "a-1"
    And deployment "guest" is not on node "a-2"
    And deployment "other" has 1 pending pod
    And 8 GPUs are free
    And 1 node has no GPU in use

  @taints @bug-kueue-9616
  @id:placement.taint-removed
  Scenario: A pod that is pinned to a tainted node waits for the taint to go
    When these workloads are submitted:
      | name   | kind       | queue | pods | gpus | node selector              |
      | pinned | deployment | team  | 1    | 1    | kubernetes.io/hostname=h-1 |
      | free   | deployment | team  | 1    | 1    |                            |
    Then deployment "free" is running
    And for 1 minute deployment "pinned" is pending
    And deployment "pinned" is pending because "2 node(s) had untolerated taint {gpu: h100}"
    When the taint "gpu" of node "h-1" is removed
    Then deployment "pinned" has 1 running pod
    And deployment "pinned" is on node "h-1"
    And 30 GPUs are free

  @taints @bin-packing
  Scenario: A NoExecute taint evicts pods that do not tolerate it
    Given these workloads are submitted:
      | name | kind       | queue | pods | gpus |
      | web  | deployment | team  | 2    | 4    |
    And deployment "web" is running
    Then deployment "web" is on node "a-1"
    When node "a-1" is tainted with "broken=yes:NoExecute"
    Then deployment "web" has 2 running and no pending pods and stays so for 5 cycles
    And deployment "web" is on node "a-2"

  @affinity
  @id:placement.node-affinity
  Scenario Outline: Required node affinity "<affinity>" leads to <nodes>
    When these workloads are submitted:
      | name | kind       | queue | pods | gpus | node affinity | tolerations |
      | web  | deployment | team  | 5    | 4    | <affinity>    | *           |
    Then deployment "web" has 4 running and 1 pending pods
    And deployment "web" is within 1 "gpu"
    And 16 GPUs are free
    And deployment "web" is not on node "<other>-1"
    And deployment "web" is pending because "2 node(s) didn't match Pod's node affinity/selector"

    Examples:
      | affinity                     | nodes    | other |
      | gpu in h100 b200             | the h100 | a     |
      | gpu notin h100 b200          | the a100 | h     |
      | generation gt 8              | the h100 | a     |
      | generation lt 9; rack exists | the a100 | h     |

  @affinity
  @id:placement.node-selector
  Scenario: A node selector that no node matches is said to be the reason
    When these workloads are submitted:
      | name | kind       | queue | pods | gpus | node selector | tolerations |
      | web  | deployment | team  | 1    | 1    | gpu=b200      | gpu         |
    Then deployment "web" is pending because "4 node(s) didn't match Pod's node affinity/selector"
    When the label "gpu" of node "a-2" becomes "b200"
    Then deployment "web" has 1 running pod
    And deployment "web" is on node "a-2"
    And 31 GPUs are free

  @affinity @bin-packing
  Scenario: A wish for nodes is no condition, and as in KAI it does not outweigh bin-packing
    When these workloads are submitted:
      | name | kind       | queue | pods | gpus | prefer      | tolerations |
      | web  | deployment | team  | 3    | 8    | gpu in h100 | gpu         |
    Then deployment "web" is running
    And node "a-1" has 0 free GPUs
    And node "a-2" has 0 free GPUs

  @affinity
  @id:placement.anti-affinity
  Scenario: Pods that shun each other stand on different nodes, and the last one waits
    When these workloads are submitted:
      | name | kind       | queue | pods | gpus | apart by               | tolerations |
      | web  | deployment | team  | 5    | 1    | kubernetes.io/hostname | *           |
    Then deployment "web" has 4 running and 1 pending pods
    And deployment "web" is on 4 nodes
    And 28 GPUs are free
    And deployment "web" is pending because "4 node(s) didn't match pod anti-affinity rules"

  @affinity
  @id:placement.affinity
  Scenario: Pods that want each other stay in one rack
    When these workloads are submitted:
      | name | kind       | queue | pods | gpus | together by | tolerations |
      | web  | deployment | team  | 5    | 4    | rack        | *           |
    Then deployment "web" has 4 running and 1 pending pods
    And deployment "web" is within 1 "rack"
    And 16 GPUs are free
    And deployment "web" is pending because "2 node(s) didn't match pod affinity rules"

  @spread
  @id:placement.spread
  Scenario: Pods are spread over racks, one more in one than in the other at most
    Given node "h-2" is cordoned
    When these workloads are submitted:
      | name | kind       | queue | pods | gpus | spread by | tolerations |
      | web  | deployment | team  | 6    | 4    | rack      | gpu         |
    Then deployment "web" has 5 running and 1 pending pods
    And node "h-1" has 0 free GPUs
    And 12 GPUs are free

  @id:placement.host-port
  Scenario: A host port is taken once on a node
    # slack: host port 8080
    When these workloads are submitted:
      | name | kind       | queue | pods | gpus | host port | tolerations |
      | web  | deployment | team  | 5    | 1    | 8080      | *           |
    Then deployment "web" has 4 running and 1 pending pods
    And deployment "web" is on 4 nodes
    And 28 GPUs are free
    And deployment "web" is pending because "4 node(s) didn't have free ports for the requested pod ports"

  @bin-packing
  Scenario: A cordoned node takes no new pods and keeps those it has
    Given these workloads are submitted:
      | name | kind       | queue | pods | gpus |
      | old  | deployment | team  | 1    | 1    |
    Then deployment "old" is on node "a-1"
    When node "a-1" is cordoned
    And these workloads are submitted:
      | name | kind       | queue | pods | gpus |
      | new  | deployment | team  | 9    | 1    |
    Then deployment "new" has 8 running and 1 pending pods
    And deployment "new" is on node "a-2"
    And deployment "new" is pending because "1 node(s) were unschedulable"
    And deployment "old" is running

  @virtual-time
  Scenario: Pods of a failed node are replaced on other nodes
    Given these workloads are submitted:
      | name | kind       | queue | pods | gpus |
      | web  | deployment | team  | 2    | 4    |
    And deployment "web" is running
    Then deployment "web" is on node "a-1"
    When node "a-1" dies
    Then eventually within 20 minutes node "a-2" has 0 free GPUs
    And never within 1 hour deployment "web" has at least 1 failed pods

  @id:placement.ephemeral-storage
  Scenario: Pods that request ephemeral storage run where a node has enough
    Given this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Node
      metadata: {name: with-disk, labels: {disk: big}}
      status: {capacity: {cpu: "8", memory: 8Gi, pods: "9", ephemeral-storage: 100Gi}}
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: fits, labels: {kai.scheduler/queue: team}}
      spec: {schedulerName: kai-scheduler, nodeSelector: {disk: big}, containers: [{name: c, image: i, resources: {requests: {ephemeral-storage: 60Gi}}}]}
      """
    Then pod "fits" is running
    When this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Pod
      metadata: {name: waits, labels: {kai.scheduler/queue: team}}
      spec: {schedulerName: kai-scheduler, nodeSelector: {disk: big}, containers: [{name: c, image: i, resources: {requests: {ephemeral-storage: 60Gi}}}]}
      """
    Then pod "waits" is pending because "ephemeral-storage"
