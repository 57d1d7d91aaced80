//! The objects of a case that the API server rejects. Equal errors are one message with a count: a
//! fault of one kind of pods would be hundreds of lines otherwise.

use schedlab_api::{Value, object};

/// Errors in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    all: Vec<Rejection>,
}

#[derive(Debug)]
struct Rejection {
    kind: String,
    /// The error without the name of the object.
    nameless: String,
    /// The first error as it was.
    message: String,
    count: usize,
}

impl Rejections {
    /// Records that an object was rejected.
    pub(super) fn record(&mut self, rejected: &Value, error: &anyhow::Error) {
        let kind = object::text(rejected, &["kind"]);
        let name = object::name(rejected);
        let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
        let nameless = causes.join(": ").replace(name, "NAME");
        match self.all.iter_mut().find(|it| it.kind == kind && it.nameless == nameless) {
            Some(known) => known.count += 1,
            None => self.all.push(Rejection {
                kind: kind.to_owned(),
                nameless,
                message: format!("{error:#}"),
                count: 1,
            }),
        }
    }

    /// One message for each error.
    pub(super) fn messages(&self) -> impl Iterator<Item = String> {
        self.all.iter().map(|Rejection { kind, message, count, .. }| match count - 1 {
            0 => message.clone(),
            1 => format!("{message} (and 1 more {kind} alike)"),
            more => format!("{message} (and {more} more {kind}s alike)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};
    use schedlab_api::json;

    use super::*;

    #[test]
    fn equal_errors_are_one_message_with_the_error_of_the_api_server_and_a_count() {
        let mut rejections = Rejections::default();
        let mut reject = |name: &str, cause: &str| {
            let pod = json!({ "kind": "Pod", "metadata": { "namespace": "ns", "name": name } });
            let error = Err::<(), _>(anyhow!("Pod \"{name}\" is invalid: {cause}"));
            let error = error.context(format!("Pod ns/{name}")).unwrap_err();
            rejections.record(&pod, &error);
        };
        reject("a-1", "mountPath: Required value");
        reject("a-2", "mountPath: Required value");
        reject("a-3", "image: Required value");
        reject("a-4", "mountPath: Required value");
        let messages: Vec<String> = rejections.messages().collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        Pod ns/a-1: Pod "a-1" is invalid: mountPath: Required value (and 2 more Pods alike)
        Pod ns/a-3: Pod "a-3" is invalid: image: Required value
        "#);
    }
}
