//! Traces in each format, and messages about invalid ones. All rows are made up.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use insta::assert_snapshot;
use schedlab_traces::{JobTrace, QueueBy, ReadOptions, TraceFormat, read_jobs, write_jobs};

fn read_with(file: &str, text: &str, options: &ReadOptions) -> Result<JobTrace, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    fs::write(&path, text).unwrap();
    read(&path, options)
}

fn read(path: &Path, options: &ReadOptions) -> Result<JobTrace, String> {
    let folder = format!("{}/", path.parent().unwrap().display());
    read_jobs(path, options).map_err(|error| error.to_string().replace(&folder, ""))
}

/// The format, the notes, and the jobs in the native format.
fn shown(file: &str, text: &str) -> String {
    match read_with(file, text, &ReadOptions::default()) {
        Ok(trace) => text_of(&trace),
        Err(error) => error,
    }
}

fn text_of(trace: &JobTrace) -> String {
    let mut out = Vec::new();
    write_jobs(&mut out, trace).unwrap();
    let notes: Vec<String> = trace.notes.iter().map(|note| format!("note: {note}\n")).collect();
    format!("{}\n{}{}", trace.format, notes.concat(), String::from_utf8(out).unwrap())
}

fn error(text: &str) -> String {
    read_with("t", text, &ReadOptions::default()).unwrap_err()
}

const NATIVE: &str = r#"{"format":"schedlab.dev/trace/v1","start":"2026-11-02T00:00:00Z"}
{"name":"train","pods":4,"cpu_milli":8000,"memory_mib":65536,"gpus":8,"models":["H100","A100"],"queue":"research","user":"ann","kind":"training","priority_class":"train","arrives_secs":60.5,"runs_secs":3600.0}
{"name":"share","gpus":1,"gpu_milli":500,"arrives_secs":70.0,"leaves_after_secs":10.0}
{"name":"notebook","gpus":1,"gpu_memory_mib":20480,"arrives_secs":80.0}
"#;

#[test]
fn a_native_trace_is_written_as_it_was_read() {
    let trace = read_with("t.jsonl", NATIVE, &ReadOptions::default()).unwrap();
    let mut out = Vec::new();
    write_jobs(&mut out, &trace).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), NATIVE);
}

