//! `schedlab top`: the GPUs of the nodes and the use of the queues of a cluster, as tables.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schedlab_api::object;
use schedlab_clusters::api::{Api, is_not_found, to_anyhow_error};
use schedlab_clusters::interrupt::StopSignals;
use schedlab_scheduler::cli::kube_client;
use schedlab_view::drawing::gpus_text;
use schedlab_view::state::{RecordChange, StateBuilder};

use super::CommandOutput;
use crate::cli::Top;
use crate::exit::ExitStatus;

/// What `schedlab up` writes without `--kubeconfig`.
const DEFAULT_KUBECONFIG: &str = "schedlab.kubeconfig";

/// Clears a terminal and moves to its first line.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// API group, plural name and path of the collections that are shown. Nodes and pods exist on every
/// cluster.
const COLLECTIONS: [(&str, &str, &str); 4] = [
    ("", "nodes", "/api/v1/nodes"),
    ("", "pods", "/api/v1/pods"),
    ("scheduling.run.ai", "podgroups", "/apis/scheduling.run.ai/v2alpha2/podgroups"),
    ("scheduling.run.ai", "queues", "/apis/scheduling.run.ai/v2/queues"),
];

/// Prints the tables once, or with `--watch` until Ctrl-C.
pub fn run_top_command(args: &Top) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(print_tables(args))
}

async fn print_tables(args: &Top) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let own = || Some(PathBuf::from(DEFAULT_KUBECONFIG)).filter(|path| path.is_file());
    let kubeconfig = args.kubeconfig.clone().or_else(own);
    let client = kube_client(kubeconfig.as_deref().map(Path::new)).await?;
    let api = Api::new(client);
    let mut signals = StopSignals::listen()?;
    loop {
        let tables = tables_text(&read_state(&api).await?);
        if !args.watch {
            output.print_result(&tables);
            return Ok(ExitStatus::Passed);
        }
        let clear = if std::io::stdout().is_terminal() { CLEAR } else { "" };
        output.print_result(&format!("{clear}{tables}\n"));
        tokio::select! {
            () = tokio::time::sleep(args.interval) => {}
            () = signals.wait_for_signal() => return Ok(ExitStatus::Passed),
        }
    }
}

async fn read_state(api: &Api) -> anyhow::Result<StateBuilder> {
    let mut state = StateBuilder::default();
    for (group, plural, path) in COLLECTIONS {
        let list = match api.get(path).await {
            Ok(list) => list,
            // A cluster without KAI's kinds has no queues.
            Err(error) if is_not_found(&error) && !group.is_empty() => continue,
            Err(error) => {
                return Err(to_anyhow_error(error)).context(format!("cannot list {plural}"));
            }
        };
        for item in object::list(&list, &["items"]) {
            let name = (object::namespace(item).into(), object::name(item).into());
            state.apply_change(&RecordChange::from_object(group, plural, name, Some(item)));
        }
    }
    Ok(state)
}

fn tables_text(builder: &StateBuilder) -> String {
    let state = builder.state();
    let nodes = state.nodes.iter().map(|node| {
        let total = i64::try_from(node.gpus.len()).unwrap_or(i64::MAX).saturating_mul(1000);
        let used = builder.gpus_requested_on(&node.name);
        vec![
            node.name.clone(),
            node.gpus.len().to_string(),
            gpus_text((total - used).max(0)),
            gpus_text(used),
            builder.pods_on(&node.name).to_string(),
            node.problem.unwrap_or("ready").to_owned(),
        ]
    });
    let mut text = table(&["NODE", "GPUS", "FREE", "USED", "PODS", "STATUS"], nodes.collect());
    let amount = |amount: Option<i64>| amount.map_or_else(|| "∞".to_owned(), gpus_text);
    let queues = state.queues.iter().map(|queue| {
        vec![
            format!("{}{}", "  ".repeat(queue.depth), queue.name),
            amount(queue.quota),
            queue.fair_share.map(gpus_text).unwrap_or_default(),
            gpus_text(queue.used),
            gpus_text(queue.borrowed()),
            gpus_text(queue.pending),
        ]
    });
    let heads = ["QUEUE", "QUOTA", "FAIR SHARE", "USED", "OVER QUOTA", "PENDING"];
    let _ = write!(text, "\n{}", table(&heads, queues.collect()));
    if !state.pending.is_empty() {
        let pending = state.pending.iter().map(|workload| {
            vec![
                format!("{}/{}", workload.namespace, workload.title),
                workload.queue.clone(),
                workload.pods.to_string(),
                gpus_text(workload.gpus),
                workload.reason.clone(),
            ]
        });
        let heads = ["PENDING", "QUEUE", "PODS", "GPUS", "REASON"];
        let _ = write!(text, "\n{}", table(&heads, pending.collect()));
    }
    text
}

/// A table with aligned columns; the last one is not padded.
fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(line, "{cell:<width$}  ", width = width(column));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use schedlab_api::{Value, json};

    use super::*;

    fn add(state: &mut StateBuilder, group: &str, plural: &str, object: &Value) {
        let name = (object::namespace(object).into(), object::name(object).into());
        state.apply_change(&RecordChange::from_object(group, plural, name, Some(object)));
    }

    #[test]
    fn the_tables_show_free_gpus_use_of_queues_and_pending_work() {
        let mut state = StateBuilder::default();
        let node =
            json!({"metadata": {"name": "n-1"}, "status": {"capacity": {"nvidia.com/gpu": "4"}}});
        add(&mut state, "", "nodes", &node);
        let queue = json!({
            "metadata": {"name": "team"},
            "spec": {"resources": {"gpu": {"quota": 1, "limit": -1}}},
            "status": {"fairShare": {"nvidia.com/gpu": "3500m"}},
        });
        add(&mut state, "scheduling.run.ai", "queues", &queue);
        let pod = |name: &str, node: Option<&str>| {
            json!({
                "metadata": {
                    "name": name, "namespace": "default",
                    "labels": {"kai.scheduler/queue": "team"},
                },
                "spec": {
                    "nodeName": node,
                    "containers": [{"resources": {"requests": {"nvidia.com/gpu": "2"}}}],
                },
                "status": {"phase": if node.is_some() { "Running" } else { "Pending" }},
            })
        };
        add(&mut state, "", "pods", &pod("a", Some("n-1")));
        add(&mut state, "", "pods", &pod("b", None));
        insta::assert_snapshot!(tables_text(&state), @r"
        NODE  GPUS  FREE  USED  PODS  STATUS
        n-1   4     2     2     1     ready

        QUEUE  QUOTA  FAIR SHARE  USED  OVER QUOTA  PENDING
        team   1      3.5         2     1           2

        PENDING    QUEUE  PODS  GPUS  REASON
        default/b  team   1     2
        ");
    }
}
