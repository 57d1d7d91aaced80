//! Examples at the end of `--help`.

pub(super) const RUN_EXAMPLES: &str = "\
Defaults of options come from schedlab.toml in the current folder, and from the environment: \
SCHEDLAB_RETRIES=1 is --retries 1. An option on the command line comes before the environment, \
that before the profile, that before [run] of the file.

Examples:
  schedlab run features/gang --tags 'not @slow'
  schedlab run features/reclaim/owner-returns.feature:13 --seed 1
  schedlab run --profile ci
  schedlab run --shard 1/4 --timings results/latest
  schedlab run features --cluster control-plane --baseline results/emulator/latest";

pub(super) const INIT_EXAMPLE: &str = "\
Example:
  schedlab init my-scheduler && cd my-scheduler && schedlab run
  schedlab init --with-scheduler && schedlab conform --target target.yaml";

pub(super) const SCHEDULER_EXAMPLES: &str = "\
Examples:
  schedlab scheduler crds | kubectl apply -f -
  schedlab scheduler run --config scheduler.yaml";

pub(super) const CONFORM_EXAMPLES: &str = "\
Examples:
  schedlab conform --report report
  schedlab conform --target kube-scheduler --implementation-version v1.37.2 --report report
  schedlab conform --scheduler 'process:my-scheduler {kubeconfig}' --target my-target.yaml \\
    --require gang --max-skipped 0";

pub(super) const UP_EXAMPLE: &str = "\
Examples:
  schedlab up --fleet fixtures/fleets/lab.yaml --kubeconfig /tmp/kubeconfig
  schedlab up --record session.feature";

pub(super) const SIMULATE_EXAMPLES: &str = "\
Examples:
  schedlab simulate --nodes nodes.csv --pods pods.csv --compress 2
  schedlab simulate --nodes nodes.csv --pods pods.csv --inflate 130% --json";

pub(super) const BISECT_EXAMPLES: &str = "\
Examples:
  schedlab bisect features/bugs/acme-1234.feature --good git:v1.2 --bad git:HEAD
  schedlab bisect bug.feature --good 'process:v1/scheduler {kubeconfig}' \\
    --between 'process:v2/scheduler {kubeconfig}' --bad 'process:v3/scheduler {kubeconfig}' \\
    -- --cluster control-plane";

pub(super) const UPGRADE_EXAMPLES: &str = "\
Examples:
  schedlab upgrade --from image:schedlab/scheduler:v1 --to image:schedlab/scheduler:v2
  schedlab upgrade --way rolling --from chart:kind-configs/chart \\
    --to 'chart:kind-configs/chart --set image.tag=dev'";