#[test]
fn csv_with_the_native_fields_is_read() {
    let text = "\
name,arrives_secs,pods,gpus,gpu_milli,gpu_memory_mib,models,queue,user,kind,runs_secs,leaves_after_secs
train,60,4,8,,,H100|A100,research,ann,training,3600,
share,70,,1,500,,,,,,,10
notebook,80.25,1,1,,20480,,,,,,
";
    assert_snapshot!(shown("t.csv", text), @r#"
    columns
    {"name":"train","pods":4,"gpus":8,"models":["H100","A100"],"queue":"research","user":"ann","kind":"training","arrives_secs":60.0,"runs_secs":3600.0}
    {"name":"share","gpus":1,"gpu_milli":500,"arrives_secs":70.0,"leaves_after_secs":10.0}
    {"name":"notebook","gpus":1,"gpu_memory_mib":20480,"arrives_secs":80.25}
    "#);
}

#[test]
fn openb_pods_are_jobs() {
    let text = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p1,12000,16384,1,460,V100M16|V100M32,LS,Running,10,70,20
p2,6000,12288,8,1000,,BE,Pending,11,20,
";
    assert_snapshot!(shown("pods.csv", text), @r#"
    openb
    {"name":"p1","cpu_milli":12000,"memory_mib":16384,"gpus":1,"gpu_milli":460,"models":["V100M16","V100M32"],"arrives_secs":10.0,"runs_secs":50.0}
    {"name":"p2","cpu_milli":6000,"memory_mib":12288,"gpus":8,"arrives_secs":11.0,"leaves_after_secs":9.0}
    "#);
}

#[test]
fn jobs_of_acme_are_read() {
    let seren = "\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
101,u1,1,8,128,Other,FAILED,2023-03-01 00:00:05+08:00,2023-03-01 00:00:37+08:00,2023-03-01 00:02:34+08:00,117,32,936.0
102,u2,4.0,32.0,512,Pretrain,COMPLETED,2023-03-01 00:00:10+08:00,2023-03-01 00:01:10+08:00,2023-03-01 01:01:10+08:00,3600,60,115200.0
103,u2,3,16,48,SFT,CANCELLED,2023-03-01 00:00:20+08:00,,2023-03-01 00:00:50+08:00,0,30,0
104,u2,1,1,4,Debug,CANCELLED,2023-03-01 00:00:20+08:00,,,,,
";
    assert_snapshot!(shown("trace_seren.csv", seren), @r#"
    acme
    note: 1 job rounded up: their GPUs are no multiple of their nodes
    note: 1 job skipped: no start_time and no end_time
    {"format":"schedlab.dev/trace/v1","start":"2023-02-28T16:00:05Z"}
    {"name":"101","cpu_milli":128000,"gpus":8,"user":"u1","kind":"Other","arrives_secs":0.0,"runs_secs":117.0}
    {"name":"102","pods":4,"cpu_milli":128000,"gpus":8,"user":"u2","kind":"Pretrain","arrives_secs":5.0,"runs_secs":3600.0}
    {"name":"103","pods":3,"cpu_milli":16000,"gpus":6,"user":"u2","kind":"SFT","arrives_secs":15.0,"leaves_after_secs":30.0}
    "#);
    let kalos = "\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,stop_time
dlcA,u3,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:00+00:00,2023-05-17 11:00:10+00:00,,2023-05-17 11:00:20+00:00,
";
    assert_snapshot!(shown("trace_kalos.csv", kalos), @r#"
    acme
    {"format":"schedlab.dev/trace/v1","start":"2023-05-17T11:00:00Z"}
    {"name":"dlca","pods":8,"cpu_milli":120000,"memory_mib":953674,"gpus":8,"user":"u3","kind":"Other","arrives_secs":0.0,"runs_secs":10.0}
    "#);
}

const HELIOS: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,uA,vcAb,4,16,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:51:01,600,0
8,uB,vcaB,16,32,2,FAILED,2020-06-09 18:41:02,2020-06-09 18:41:05,2020-06-09 18:41:15,10,3
9,uB,vcAb,0,4,1,CANCELLED,2020-06-09 18:41:03,2020-06-09 18:41:03,2020-06-09 18:41:04,1,0
";

/// Two virtual clusters whose names differ in case only stay two queues.
#[test]
fn jobs_of_helios_are_read() {
    assert_snapshot!(shown("cluster_log.csv", HELIOS), @r#"
    helios
    {"format":"schedlab.dev/trace/v1","start":"2020-06-09T18:41:01Z"}
    {"name":"7","cpu_milli":16000,"gpus":4,"queue":"vcab","user":"uA","arrives_secs":0.0,"runs_secs":600.0}
    {"name":"8","pods":2,"cpu_milli":16000,"gpus":8,"queue":"vcab-2","user":"uB","arrives_secs":1.0,"runs_secs":10.0}
    {"name":"9","cpu_milli":4000,"queue":"vcab","user":"uB","arrives_secs":2.0,"runs_secs":1.0}
    "#);
}

#[test]
fn the_user_can_become_the_queue() {
    let options = ReadOptions { queue_by: QueueBy::User, ..ReadOptions::default() };
    let trace = read_with("t", HELIOS, &options).unwrap();
    let queues: Vec<&str> = trace.jobs.iter().map(|job| job.queue.as_str()).collect();
    assert_eq!(queues, ["ua", "ub", "ub"]);
}

#[test]
fn jobs_of_philly_are_read() {
    let text = r#"[
{"status": "Pass", "vc": "ee9e", "jobid": "application_15_01", "attempts": [
  {"start_time": "2017-10-07 01:12:00", "end_time": "2017-10-07 01:13:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]},
  {"start_time": "2017-10-07 01:14:00", "end_time": "2017-10-07 02:14:00", "detail": [{"ip": "m2", "gpus": ["gpu0", "gpu1"]}, {"ip": "m3", "gpus": ["gpu0", "gpu1"]}]}],
 "submitted_time": "2017-10-07 01:11:30", "user": "ce2f"},
{"status": "Killed", "vc": "ee9e", "jobid": "application_15_02", "attempts": [], "submitted_time": "2017-10-07 01:11:31", "user": "ce2f"},
{"status": "Killed", "vc": "6214", "jobid": "application_15_03", "attempts": [{"start_time": "2017-10-07 01:12:00", "end_time": null, "detail": [{"ip": "m1", "gpus": ["gpu5"]}]}], "submitted_time": "2017-10-07 01:11:32", "user": null}
]"#;
    assert_snapshot!(shown("cluster_job_log", text), @r#"
    philly
    note: 1 job skipped: no attempt, so their size is not known
    note: 1 job without an end: no end_time in the last attempt
    {"format":"schedlab.dev/trace/v1","start":"2017-10-07T01:11:30Z"}
    {"name":"application-15-01","pods":2,"gpus":2,"queue":"ee9e","user":"ce2f","arrives_secs":0.0,"runs_secs":3660.0}
    {"name":"application-15-03","gpus":1,"queue":"6214","arrives_secs":2.0}
    "#);
}

/// PAI publishes its tables without a header.
#[test]
fn tasks_of_pai_are_read_with_the_jobs_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = folder.path().join("pai_task_table.csv");
    let rows = "\
j1,ps,2.0,Terminated,1000.0,1600.0,600.0,29.296875,,
j1,worker,4.0,Terminated,1000.0,1600.0,400.0,10.0,50.0,T4
j2,tensorflow,1.0,Running,1010.0,,600.0,1.0,200.0,MISC
j3,tensorflow,1.0,Waiting,,,600.0,1.0,100.0,MISC
";
    fs::write(&tasks, rows).unwrap();
    fs::write(folder.path().join("pai_job_table.csv"), "j1,i1,user-a,Terminated,990.0,1600.0\n")
        .unwrap();
    assert_snapshot!(text_of(&read(&tasks, &ReadOptions::default()).unwrap()), @r#"
    pai
    note: 1 job skipped: no start_time
    note: 1 job without an end: start_time without end_time
    {"format":"schedlab.dev/trace/v1","start":"1970-01-01T08:16:30Z"}
    {"name":"j1-ps","pods":2,"cpu_milli":6000,"memory_mib":27940,"user":"user-a","kind":"ps","arrives_secs":0.0,"runs_secs":600.0}
    {"name":"j1-worker","pods":4,"cpu_milli":4000,"memory_mib":9537,"gpus":1,"gpu_milli":500,"models":["T4"],"user":"user-a","kind":"worker","arrives_secs":0.0,"runs_secs":600.0}
    {"name":"j2-tensorflow","cpu_milli":6000,"memory_mib":954,"gpus":2,"kind":"tensorflow","arrives_secs":20.0}
    "#);
}

#[test]
fn an_invalid_row_is_reported_with_file_line_and_column() {
    let helios =
        |row: &str| error(&format!("{}{row}\n", HELIOS.split_inclusive('\n').next().unwrap()));
    let native = |line: &str| error(&format!("{NATIVE}{line}\n"));
    let columns = |row: &str| error(&format!("name,arrives_secs,gpus,runs_secs\n{row}\n"));
    let messages = [
        helios(
            "7,uA,vcA,four,16,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:51:01,600,0",
        ),
        helios(
            "7,uA,vcA,4,16,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:02,2020-06-09 18:41:00,-2,0",
        ),
        helios("7,uA,vcA,4,16,1,COMPLETED,yesterday,2020-06-09 18:41:02,2020-06-09 18:41:00,-2,0"),
        helios("7,uA,vcA,4,16,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:4"),
        native("{\"name\":\"cut\",\"gpus\":1,\"arri"),
        native("{\"name\":\"a\",\"gpus\":1.5}"),
        native("{\"name\":\"a\",\"runs_secs\":-3}"),
        native("{\"name\":\"a\",\"gpu_memory_mib\":3}"),
        error("{\"format\":\"schedlab.dev/trace/v9\",\"start\":\"2026-11-02T00:00:00Z\"}\n"),
        columns("a,1,1,-5"),
        columns("a,,1,5"),
        columns("a,1,1"),
        error("when,what\n1,2\n"),
        error("job_name,inst_id,user,status,start_time,end_time\n"),
        error(
            "[{\"jobid\": \"j\", \"submitted_time\": \"2017-10-07 01:11:30\",\n \"attempts\": [{\"start_time\": \"2017-10-07 01:12:00\", \"end_time\": \"2017-10-07 01:11:00\"}]}]",
        ),
        error("[{\"jobid\": \"j\", \"submitted_time\": \"2017-10-07"),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    t:2: gpu_num: got "four", expected a whole number from 0 to 1048576
    t:2: end_time: got "2020-06-09 18:41:00", expected a time that is not before submit_time and start_time
    t:2: submit_time: got "yesterday", expected a time such as 2023-03-01 00:18:22+08:00 or 2023-03-01 00:18:22
    t:2: got 9 values, expected 12 as in the header
    t:5: column 28: got a truncated line, expected one JSON object of this kind
    t:5: gpus: got 1.5, expected a whole number from 0 on
    t:5: runs_secs: got -3, expected seconds from 0 to those of a hundred years
    t:5: gpu_memory_mib: got 3, expected nothing, as the job has no GPU
    t:1: format: got "schedlab.dev/trace/v9", expected schedlab.dev/trace/v1
    t:2: runs_secs: got "-5", expected seconds from 0 to those of a hundred years
    t:2: arrives_secs: got nothing, expected seconds from 0 to those of a hundred years
    t:2: got 3 values, expected 4 as in the header
    t:1: got "when,what", expected JSON lines, a header with the columns of openb, acme, helios, pai or name,arrives_secs,…, or Philly's JSON list; --format names the format of a file without a header
    t:1: got the columns job_name, inst_id, user, status, start_time, end_time without task_name, inst_num, plan_cpu, plan_mem, plan_gpu, gpu_type, expected job_name, task_name, inst_num, status, start_time, end_time, plan_cpu, plan_mem, plan_gpu, gpu_type
    t:2: end_time: got "2017-10-07 01:11:00" in job 1, j, expected a time that is not before start_time
    t:1: got a truncated file, expected a JSON list of Philly's jobs
    "#);
    assert_eq!(
        "csv".parse::<TraceFormat>().unwrap_err().to_string(),
        "got format \"csv\", expected one of json-lines, columns, openb, acme, philly, helios, pai"
    );
}

#[test]
fn invalid_rows_are_skipped_and_counted_on_request() {
    let options = ReadOptions { skip_invalid: true, ..ReadOptions::default() };
    let text = "name,arrives_secs,runs_secs\na,1,-5\nb,2,5\nc,3\n";
    let trace = read_with("t", text, &options).unwrap();
    let names: Vec<&str> = trace.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["b"]);
    let [note] = &trace.notes[..] else { panic!("{:?}", trace.notes) };
    assert!(note.starts_with("invalid rows skipped: 2; the first one: "), "{note}");
    assert!(
        note.ends_with(
            "t:2: runs_secs: got \"-5\", expected seconds from 0 to those of a hundred years"
        ),
        "{note}"
    );
}

#[test]
fn models_that_no_node_has_are_named_with_their_number_of_jobs() {
    let text = "{\"name\":\"a\",\"gpus\":1,\"models\":[\"T4\"]}\n\
                {\"name\":\"b\",\"gpus\":1,\"models\":[\"T4\",\"H100\"]}\n\
                {\"name\":\"c\",\"gpus\":1,\"models\":[\"B200\"]}\n";
    let trace = read_with("t", text, &ReadOptions::default()).unwrap();
    let note = schedlab_traces::unknown_models_note(&trace.unknown_models(&["H100"]));
    assert_eq!(note.unwrap(), "no node has these GPU models: B200 (1 job), T4 (1 job)");
    assert_eq!(
        schedlab_traces::unknown_models_note(&trace.unknown_models(&["H100", "T4", "B200"])),
        None
    );
}
