//! Rewrites the selectors in the query of a request. Names in selectors get the scenario's prefix
//! under the same rules as names in objects.

use std::borrow::Cow;

use super::names::{TenantNames, is_node_lease};
use super::rewrite_request::{RequestTarget, name_in_cluster};
use crate::cluster_scoped::{is_tenant_collection, is_tenant_kind};

/// The query with rewritten selectors. All other parameters stay as they are.
pub(super) fn query_to_cluster(names: &TenantNames, target: &RequestTarget, query: &str) -> String {
    let pairs = query.split('&').map(|pair| {
        let rewrite = match pair.split_once('=') {
            Some(("fieldSelector", _)) => field_selector_to_cluster,
            Some(("labelSelector", _)) => label_selector_to_cluster,
            Some(_) | None => return pair.to_owned(),
        };
        let decoded = form_urlencoded::parse(pair.as_bytes()).next();
        let (parameter, selector) = decoded.unwrap_or_default();
        let selector = rewrite(names, target, &selector);
        let mut encoded = form_urlencoded::Serializer::new(String::new());
        encoded.append_pair(&parameter, &selector).finish()
    });
    pairs.collect::<Vec<_>>().join("&")
}

fn field_selector_to_cluster(
    names: &TenantNames,
    target: &RequestTarget,
    selector: &str,
) -> String {
    let requirements: Vec<Requirement<'_>> = selector.split(',').map(Requirement::parse).collect();
    let kind_of = |reference: &str| {
        let is_kind = |other: &&Requirement<'_>| {
            other.key.strip_suffix(".kind") == Some(reference) && other.operator != "!="
        };
        requirements.iter().find(is_kind).map_or("", |other| other.value)
    };
    let rewritten = requirements.iter().map(|requirement| {
        let value = match requirement.key {
            "metadata.name" => Some(own_name_in_cluster(names, target, requirement.value)),
            "involvedObject.name" | "regarding.name" => {
                let reference = requirement.key.trim_end_matches(".name");
                reference_in_cluster(names, kind_of(reference), requirement.value)
            }
            path => {
                let field = path.rsplit('.').next().unwrap_or(path);
                name_in_cluster(names, target, field, requirement.value)
            }
        };
        requirement.with_value(value)
    });
    rewritten.collect::<Vec<_>>().join(",")
}

/// The name in the cluster of an object of the requested collection.
pub(super) fn own_name_in_cluster(
    names: &TenantNames,
    target: &RequestTarget,
    name: &str,
) -> String {
    match &target.namespace {
        Some(namespace) if is_node_lease(&target.plural, namespace) => names.with_prefix(name),
        None if is_tenant_collection(&target.plural) => {
            names.object_in_cluster(&target.plural, name)
        }
        Some(_) | None => name.to_owned(),
    }
}

/// The name in the cluster of the object to which an event refers; `None` if scenarios do not have
/// cluster-scoped objects of this kind.
fn reference_in_cluster(names: &TenantNames, kind: &str, name: &str) -> Option<String> {
    let plural = if kind == "PriorityClass" { "priorityclasses" } else { "" };
    is_tenant_kind(kind).then(|| names.object_in_cluster(plural, name))
}

fn label_selector_to_cluster(
    names: &TenantNames,
    target: &RequestTarget,
    selector: &str,
) -> String {
    let rewritten = requirements_of_labels(selector).map(|requirement| {
        let Some((key, values)) = set_requirement(requirement) else {
            let requirement = Requirement::parse(requirement);
            let key = requirement.key.trim();
            let value = name_in_cluster(names, target, key, requirement.value.trim());
            return requirement.with_value(value);
        };
        let rewrite = |value: &str| {
            name_in_cluster(names, target, key, value).unwrap_or_else(|| value.to_owned())
        };
        let start = requirement.split('(').next().unwrap_or_default();
        let values: Vec<String> = values.split(',').map(|value| rewrite(value.trim())).collect();
        format!("{start}({})", values.join(","))
    });
    rewritten.collect::<Vec<_>>().join(",")
}

/// The requirements of a label selector: commas in parentheses separate values.
fn requirements_of_labels(selector: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    selector.split(move |character| {
        match character {
            '(' => is_inside = true,
            ')' => is_inside = false,
            _ => {}
        }
        character == ',' && !is_inside
    })
}

/// The key and the values of a requirement such as `key in (a,b)`; `None` for another form.
fn set_requirement(requirement: &str) -> Option<(&str, &str)> {
    let (start, values) = requirement.split_once('(')?;
    let values = values.strip_suffix(')')?;
    let mut words = start.split_whitespace();
    let key = words.next()?;
    matches!(words.next(), Some("in" | "notin")).then_some((key, values))
}

