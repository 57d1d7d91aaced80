//! Traces for `simulate`: CSV and JSON lines.

use insta::assert_snapshot;

use crate::lab::Lab;

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,T4\n";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
const POD: &str = "p1,1000,1024,1,1000\n";

/// What a trace of these files is told; each is a name and a text.
fn refused(files: [(&str, &str); 3]) -> String {
    let lab = Lab::empty();
    for (name, text) in files {
        lab.write(name, text);
    }
    let [nodes, pods, queues] = files.map(|(name, _)| name);
    let run = lab.run(&["simulate", "--nodes", nodes, "--pods", pods, "--queues", queues]);
    assert_eq!((run.code, &*run.out), (2, ""), "{}", run.all());
    run.err
}

#[test]
fn rows_of_csv_that_are_broken() {
    let queues = ("queues.csv", "name,parent,quota\na,,8\n");
    let pods = format!("{PODS}{POD}");
    let nodes = |row: &str| {
        let nodes = format!("sn,cpu_milli,memory_mib,gpu,model\n{row}\n");
        refused([("nodes.csv", &nodes), ("pods.csv", &pods), queues])
    };
    let pods = |row: &str| {
        let pods = format!("{PODS}{POD}{row}\n");
        refused([("nodes.csv", NODES), ("pods.csv", &pods), queues])
    };
    let queues = |row: &str| {
        let pods = ("pods.csv", &*format!("{PODS}{POD}")).0;
        let queues = format!("name,parent,quota\n{row}\n");
        refused([("nodes.csv", NODES), (pods, &format!("{PODS}{POD}")), ("queues.csv", &queues)])
    };
    let told = [
        nodes("n1,64000,262144,-2,T4"),
        nodes("n1,64000,262144,99999999999999999999,T4"),
        nodes("n1,64000,262144,2"),
        nodes("n1,64000,262144,2,T4\nn1,64000,262144,2,T4"),
        pods("p2,1000,1024,one,1000"),
        pods("p2,1000,1024,1,1000,more"),
        pods("p1,1000,1024,1,1000"),
        queues("a,ghost,8"),
        queues("a,b,8\nb,a,8"),
        queues("a,,-7"),
        queues("a,,eight"),
    ];
    assert_snapshot!(told.concat(), @r#"
    schedlab: nodes.csv:2: gpu: found "-2", allowed is a whole number from 0 to 2^40
    schedlab: nodes.csv:2: gpu: found "99999999999999999999", allowed is a whole number from 0 to 2^40
    schedlab: nodes.csv:2: found 4 values, allowed is 5 as in the header
    schedlab: nodes.csv:3: name: found n1 again, allowed is each name once
    schedlab: pods.csv:3: num_gpu: found "one", allowed is a whole number from 0 to 2^40
    schedlab: pods.csv:3: found 6 values, allowed is 5 as in the header
    schedlab: pods.csv:3: name: found p1 again, allowed is each name once
    schedlab: queues.csv:2: parent: found ghost, allowed is the name of another queue
    schedlab: queues.csv:2: parent: found a circle above a, allowed is a tree
    schedlab: queues.csv:2: quota: found "-7", allowed is a number from 0 up, or -1 for no bound
    schedlab: queues.csv:2: quota: found "eight", allowed is a number from 0 up, or -1 for no bound
    "#);
}

#[test]
fn lines_of_json_that_are_broken() {
    let node = "{\"name\": \"n1\", \"gpus\": 8}\n";
    let pod = "{\"name\": \"p\", \"gpus\": 1}\n";
    let queue = "{\"name\": \"a\", \"quota\": 8}\n";
    let of = |nodes: &str, pods: &str, queues: &str| {
        refused([("nodes.jsonl", nodes), ("pods.jsonl", pods), ("queues.jsonl", queues)])
    };
    let told = [
        of("{\"name\": \"n1\", \"gpu\": 8}", pod, queue),
        of("{\"name\": \"n1\"", pod, queue),
        of("{\"name\": \"n1\", \"gpus\": -8}", pod, queue),
        of(node, &format!("{pod}{{\"name\": \"q\", \"pods\": 0}}"), queue),
        of(node, "{\"name\": \"p\", \"queue\": \"nobody\"}", queue),
        of(node, pod, "{\"name\": \"a\", \"parent\": \"b\", \"quota\": 8}"),
        of(node, pod, "{\"name\": \"a\", \"quota\": -8}"),
        of(node, pod, &format!("{queue}{queue}")),
    ];
    assert_snapshot!(told.concat(), @r"
    schedlab: nodes.jsonl:1: column 20: found unknown field `gpu`, expected one of `name`, `cpu_milli`, `memory_mib`, `gpus`, `model`, allowed is one JSON object of this kind
    schedlab: nodes.jsonl:1: column 13: found EOF while parsing an object, allowed is one JSON object of this kind
    schedlab: nodes.jsonl:1: column 25: found invalid value: integer `-8`, expected a whole number from 0 on, allowed is one JSON object of this kind
    schedlab: pods.jsonl:2: pods: found 0, allowed is at least 1
    schedlab: pods.jsonl:1: queue: found nobody, allowed is a leaf queue: a
    schedlab: queues.jsonl:1: parent: found b, allowed is the name of another queue
    schedlab: queues.jsonl:1: quota: found -8, allowed is a number from 0 up, or -1 for no bound
    schedlab: queues.jsonl:2: name: found a again, allowed is each name once
    ");
}

#[test]
fn traces_that_are_not_there() {
    let run = Lab::empty().run(&["simulate", "--nodes", "n.csv", "--pods", "p.jsonl"]);
    assert_eq!(run.code, 2, "{}", run.all());
    assert_snapshot!(run.err, @"schedlab: n.csv: found No such file or directory (os error 2), allowed is a CSV file that can be read");
}
