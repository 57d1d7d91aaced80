//! Invalid traces for `schedlab simulate`: CSV and JSON lines.

use insta::assert_snapshot;

use crate::lab::Lab;

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,T4\n";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
const POD: &str = "p1,1000,1024,1,1000\n";

/// The message about a trace of these files; each is a name and its content.
fn trace_error(files: [(&str, &str); 3]) -> String {
    let lab = Lab::empty();
    for (name, text) in files {
        lab.write(name, text);
    }
    let [nodes, pods, queues] = files.map(|(name, _)| name);
    let run = lab.run(&["simulate", "--nodes", nodes, "--pods", pods, "--queues", queues]);
    assert_eq!((run.code, &*run.stdout), (2, ""), "{}", run.all());
    run.stderr
}

#[test]
fn malformed_csv_rows_are_rejected() {
    let queues = ("queues.csv", "name,parent,quota\na,,8\n");
    let pods = format!("{PODS}{POD}");
    let nodes = |row: &str| {
        let nodes = format!("sn,cpu_milli,memory_mib,gpu,model\n{row}\n");
        trace_error([("nodes.csv", &nodes), ("pods.csv", &pods), queues])
    };
    let pods = |row: &str| {
        let pods = format!("{PODS}{POD}{row}\n");
        trace_error([("nodes.csv", NODES), ("pods.csv", &pods), queues])
    };
    let queues = |row: &str| {
        let pods = ("pods.csv", &*format!("{PODS}{POD}")).0;
        let queues = format!("name,parent,quota\n{row}\n");
        trace_error([
            ("nodes.csv", NODES),
            (pods, &format!("{PODS}{POD}")),
            ("queues.csv", &queues),
        ])
    };
    let messages = [
        nodes("n1,64000,262144,-2,T4"),
        nodes("n1,64000,262144,99999999999999999999,T4"),
        nodes("n1,64000,262144,2"),
        nodes("n1,64000,262144,2,T4\nn1,64000,262144,2,T4"),
        nodes("n1,64000,262144,2,A b!"),
        nodes("n1,64000,262144,2,\"T4\nn2,64000,262144,2,T4"),
        nodes("\"n1,64000,262144,2,T4\nn2\",64000,262144,2,T4"),
        pods("p2,1000,1024,one,1000"),
        pods("p2,1000,1024,1,1000,more"),
        pods("p1,1000,1024,1,1000"),
        pods("p2,1000,1024,1,\"1000"),
        queues("a,ghost,8"),
        queues("a,b,8\nb,a,8"),
        queues("a,,-7"),
        queues("a,,eight"),
    ];
    assert_snapshot!(messages.concat(), @r#"
    schedlab: nodes.csv:2: gpu: got "-2", expected a whole number from 0 to 1024
    schedlab: nodes.csv:2: gpu: got "99999999999999999999", expected a whole number from 0 to 1024
    schedlab: nodes.csv:2: got 4 values, expected 5 as in the header
    schedlab: nodes.csv:3: name: got the duplicate n1, expected unique names
    schedlab: nodes.csv:2: model: got "A b!", expected letters, digits, '-', '_' and '.', a letter or digit at both ends, at most 63 long
    schedlab: nodes.csv:2: got a quote that this line does not close, expected one row a line
    schedlab: nodes.csv:2: got a quote that this line does not close, expected one row a line
    schedlab: pods.csv:3: num_gpu: got "one", expected a whole number from 0 to 1024
    schedlab: pods.csv:3: got 6 values, expected 5 as in the header
    schedlab: pods.csv:3: name: got the duplicate p1, expected unique names
    schedlab: pods.csv:3: got a quote that this line does not close, expected one row a line
    schedlab: queues.csv:2: parent: got ghost, expected the name of another queue
    schedlab: queues.csv:2: parent: got a cycle above a, expected a tree
    schedlab: queues.csv:2: quota: got "-7", expected a number from 0 to 1000000000, or -1 for no bound
    schedlab: queues.csv:2: quota: got "eight", expected a number from 0 to 1000000000, or -1 for no bound
    "#);
}

#[test]
fn empty_csv_files_and_missing_columns_are_rejected() {
    let pods = format!("{PODS}{POD}");
    let queues = ("queues.csv", "name,parent,quota\na,,8\n");
    let messages = [
        trace_error([("nodes.csv", ""), ("pods.csv", &pods), queues]),
        trace_error([("nodes.csv", NODES), ("pods.csv", "\n\n"), queues]),
        trace_error([("nodes.csv", "sn,gpu\na,1\n"), ("pods.csv", &pods), queues]),
        trace_error([("nodes.csv", NODES), ("pods.csv", "name\np\n"), queues]),
        trace_error([
            ("nodes.csv", NODES),
            ("pods.csv", &pods),
            ("queues.csv", "name,parent\na,\n"),
        ]),
        trace_error([("nodes.csv", "sn,cpu_milli,memory_mib,gpu\n"), ("pods.csv", &pods), queues]),
        trace_error([("nodes.csv", NODES), ("pods.csv", PODS), queues]),
        trace_error([("nodes.csv", NODES), ("pods.csv", &pods), ("queues.csv", "name,quota\n")]),
        trace_error([("nodes.csv", NODES), ("pods.csv", &pods), ("queues.jsonl", "")]),
    ];
    assert_snapshot!(messages.concat(), @"
    schedlab: nodes.csv:1: got an empty file, expected a header of sn, cpu_milli, memory_mib, gpu, model
    schedlab: pods.csv:1: got an empty file, expected a header of name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, pod_phase, creation_time, deletion_time, scheduled_time, queue, priority_class
    schedlab: nodes.csv:1: got the columns sn, gpu without cpu_milli, memory_mib, expected sn, cpu_milli, memory_mib, gpu, model
    schedlab: pods.csv:1: got the columns name without arrives_secs, expected name, arrives_secs, pods, gpus, gpu_milli, gpu_memory_mib, cpu_milli, memory_mib, models, queue, user, kind, priority_class, runs_secs, leaves_after_secs
    schedlab: queues.csv:1: got the columns name, parent without quota, expected name, quota, parent, weight, limit, priority
    schedlab: nodes.csv: got no node, expected at least one
    schedlab: pods.csv: got no pod, expected at least one pod
    schedlab: queues.csv: got no queue, expected at least one
    schedlab: queues.jsonl: got no queue, expected at least one
    ");
}

/// Rows with the right number of columns but impossible values.
#[test]
fn impossible_csv_values_are_rejected() {
    let error = |nodes: &str, pods: &str, queues: &str| {
        let nodes = format!("sn,cpu_milli,memory_mib,gpu,model\n{nodes}\n");
        let pods = format!(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,\
             scheduled_time,priority_class\n{pods}\n"
        );
        let queues = format!("name,parent,quota,weight,limit,priority\n{queues}\n");
        trace_error([("nodes.csv", &nodes), ("pods.csv", &pods), ("queues.csv", &queues)])
    };
    let (node, pod, queue) = ("n1,64000,262144,2,T4", "p,1000,0,1,500,5,9,6,", "a,,8,1,-1,100");
    let messages = [
        error("n1,0,262144,2,T4", pod, queue),
        error("n1,64000,0,2,T4", pod, queue),
        error("n1,64000,262144,2000,T4", pod, queue),
        error("n1,64000,1099511627776,2,T4", pod, queue),
        error(node, "p,1000,0,0,500,5,9,6,", queue),
        error(node, "p,1000,0,1,0,5,9,6,", queue),
        error(node, "p,1000,0,2,500,5,9,6,", queue),
        error(node, "p,1000,0,1099511627776,1000,5,9,6,", queue),
        error(node, "p,1000,0,1,500,-5,9,6,", queue),
        error(node, "p,1000,0,1,500,5,9,4,", queue),
        error(node, "p,1000,0,1,500,5,4,,", queue),
        error(node, "p,1000,0,1,500,5,6,7,", queue),
        error(node, "p,1000,0,1,500,1099511627776,,,", queue),
        error(node, "p,1000,0,1,500,5,9,6,nobody", queue),
        error(node, pod, "a,,1e300,1,-1,100"),
        error(node, pod, "a,,8,-1,-1,100"),
        error(node, pod, "a,,8,1,-1,99999999999"),
    ];
    assert_snapshot!(messages.concat(), @r#"
    schedlab: nodes.csv:2: cpu_milli: got "0", expected a whole number from 1 to 1000000000
    schedlab: nodes.csv:2: memory_mib: got "0", expected a whole number from 1 to 1073741824
    schedlab: nodes.csv:2: gpu: got "2000", expected a whole number from 0 to 1024
    schedlab: nodes.csv:2: memory_mib: got "1099511627776", expected a whole number from 1 to 1073741824
    schedlab: pods.csv:2: gpu_milli: got "500", expected 0, as it has no GPU
    schedlab: pods.csv:2: gpu_milli: got "0", expected a whole number from 1 to 1000, a whole GPU
    schedlab: pods.csv:2: gpu_milli: got "500", expected 1000, as it has several GPUs
    schedlab: pods.csv:2: num_gpu: got "1099511627776", expected a whole number from 0 to 1024
    schedlab: pods.csv:2: creation_time: got "-5", expected a whole number from 0 to 3155760000
    schedlab: pods.csv:2: scheduled_time: got "4", expected a time that is not before creation_time
    schedlab: pods.csv:2: deletion_time: got "4", expected a time that is not before creation_time and scheduled_time
    schedlab: pods.csv:2: deletion_time: got "6", expected a time that is not before creation_time and scheduled_time
    schedlab: pods.csv:2: creation_time: got "1099511627776", expected a whole number from 0 to 3155760000
    schedlab: pods.csv:2: priority_class: got "nobody", expected train, build-preemptible, build, inference
    schedlab: queues.csv:2: quota: got "1e300", expected a number from 0 to 1000000000, or -1 for no bound
    schedlab: queues.csv:2: weight: got "-1", expected a number from 0 to 1000000000
    schedlab: queues.csv:2: priority: got "99999999999", expected a whole number from -2147483648 to 2147483647
    "#);
}

/// An unknown column is an error, as its values would be ignored.
#[test]
fn unknown_csv_columns_are_rejected() {
    let pods = &*format!("{PODS}{POD}");
    let queues = "name,parent,quota\na,,8\n";
    let error = |nodes: &str, pods: &str, queues: &str| {
        trace_error([("nodes.csv", nodes), ("pods.csv", pods), ("queues.csv", queues)])
    };
    let messages = [
        error(NODES, pods, "name,parent,qouta,quota\na,,8,8\n"),
        error(NODES, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,que\np,1,1,1,1000,a\n", queues),
        error("sn,cpu_milli,memory_mib,gpu,gpu\nn1,1,1,1,1\n", pods, queues),
    ];
    assert_snapshot!(messages.concat(), @r#"
    schedlab: queues.csv:1: got the column "qouta", expected name, quota, parent, weight, limit, priority; did you mean `quota`?
    schedlab: pods.csv:1: got the column "que", expected name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, pod_phase, creation_time, deletion_time, scheduled_time, queue, priority_class
    schedlab: nodes.csv:1: got the column gpu again, expected each column once
    "#);
}

#[test]
fn impossible_json_values_are_rejected() {
    let node = "{\"name\": \"n1\", \"gpus\": 8}\n";
    let pod = "{\"name\": \"p\", \"gpus\": 1}\n";
    let queue = "{\"name\": \"a\", \"quota\": 8}\n";
    let error = |nodes: &str, pods: &str, queues: &str| {
        trace_error([("nodes.jsonl", nodes), ("pods.jsonl", pods), ("queues.jsonl", queues)])
    };
    let messages = [
        error("{\"name\": \"n1\", \"cpu_milli\": 0}", pod, queue),
        error("{\"name\": \"n1\", \"memory_mib\": 0}", pod, queue),
        error("{\"name\": \"n1\", \"gpus\": 2000}", pod, queue),
        error("{\"name\": \"n1\", \"model\": \"A b!\"}", pod, queue),
        error(node, "{\"name\": \"p\", \"models\": [\"T4\", \"A b!\"]}", queue),
        error(node, "{\"name\": \"p\", \"pods\": 1099511627776}", queue),
        error(node, "{\"name\": \"p\", \"gpus\": 4096}", queue),
        error(node, "{\"name\": \"p\", \"arrives_secs\": -1}", queue),
        error(node, "{\"name\": \"p\", \"arrives_secs\": 1e12}", queue),
        error(node, "{\"name\": \"p\", \"leaves_after_secs\": -1}", queue),
        error(node, "{\"name\": \"p\", \"priority_class\": \"nobody\"}", queue),
        error(node, pod, "{\"name\": \"a\", \"quota\": 1e300}"),
        error(node, pod, "{\"name\": \"a\", \"quota\": 8, \"weight\": -1}"),
        error(node, pod, "{\"name\": \"a\", \"quota\": 8, \"priority\": 99999999999}"),
    ];
    assert_snapshot!(messages.concat(), @r#"
    schedlab: nodes.jsonl:1: cpu_milli: got 0, expected a whole number from 1 to 1000000000
    schedlab: nodes.jsonl:1: memory_mib: got 0, expected a whole number from 1 to 1073741824
    schedlab: nodes.jsonl:1: gpus: got 2000, expected a whole number from 0 to 1024
    schedlab: nodes.jsonl:1: model: got "A b!", expected letters, digits, '-', '_' and '.', a letter or digit at both ends, at most 63 long
    schedlab: pods.jsonl:1: models: got "A b!", expected letters, digits, '-', '_' and '.', a letter or digit at both ends, at most 63 long
    schedlab: pods.jsonl:1: pods: got 1099511627776, expected a whole number from 1 to 100000
    schedlab: pods.jsonl:1: gpus: got 4096, expected a whole number from 0 to 1024
    schedlab: pods.jsonl:1: arrives_secs: got -1, expected seconds from 0 to those of a hundred years
    schedlab: pods.jsonl:1: arrives_secs: got 1000000000000, expected seconds from 0 to those of a hundred years
    schedlab: pods.jsonl:1: leaves_after_secs: got -1, expected seconds from 0 to those of a hundred years
    schedlab: pods.jsonl:1: priority_class: got "nobody", expected train, build-preemptible, build, inference
    schedlab: queues.jsonl:1: quota: got 1e300, expected a number from 0 to 1000000000, or -1 for no bound
    schedlab: queues.jsonl:1: weight: got -1, expected a number from 0 to 1000000000
    schedlab: queues.jsonl:1: priority: got 99999999999, expected a whole number from -2147483648 to 2147483647
    "#);
}

#[test]
fn malformed_json_lines_are_rejected() {
    let node = "{\"name\": \"n1\", \"gpus\": 8}\n";
    let pod = "{\"name\": \"p\", \"gpus\": 1}\n";
    let queue = "{\"name\": \"a\", \"quota\": 8}\n";
    let error = |nodes: &str, pods: &str, queues: &str| {
        trace_error([("nodes.jsonl", nodes), ("pods.jsonl", pods), ("queues.jsonl", queues)])
    };
    let messages = [
        error("{\"name\": \"n1\", \"gpu\": 8}", pod, queue),
        error("{\"name\": \"n1\"", pod, queue),
        error("{\"name\": \"n1\", \"gpus\": -8}", pod, queue),
        error(node, &format!("{pod}{{\"name\": \"q\", \"pods\": 0}}"), queue),
        error(node, "{\"name\": \"p\", \"queue\": \"nobody\"}", queue),
        error(node, pod, "{\"name\": \"a\", \"parent\": \"b\", \"quota\": 8}"),
        error(node, pod, "{\"name\": \"a\", \"quota\": -8}"),
        error(node, pod, &format!("{queue}{queue}")),
        error(
            node,
            "{\"name\": \"a\", \"pods\": 4}\n{\"name\": \"a-4\"}\n{\"name\": \"a-1\"}",
            queue,
        ),
        error("[\"n1\"]", pod, queue),
        error("8", pod, queue),
        error("nodes", pod, queue),
        error(node, "{\"name\": \"p\", \"gpus\": \"8\"}", queue),
        error(node, "{\"name\": \"p\", \"models\": \"H100\"}", queue),
        error(node, "{\"gpus\": 8}", queue),
        error(node, "{\"name\": \"p\", \"gpus\": 8,}", queue),
        error(node, "{\"name\": \"p\" \"gpus\": 8}", queue),
    ];
    assert_snapshot!(messages.concat(), @r#"
    schedlab: nodes.jsonl:1: got the field "gpu", expected name, cpu_milli, memory_mib, gpus, model; did you mean `gpus`?
    schedlab: nodes.jsonl:1: column 13: got a truncated line, expected one JSON object of this kind
    schedlab: nodes.jsonl:1: gpus: got -8, expected a whole number from 0 on
    schedlab: pods.jsonl:2: pods: got 0, expected a whole number from 1 to 100000
    schedlab: pods.jsonl:1: queue: got nobody, expected a leaf queue: a
    schedlab: queues.jsonl:1: parent: got b, expected the name of another queue
    schedlab: queues.jsonl:1: quota: got -8, expected a number from 0 to 1000000000, or -1 for no bound
    schedlab: queues.jsonl:2: name: got the duplicate a, expected unique names
    schedlab: pods.jsonl:3: name: got a-1, a pod of a in line 1, expected unique names
    schedlab: nodes.jsonl:1: got ["n1"], expected one JSON object of this kind
    schedlab: nodes.jsonl:1: got 8, expected one JSON object of this kind
    schedlab: nodes.jsonl:1: column 2: got an invalid JSON literal, expected one JSON object of this kind
    schedlab: pods.jsonl:1: gpus: got "8", expected a whole number from 0 on
    schedlab: pods.jsonl:1: models: got "H100", expected a list
    schedlab: pods.jsonl:1: name: got nothing, expected a value
    schedlab: pods.jsonl:1: column 25: got trailing comma, expected one JSON object of this kind
    schedlab: pods.jsonl:1: column 14: got "\"gpus\": 8}", expected `,` or `}`
    "#);
}

#[test]
fn missing_traces_are_reported() {
    let run = Lab::empty().run(&["simulate", "--nodes", "n.csv", "--pods", "p.jsonl"]);
    assert_eq!(run.code, 2, "{}", run.all());
    assert_snapshot!(run.stderr, @"schedlab: n.csv: got No such file or directory (os error 2), expected a CSV file that can be read");
}