/// One requirement of a selector, such as `spec.nodeName!=n1`.
struct Requirement<'s> {
    key: &'s str,
    /// Empty if the requirement has another form, such as `!key`.
    operator: &'s str,
    value: &'s str,
}

impl<'s> Requirement<'s> {
    fn parse(text: &'s str) -> Self {
        let at = text.find(['=', '!']).unwrap_or(text.len());
        let (key, rest) = text.split_at(at);
        let operator = ["!=", "==", "="].into_iter().find(|operator| rest.starts_with(operator));
        match operator {
            // No name contains a character that field selectors escape.
            Some(operator) if !text.contains('\\') => {
                let (operator, value) = rest.split_at(operator.len());
                Self { key, operator, value }
            }
            Some(_) | None => Self { key: text, operator: "", value: "" },
        }
    }

    /// The text with this value instead of its own; `None` keeps its own.
    fn with_value(&self, value: Option<String>) -> String {
        let value = value.map_or(Cow::Borrowed(self.value), Cow::Owned);
        format!("{}{}{value}", self.key, self.operator)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rewrite_request::rewrite_uri;
    use super::*;

    /// The decoded selector in the cluster for a selector that a client sends.
    fn in_cluster(path: &str, parameter: &str, selector: &str) -> String {
        let names = TenantNames {
            shared_priority_classes: ["train".to_owned()].into(),
            ..TenantNames::for_test()
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        let query = query.append_pair("watch", "true").append_pair(parameter, selector).finish();
        let uri = format!("{path}?{query}").parse().unwrap();
        let (uri, target) = rewrite_uri(&names, &uri);
        assert!(target.is_watch);
        let mut pairs = form_urlencoded::parse(uri.query().unwrap().as_bytes());
        let (_, selector) = pairs.nth(1).unwrap();
        selector.into_owned()
    }

    #[test]
    fn names_in_field_selectors_are_rewritten_as_in_objects() {
        let (pods, one) = ("/api/v1/pods", "/api/v1/namespaces/a/pods");
        let events = "/apis/events.k8s.io/v1/events";
        let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        for (path, selector, expected) in [
            (pods, "spec.nodeName=n", "spec.nodeName=qx1-n"),
            (pods, "spec.nodeName=qx1-n", "spec.nodeName=qx1-n"),
            (pods, "spec.nodeName=", "spec.nodeName="),
            (pods, "spec.nodeName!=", "spec.nodeName!="),
            (pods, "spec.schedulerName=kai-scheduler", "spec.schedulerName=qx1-kai-scheduler"),
            (
                pods,
                "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName==n",
                "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName==qx1-n",
            ),
            (pods, "metadata.namespace!=kube-system", "metadata.namespace!=qx1-kube-system"),
            (pods, "status.nominatedNodeName=n", "status.nominatedNodeName=qx1-n"),
            (one, "metadata.name=p", "metadata.name=p"),
            ("/api/v1/nodes", "metadata.name=n", "metadata.name=qx1-n"),
            ("/api/v1/namespaces", "metadata.name=a", "metadata.name=qx1-a"),
            (classes, "metadata.name=train", "metadata.name=train"),
            (classes, "metadata.name=own", "metadata.name=qx1-own"),
            (leases, "metadata.name=n", "metadata.name=qx1-n"),
            (
                "/api/v1/events",
                "involvedObject.kind=Node,involvedObject.name=n",
                "involvedObject.kind=Node,involvedObject.name=qx1-n",
            ),
            (
                "/api/v1/events",
                "involvedObject.name=p,involvedObject.namespace=a,involvedObject.kind=Pod",
                "involvedObject.name=p,involvedObject.namespace=qx1-a,involvedObject.kind=Pod",
            ),
            (
                events,
                "regarding.kind=Queue,regarding.name=q",
                "regarding.kind=Queue,regarding.name=qx1-q",
            ),
        ] {
            assert_eq!(in_cluster(path, "fieldSelector", selector), expected, "{path}");
        }
    }

    #[test]
    fn names_in_label_selectors_are_rewritten_as_in_objects() {
        let jobs = "/apis/batch/v1/jobs";
        for (selector, expected) in [
            ("kai.scheduler/queue=team", "kai.scheduler/queue=qx1-team"),
            ("a=b,kai.scheduler/queue in (x, y),!c", "a=b,kai.scheduler/queue in (qx1-x,qx1-y),!c"),
            ("kubernetes.io/metadata.name notin (a)", "kubernetes.io/metadata.name notin (qx1-a)"),
            ("app,tier!=front", "app,tier!=front"),
        ] {
            assert_eq!(in_cluster(jobs, "labelSelector", selector), expected);
        }
    }
}
