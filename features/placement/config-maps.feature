@placement @config-maps
Feature: A pod is pending until its required ConfigMaps exist

  A pod that is bound earlier would hold its GPUs without starting a container.

  Background:
    Given a fleet of 1 node with 2 GPUs each
    And a queue "team" with a quota of 2

  Scenario: A pod is bound once its config map is there
    When the manifest "config-maps/reader.yaml" is applied
    Then pod "reader" is pending because "Missing required configmaps: [settings]"
    And 2 GPUs are free
    When the manifest "config-maps/settings.yaml" is applied
    Then pod "reader" is running

  Scenario: A config map that the pod can do without keeps it from nothing
    When the manifest "config-maps/optional.yaml" is applied
    Then pod "reader" is running

  Scenario: A pod that mounts a Secret is bound and starts once that is there
    When the manifest "config-maps/secret-reader.yaml" is applied
    Then eventually within 1 minute pod "reader" has 0 running and 1 starting pods
    When the manifest "config-maps/secret.yaml" is applied
    Then eventually within 5 minutes pod "reader" has 1 running pod
