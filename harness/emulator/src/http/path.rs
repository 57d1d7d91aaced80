//! Parses request paths. It does not know the kinds: the router looks up plural names.

/// A parsed request path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// The path `/`.
    Root,
    /// The health paths `/healthz`, `/livez`, `/readyz` and the paths below them.
    Health,
    /// The path `/version`.
    Version,
    /// The path `/api`: discovery of the core group.
    Core,
    /// The path `/apis`: discovery of the API groups.
    Groups,
    /// The path `/apis/{group}`: discovery of one API group.
    Group(String),
    /// The path `/api/v1` or `/apis/{group}/{version}`: discovery of the resources of a version.
    GroupVersion(String, String),
    /// The path `/openapi/v2`.
    OpenApiV2,
    /// The path `/openapi/v3`: the index of the documents.
    OpenApi,
    /// A path `/openapi/v3/…`: the document of a group and version.
    OpenApiOf(String, String),
    /// A collection, an object or a subresource.
    Target(Target),
    /// Any other path.
    Unknown,
}

/// A collection, an object or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
    /// Whether this is a deprecated watch path such as `/api/v1/watch/pods`.
    pub(super) is_watch: bool,
}

impl Target {
    /// Whether this is `/api/v1/namespaces/…/bindings`, which stores no objects.
    pub(super) fn is_bindings(&self) -> bool {
        self.group.is_empty() && self.plural == "bindings"
    }
}

impl Path {
    pub(super) fn parse(path: &str) -> Self {
        let parts: Vec<String> =
            path.split('/').filter(|part| !part.is_empty()).map(percent_decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts[..] {
            [] => Self::Root,
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["version"] => Self::Version,
            ["api"] => Self::Core,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group(group.to_owned()),
            ["api", version] => Self::GroupVersion(String::new(), version.to_owned()),
            ["apis", group, version] => Self::GroupVersion(group.to_owned(), version.to_owned()),
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApi,
            ["openapi", "v3", "api", version] => Self::OpenApiOf(String::new(), version.to_owned()),
            ["openapi", "v3", "apis", group, version] => {
                Self::OpenApiOf(group.to_owned(), version.to_owned())
            }
            ["api", version, ref rest @ ..] => parse_target("", version, rest),
            ["apis", group, version, ref rest @ ..] => parse_target(group, version, rest),
            _ => Self::Unknown,
        }
    }
}

fn parse_target(group: &str, version: &str, rest: &[&str]) -> Path {
    let (is_watch, rest) = match rest {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut target = Target {
        group: group.to_owned(),
        version: version.to_owned(),
        is_watch,
        ..Target::default()
    };
    let rest = match rest {
        // Subresources of a namespace.
        ["namespaces", _, "status" | "finalize"] => rest,
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => {
            target.namespace = Some((*namespace).to_owned());
            inside
        }
        rest => rest,
    };
    let owned = |text: &&str| Some((*text).to_owned());
    match rest {
        [plural] => (*plural).clone_into(&mut target.plural),
        [plural, name] => {
            (*plural).clone_into(&mut target.plural);
            target.name = owned(name);
        }
        [plural, name, subresource] => {
            (*plural).clone_into(&mut target.plural);
            target.name = owned(name);
            target.subresource = owned(subresource);
        }
        _ => return Path::Unknown,
    }
    Path::Target(target)
}

/// Decodes the escapes `%xx` in a part of a URL.
pub(super) fn percent_decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .filter(|_| byte == b'%')
            .and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> String {
        let path = Path::parse(path);
        let Path::Target(target) = path else { return format!("{path:?}") };
        let part = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
        format!(
            "{}/{} {} in {} name {} part {}{}",
            target.group,
            target.version,
            target.plural,
            part(target.namespace),
            part(target.name),
            part(target.subresource),
            if target.is_watch { " watch" } else { "" }
        )
    }

    #[test]
    fn a_path_names_a_collection_an_object_or_a_part() {
        let cases = [
            ("/api/v1/pods", "/v1 pods in - name - part -"),
            ("/api/v1/namespaces", "/v1 namespaces in - name - part -"),
            ("/api/v1/namespaces/a", "/v1 namespaces in - name a part -"),
            ("/api/v1/namespaces/a/finalize", "/v1 namespaces in - name a part finalize"),
            ("/api/v1/namespaces/a/pods", "/v1 pods in a name - part -"),
            ("/api/v1/namespaces/a/pods/p/binding", "/v1 pods in a name p part binding"),
            ("/apis/apps/v1/namespaces/a/deployments/d", "apps/v1 deployments in a name d part -"),
            (
                "/apis/rbac.x/v1/clusterroles/system%3Anode",
                "rbac.x/v1 clusterroles in - name system:node part -",
            ),
            ("/api/v1/watch/namespaces/a/pods", "/v1 pods in a name - part - watch"),
        ];
        for (path, expected) in cases {
            assert_eq!(of(path), expected, "{path}");
        }
    }

    #[test]
    fn other_paths_are_known_by_name() {
        let cases = [
            ("/", "Root"),
            ("/readyz/ping", "Health"),
            ("/version/", "Version"),
            ("/apis/apps", "Group(\"apps\")"),
            ("/api/v1", "GroupVersion(\"\", \"v1\")"),
            ("/openapi/v3/apis/apps/v1", "OpenApiOf(\"apps\", \"v1\")"),
            ("/openapi/v2", "OpenApiV2"),
            ("/nothing", "Unknown"),
        ];
        for (path, expected) in cases {
            assert_eq!(of(path), expected, "{path}");
        }
    }
}
