//! What `lab verify` says in any lesson.

use crate::computed_text::ComputedText;
use crate::expression::Expression;
use crate::lesson::Advice;

/// Pods that cannot be created: a Deployment or Job exists, and only events say why it has no pods.
const REFUSED_PODS: &str = r#"
[.objects.replicasets[] | select(.spec.replicas > (.status.replicas // 0)) | .metadata.name] as $sets
| [.objects.jobs[] | select(.spec.parallelism > ((.status.active // 0) + (.status.succeeded // 0))) | .metadata.name] as $jobs
| [.objects.events[] | select(.reason == "FailedCreate")
   | .involvedObject.name as $name
   | select(any(($sets + $jobs)[]; . == $name))]
"#;

/// Says for all lessons what comes before their own advice, which would be wrong then.
pub(super) fn before_lessons() -> Vec<Advice> {
    let named = r#"(.involvedObject.kind + " " + .involvedObject.name + ": " + .message)"#;
    vec![advice(
        &format!("{REFUSED_PODS} | length > 0"),
        &format!(
            "Pods cannot be created, so nothing runs and nothing waits. Its event says why:\n\n    \
             {{{{ {REFUSED_PODS} | last | {named} }}}}\n\nCorrect the file and apply it again. \
             `kubectl get priorityclasses` lists the priority classes."
        ),
    )]
}

/// Says for all lessons what is true when they have no advice of their own.
pub(super) fn after_lessons() -> Vec<Advice> {
    let reasons =
        r#"[.pods[] | select(.message | contains("does not exist")) | .message] | unique"#;
    vec![advice(
        &format!("{reasons} | length > 0"),
        &format!(
            "Pods wait because of their queue: {{{{ {reasons} }}}}. `kubectl get queues` shows the \
             names."
        ),
    )]
}

fn advice(condition: &str, text: &str) -> Advice {
    Advice {
        condition: Expression::parse(condition.trim()).expect("the expression is valid"),
        text: ComputedText::parse(text).expect("its expressions are valid"),
        line: 1,
    }
}
