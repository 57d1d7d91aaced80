@robustness
Feature: A pod that cannot be bound does not keep others from its GPU

  After each failure the pod gives up its node for a time that grows. It keeps the error as its
  condition, and is tried earlier when something changes that may let the binding succeed.

  Background:
    Given a fleet:
      | pool | nodes | gpus | gpu memory |
      | n    | 1     | 1    | 16Gi       |
    And a queue "team" with a quota of 4
    # The namespace of reservation pods is missing: each attempt to bind "doomed" fails.
    And GPUs that pods share are reserved
    And these workloads are submitted:
      | name   | kind | queue | pods | gpus | annotations      |
      | doomed | pod  | team  | 1    |      | gpu-fraction=0.5 |
    And 30 seconds pass

  @bug-KAI-2074
  Scenario: The GPU goes to a pod that can be bound
    When 1 pod "fine" with 1 GPU each is submitted to queue "team"
    Then eventually within 1 minute pod "fine" has 1 running pod

  Scenario: A pod in its bind backoff is not charged to its queue
    When 2 minutes pass
    Then 1 GPUs are free
    And pod "doomed" is pending because "cannot reserve a GPU: namespaces"
    And an event of pod "doomed" says "BindingError"
    And queue "team" uses 0 GPUs

  Scenario: A failed binding is retried soon after the cause is removed
    When 5 minutes pass
    And this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Namespace
      metadata: {name: kai-resource-reservation}
      """
    Then eventually within 20 seconds pod "doomed" has 1 running pod

  Scenario: A restarted scheduler does not try an unbindable pod first
    When the scheduler is stopped
    And 1 pod "fine" with 1 GPU each is submitted to queue "team"
    And the scheduler is started
    Then eventually within 10 seconds pod "fine" has 1 running pod

  Scenario: An unreachable webhook blocks the pods of its namespace and no others
    Given this manifest is applied:
      """yaml
      apiVersion: v1
      kind: Namespace
      metadata: {name: guarded, labels: {guarded: "yes"}}
      ---
      apiVersion: admissionregistration.k8s.io/v1
      kind: ValidatingWebhookConfiguration
      metadata: {name: guard}
      webhooks:
      - name: guard.example.com
        admissionReviewVersions: [v1]
        sideEffects: None
        failurePolicy: Fail
        timeoutSeconds: 1
        clientConfig: {url: "https://127.0.0.1:1/"}
        namespaceSelector: {matchLabels: {guarded: "yes"}}
        rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/binding]}]
      ---
      apiVersion: v1
      kind: Pod
      metadata: {name: denied, namespace: guarded, labels: {kai.scheduler/queue: team}}
      spec:
        schedulerName: kai-scheduler
        containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
      """
    And 30 seconds pass
    When 1 pod "fine" with 1 GPU each is submitted to queue "team"
    Then eventually within 1 minute pod "fine" has 1 running pod
